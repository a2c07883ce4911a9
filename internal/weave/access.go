package weave

import (
	"fmt"
	"go/ast"
	"path/filepath"
	"slices"
	"strings"
)

// Rules say which accesses of a package an explorer controls.
type Rules struct {
	// Calls maps functions and methods, as the source calls them, to the start of the call that replaces
	// them. A name that begins with a point stands for the method of every receiver that ends with the rest;
	// the replacement gets the receiver as its first argument.
	Calls map[string]string
	// Except lists starts of a first argument for which a call is not replaced, because it is not shared.
	Except []string
	// Point is a statement that Weave inserts before each statement that contains a text of Memory, and at
	// the start of the methods in Entries. These access memory without a call in Calls.
	Point   string
	Memory  []string
	Entries []string
	// Replace makes constants smaller, so that an exploration needs fewer steps.
	Replace []Change
}

// Coll has the rules of package coll. The package's functions with prefix explored are in its file with build tag
// explore.
var Coll = Rules{
	Calls: map[string]string{
		"atomic.LoadUint64":  "exploredLoad(",
		"atomic.StoreUint64": "exploredStore(",
		"atomic.SwapUint64":  "exploredSwap(",
		"atomic.OrUint64":    "exploredOr(",
		"rma.StoreRelease":   "exploredRelease(",
		"rma.RingBell":       "exploredRing(",
		"rma.Processor":      "exploredProcessor(",
		"ids.Lock":           "exploredLock(&ids.Mutex",
		"ids.Unlock":         "exploredUnlock(&ids.Mutex",
		"areas.Lock":         "exploredLock(&areas.Mutex",
		"areas.Unlock":       "exploredUnlock(&areas.Mutex",
		".waiter.Wait":       "exploredWait(",
		".failures.Epoch":    "exploredEpoch(",
		".failures.Dead":     "exploredDead(",
		".failures.Failure":  "exploredFailure(",
		".process.Read":      "exploredRead(",
		".process.Write":     "exploredWrite(",
	},
	Except:  []string{"&t.busy", "&s.busy"},
	Point:   "exploredPoint();",
	Memory:  []string{"copy(", "rma.Copy", "rma.Move", "op(dst, ", "op(acc, ", "*(*", ".Flags", ".Epoch,", "v.Epoch", "copyStrided[T]("},
	Entries: []string{"contributionOf", "address", "elements"},
	Replace: []Change{
		{"coll/shared.go", "const pieceBytes = 64 << 10", "const pieceBytes = 4 << 10"},
		{"coll/shared.go", "/ pieceBytes, 64", "/ pieceBytes, 2"},
		{"coll/direct.go", "directBroadcast = 32 << 10", "directBroadcast = 9 << 10"},
		{"coll/direct.go", "directReduce    = 16 << 10", "directReduce    = 9 << 10"},
		{"coll/direct.go", "directPart  = 1 << 20  ", "directPart  = 4 << 10"},
		{"coll/direct.go", "directBlock = 128 << 10", "directBlock = 4 << 10"},
		{"coll/rooted.go", "rootFolds   = 32 << 10", "rootFolds   = 9 << 10"},
		{"coll/lend.go", "const lendLeast = 48 << 10", "const lendLeast = 12 << 10"},
		{"coll/choice.go", "const directTrials = 128", "const directTrials = 2"},
		{"coll/turns.go", "const homeFirst = 1024", "const homeFirst = 0"},
		{"coll/turns.go", "const lingerLooks = 500", "const lingerLooks = 2"},
	},
}

// Weave rewrites a package by rules. It reads the files from the overlay, so it must come after Switch.
func (o *Overlay) Weave(dir string, r Rules) error {
	for _, c := range r.Replace {
		text, err := o.Read(c.File)
		if err != nil {
			return err
		}
		if !strings.Contains(text, c.Old) {
			return fmt.Errorf("%s does not contain %q, want it at least once", c.File, c.Old)
		}
		o.Write(c.File, strings.ReplaceAll(text, c.Old, c.New)) // all places: a mutant's copy of a function may contain it, too
	}
	names, err := filepath.Glob(filepath.Join(o.root, dir, "*.go"))
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "explored.go") {
			continue
		}
		file := filepath.Join(dir, filepath.Base(name))
		text, err := o.Read(file)
		if err != nil {
			return err
		}
		s, err := parse(file, text)
		if err != nil {
			return err
		}
		if edits := s.weave(r); len(edits) > 0 {
			edits = append(edits, edit{at: len(text), text: s.keepImports()})
			o.Write(file, apply(text, edits))
		}
	}
	return nil
}

// weave returns the edits of a file.
func (s *source) weave(r Rules) (edits []edit) {
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			edits = append(edits, s.weaveCall(n, r)...)
		case *ast.BlockStmt:
			edits = append(edits, s.weaveList(n.List, r)...)
		case *ast.CaseClause:
			edits = append(edits, s.weaveList(n.Body, r)...)
		case *ast.FuncDecl:
			name, _, _ := strings.Cut(n.Name.Name, "Mutant")
			if n.Recv != nil && slices.Contains(r.Entries, name) {
				edits = append(edits, edit{at: s.offset(n.Body.Lbrace) + 1, text: r.Point})
			}
		}
		return true
	})
	return edits
}

func (s *source) weaveCall(n *ast.CallExpr, r Rules) []edit {
	if len(n.Args) > 0 && slices.ContainsFunc(r.Except, func(x string) bool { return strings.HasPrefix(s.textOf(n.Args[0]), x) }) {
		return nil
	}
	fun := s.textOf(n.Fun)
	to := r.Calls[fun]
	if to == "" {
		f, is := n.Fun.(*ast.SelectorExpr)
		if !is {
			return nil
		}
		of := s.textOf(f.X)
		if to = r.Calls[of[max(0, strings.LastIndexByte(of, '.')):]+"."+f.Sel.Name]; to == "" {
			return nil
		}
		if to += of; len(n.Args) > 0 {
			to += ", "
		}
	}
	at := s.offset(n.Pos())
	return []edit{{at: at, length: s.offset(n.Lparen) + 1 - at, text: to}}
}

func (s *source) weaveList(list []ast.Stmt, r Rules) (edits []edit) {
	for _, n := range list {
		switch n.(type) {
		case *ast.AssignStmt, *ast.ExprStmt, *ast.IncDecStmt, *ast.ReturnStmt:
			text := s.textOf(n)
			if !strings.Contains(text, "func(") && slices.ContainsFunc(r.Memory, func(x string) bool { return strings.Contains(text, x) }) {
				edits = append(edits, edit{at: s.offset(n.Pos()), text: r.Point})
			}
		}
	}
	return edits
}

// keepImports returns declarations that use the imports whose last use may have been replaced.
func (s *source) keepImports() string {
	var text strings.Builder
	for path, use := range map[string]string{`"sync/atomic"`: "atomic.Bool", `"github.com/goshmem/goshmem/rma"`: "rma.Target"} {
		if slices.ContainsFunc(s.file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == path }) {
			text.WriteString("\nvar _ " + use)
		}
	}
	return text.String() + "\n"
}
