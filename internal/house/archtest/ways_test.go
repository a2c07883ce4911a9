package archtest

import (
	"fmt"
	"go/ast"
	"io/fs"
	"os"
	"regexp"
	"testing"
)

// way matches a row of docs/ways.md: a function and its file.
var way = regexp.MustCompile("(?m)^\\| .* \\| `(\\w+)` \\| `([\\w/.]+)` \\|$")

// checkWays: functions are in the files that the document names.
func checkWays(m *module, doc string) (bad []string) {
	declared := map[string]bool{} // "file function"
	for _, p := range m.pkgs {
		for _, f := range p.files {
			for _, d := range f.ast.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok {
					declared[f.name+" "+fn.Name.Name] = true
				}
			}
		}
	}
	for _, row := range way.FindAllStringSubmatch(doc, -1) {
		if !declared[row[2]+" "+row[1]] {
			bad = append(bad, fmt.Sprintf("docs/ways.md: %s has no function %s", row[2], row[1]))
		}
	}
	return bad
}

func TestWays(t *testing.T) {
	root := os.DirFS("../../..")
	m, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := fs.ReadFile(root, "docs/ways.md")
	if err != nil {
		t.Fatal(err)
	}
	report(t, checkWays(m, string(doc)))
	if rows := len(way.FindAllString(string(doc), -1)); rows < 30 {
		t.Errorf("%d rows in docs/ways.md: are they still tables of functions and files?", rows)
	}
}

func TestCheckWays(t *testing.T) {
	m := fake(t, map[string]string{"a/b.go": "package a\nfunc (x T) f() {}\n"})
	if bad := checkWays(m, "| what | `f` | `a/b.go` |\n"); len(bad) != 0 {
		t.Errorf("a function in its file: %q, want no violation", bad)
	}
	for _, row := range []string{"| what | `g` | `a/b.go` |\n", "| what | `f` | `a/c.go` |\n"} {
		if bad := checkWays(m, row); len(bad) != 1 {
			t.Errorf("%q: %q, want one violation", row, bad)
		}
	}
}
