package weave

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// Change is one change of a source file: it replaces Old by New. The file must contain Old exactly once.
type Change struct{ File, Old, New string }

// MutantVar is the environment variable that selects a change in a program built with Switch: its index in the
// list, from 1 on. If it is unset, no change is active.
const MutantVar = "TEST_MUTANT"

// support is a file that Switch adds to each package with changes.
const support = `package %s

import (
	"os"
	"strconv"
)

var mutant, _ = strconv.Atoi(os.Getenv("` + MutantVar + `"))
`

// Switch adds all changes to the files, each inactive unless MutantVar selects it. For each change, it adds a
// changed copy of the function, and the function begins with a call of that copy if the change is selected.
//
// alone has the indices, from 1 on, of changes that are not inside the body of one function. The overlay does not
// contain these changes.
func (o *Overlay) Switch(all []Change) (alone map[int]bool, err error) {
	alone = map[int]bool{}
	var files []string
	of := map[string][]int{}
	for i, c := range all {
		if of[c.File] == nil {
			files = append(files, c.File)
		}
		of[c.File] = append(of[c.File], i)
	}
	packages := map[string]bool{}
	for _, file := range files {
		name, err := o.switchFile(file, all, of[file], alone)
		if err != nil {
			return nil, err
		}
		if dir := filepath.Dir(file); !packages[dir] {
			packages[dir] = true
			o.Write(filepath.Join(dir, "mutant.go"), fmt.Sprintf(support, name))
		}
	}
	return alone, nil
}

// switchFile is Switch for one file. It returns the name of the file's package.
func (o *Overlay) switchFile(file string, all []Change, list []int, alone map[int]bool) (string, error) {
	text, err := o.Read(file)
	if err != nil {
		return "", err
	}
	tree, err := parse(file, text)
	if err != nil {
		return "", err
	}
	var edits []edit
	var added strings.Builder
	for _, i := range list {
		changed, at, err := replaceOnce(file, text, all[i].Old, all[i].New)
		if err != nil {
			return "", err
		}
		other, err := parse(file, changed)
		if err != nil {
			return "", fmt.Errorf("change %d: %w", i+1, err)
		}
		was, is := tree.functionAt(at), other.functionAt(at)
		if was == nil || is == nil || tree.signature(was) != other.signature(is) {
			alone[i+1] = true
			continue
		}
		name := fmt.Sprintf("%sMutant%d", was.Name.Name, i+1)
		edits = append(edits, edit{at: tree.offset(was.Body.Lbrace) + 1, text: fmt.Sprintf(" if mutant == %d { %s };", i+1, callOf(was, name))})
		id := other.offset(is.Name.Pos())
		added.WriteString("\n" + changed[other.offset(is.Pos()):id] + name + changed[id+len(is.Name.Name):other.offset(is.End())] + "\n")
	}
	o.Write(file, apply(text, edits)+added.String())
	return tree.file.Name.Name, nil
}

// source is a parsed file.
type source struct {
	text string
	set  *token.FileSet
	file *ast.File
}

func parse(name, text string) (*source, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	return &source{text, set, file}, err
}

func (s *source) offset(p token.Pos) int { return s.set.Position(p).Offset }

// textOf returns the text of a node.
func (s *source) textOf(n ast.Node) string { return s.text[s.offset(n.Pos()):s.offset(n.End())] }

// functionAt returns the function whose text contains offset at, or nil if there is none.
func (s *source) functionAt(at int) *ast.FuncDecl {
	for _, d := range s.file.Decls {
		if f, is := d.(*ast.FuncDecl); is && s.offset(f.Pos()) <= at && at < s.offset(f.End()) {
			return f
		}
	}
	return nil
}

// signature returns a function's text up to its body.
func (s *source) signature(f *ast.FuncDecl) string {
	return s.text[s.offset(f.Pos()):s.offset(f.Body.Lbrace)]
}

// callOf returns a statement that calls the named function with the arguments of f, and returns from f with its
// results. Both functions have the same type.
func callOf(f *ast.FuncDecl, name string) string {
	if f.Recv != nil {
		name = f.Recv.List[0].Names[0].Name + "." + name
	}
	var args []string
	for _, field := range f.Type.Params.List {
		for _, id := range field.Names {
			name := id.Name
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				name += "..."
			}
			args = append(args, name)
		}
	}
	if t := f.Type.TypeParams; t != nil && f.Recv == nil {
		var types []string
		for _, field := range t.List {
			for _, id := range field.Names {
				types = append(types, id.Name)
			}
		}
		name += "[" + strings.Join(types, ", ") + "]"
	}
	text := name + "(" + strings.Join(args, ", ") + ")"
	if f.Type.Results == nil {
		return text + "; return"
	}
	return "return " + text
}

// edit replaces length bytes of a file, from offset at, by a text.
type edit struct {
	at, length int
	text       string
}

// apply applies edits, which must not overlap. Edits at one offset keep their order.
func apply(text string, edits []edit) string {
	slices.SortStableFunc(edits, func(a, b edit) int { return a.at - b.at })
	var b strings.Builder
	done := 0
	for _, e := range edits {
		b.WriteString(text[done:e.at])
		b.WriteString(e.text)
		done = e.at + e.length
	}
	b.WriteString(text[done:])
	return b.String()
}
