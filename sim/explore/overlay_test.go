package explore

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mutantVar tells a test program that was built with mutants which of them it is:
// its number, from 1 on.
const mutantVar = "TEST_MUTANT"

// mutantSupport is the file that each package with mutants gets.
const mutantSupport = `package %s

import (
	"os"
	"strconv"
)

var mutant, _ = strconv.Atoi(os.Getenv("` + mutantVar + `"))
`

// overlay writes sources in which mutants are switched by number, and says which of
// them cannot be, because they do not change a function.
type overlay struct {
	root, dir string
	replace   map[string]string
}

func newOverlay(t *testing.T) *overlay {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return &overlay{root: root, dir: t.TempDir(), replace: map[string]string{}}
}

// write has the build find text in place of a file, which need not exist.
func (o *overlay) write(t *testing.T, file, text string) {
	t.Helper()
	name := filepath.Join(o.dir, fmt.Sprintf("%d.go", len(o.replace)))
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o.replace[filepath.Join(o.root, file)] = name
}

func (o *overlay) read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(o.root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// mutated is the text of a file with one mutant, and where the change begins.
func mutated(t *testing.T, text string, m *Mutant) (string, int) {
	t.Helper()
	if n := strings.Count(text, m.Old); n != 1 {
		t.Fatalf("%s holds %q %d times, want once", m.File, m.Old, n)
	}
	at := strings.Index(text, m.Old)
	return text[:at] + m.New + text[at+len(m.Old):], at
}

// switched puts all mutants into the files: beside each function that one changes
// stands the changed one, and a call of the first is one of the second if that
// mutant is wanted. It returns the numbers of those that change no function.
func (o *overlay) switched(t *testing.T, all []Mutant) map[int]bool {
	t.Helper()
	left, files, packages := map[int]bool{}, map[string][]int{}, map[string]bool{}
	for i, m := range all {
		files[m.File] = append(files[m.File], i)
	}
	for file, list := range files {
		text := o.read(t, file)
		tree, set := parse(t, file, text)
		begins, added := map[int]string{}, ""
		for _, i := range list {
			changed, at := mutated(t, text, &all[i])
			old := functionAt(set, tree, at)
			other, otherSet := parse(t, file, changed)
			f := functionAt(otherSet, other, at)
			if old == nil || f == nil || signature(set, old, text) != signature(otherSet, f, changed) {
				left[i+1] = true
				continue
			}
			name := fmt.Sprintf("%sMutant%d", old.Name.Name, i+1)
			begins[set.Position(old.Body.Lbrace).Offset+1] += fmt.Sprintf(" if mutant == %d { %s };", i+1, call(old, name))
			from, to := otherSet.Position(f.Pos()).Offset, otherSet.Position(f.End()).Offset
			id := otherSet.Position(f.Name.Pos()).Offset
			added += "\n" + changed[from:id] + name + changed[id+len(f.Name.Name):to] + "\n"
		}
		var b strings.Builder
		for at := range len(text) {
			b.WriteString(begins[at])
			b.WriteByte(text[at])
		}
		o.write(t, file, b.String()+added)
		if dir := filepath.Dir(file); !packages[dir] {
			packages[dir] = true
			o.write(t, filepath.Join(dir, "mutant.go"), fmt.Sprintf(mutantSupport, tree.Name.Name))
		}
	}
	return left
}

func parse(t *testing.T, file, text string) (*ast.File, *token.FileSet) {
	t.Helper()
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return tree, set
}

// functionAt is the function whose text holds a byte.
func functionAt(set *token.FileSet, tree *ast.File, at int) *ast.FuncDecl {
	for _, d := range tree.Decls {
		if f, is := d.(*ast.FuncDecl); is && set.Position(f.Pos()).Offset <= at && at < set.Position(f.End()).Offset {
			return f
		}
	}
	return nil
}

// signature is a function's text up to its body.
func signature(set *token.FileSet, f *ast.FuncDecl, text string) string {
	return text[set.Position(f.Pos()).Offset:set.Position(f.Body.Lbrace).Offset]
}

// call is a statement that ends f by what a function of the same type does.
func call(f *ast.FuncDecl, name string) string {
	if f.Recv != nil {
		name = f.Recv.List[0].Names[0].Name + "." + name
	}
	var args []string
	for _, field := range f.Type.Params.List {
		for _, id := range field.Names {
			args = append(args, id.Name)
		}
	}
	text := name + "(" + strings.Join(args, ", ") + ")"
	if f.Type.Results == nil {
		return text + "; return"
	}
	return "return " + text
}

// build is the program of this package's tests with what was written.
func (o *overlay) build(t *testing.T) string {
	t.Helper()
	list, err := json.Marshal(map[string]any{"Replace": o.replace})
	if err != nil {
		t.Fatal(err)
	}
	file, program := filepath.Join(o.dir, "overlay.json"), filepath.Join(o.dir, "explore.test")
	if err := os.WriteFile(file, list, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-ldflags=-s -w", "-overlay", file, "-o", program, "./sim/explore")
	cmd.Dir = o.root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building mutants: %v\n%s", err, out)
	}
	return program
}
