package archtest

import (
	"fmt"
	"go/ast"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

var (
	// paperTest is a test in docs/papers.md, with or without its package.
	paperTest = regexp.MustCompile("`(?:([a-z0-9/]+)\\.)?(Test[A-Za-z0-9_]+)`")
	// paperHome is the package of a table's tests that name none.
	paperHome = regexp.MustCompile("^`([a-z0-9/]+)`; tests without a package are in it")
)

// checkPapers: every row of docs/papers.md names tests that exist, or says that they are the same as in the row above.
func checkPapers(m *module, doc string) (bad []string) {
	tests := map[string]bool{}
	for _, p := range m.pkgs {
		for _, f := range p.files {
			for _, d := range f.ast.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && f.test && fn.Recv == nil {
					tests[p.path+"."+fn.Name.Name] = true
				}
			}
		}
	}
	home, above := "", false
	for i, line := range strings.Split(doc, "\n") {
		if h := paperHome.FindStringSubmatch(line); h != nil {
			home = h[1]
		}
		cells := strings.Split(line, "|")
		if strings.HasPrefix(line, "## ") {
			home = ""
		}
		if len(cells) < 5 || strings.HasPrefix(cells[1], "---") || strings.TrimSpace(cells[3]) == "test" {
			above = false
			continue
		}
		named := paperTest.FindAllStringSubmatch(cells[3], -1)
		if len(named) == 0 && (!above || !strings.HasPrefix(strings.TrimSpace(cells[3]), "the same")) {
			bad = append(bad, fmt.Sprintf("docs/papers.md:%d: the row names no test, want one as `package.TestName`", i+1))
		}
		above = true
		pkg := home
		for _, n := range named {
			if n[1] != "" {
				pkg = n[1] // for the names after it, too
			}
			if !tests[pkg+"."+n[2]] {
				bad = append(bad, fmt.Sprintf("docs/papers.md:%d: there is no test %s in package %q", i+1, n[2], pkg))
			}
		}
	}
	return bad
}

// TestPapers: each sentence of a paper in docs/papers.md has its test.
func TestPapers(t *testing.T) {
	root := os.DirFS("../../..")
	m, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := fs.ReadFile(root, "docs/papers.md")
	if err != nil {
		t.Fatal(err)
	}
	report(t, checkPapers(m, string(doc)))
	if rows := strings.Count(string(doc), "Test"); rows < 40 {
		t.Errorf("%d tests named in docs/papers.md: is it still a list of tables?", rows)
	}
}

func TestCheckPapers(t *testing.T) {
	m := fake(t, map[string]string{
		"a/b/b_test.go": "package b\nfunc TestOne() {}\nfunc TestTwo() {}\n",
		"c/c_test.go":   "package c\nfunc TestThree() {}\n",
		"c/c.go":        "package c\nfunc TestFour() {}\n",
	})
	head := "| section | sentence | test |\n|---|---|---|\n"
	for doc, want := range map[string]int{
		head + "| 1 | \"x\" | `a/b.TestOne`, `TestTwo`, `c.TestThree` |\n| 2 | y | the same: `A.B` |\n": 0,
		"`a/b`; tests without a package are in it.\n" + head + "| 1 | x | `TestOne` |\n":                0,
		head + "| 1 | x | `TestOne` |\n":                1, // no package
		head + "| 1 | x | `c.TestOne`, `TestThree` |\n": 1,
		head + "| 1 | x | `c.TestFour` |\n":             1, // not in a test
		head + "| 1 | x | looked at |\n":                1,
		head + "| 1 | x | the same |\n":                 1, // no row above
		"`a/b`; tests without a package are in it.\n## next\n" + head + "| 1 | x | `TestOne` |\n": 1,
	} {
		if bad := checkPapers(m, doc); len(bad) != want {
			t.Errorf("%q: %q, want %d violations", doc, bad, want)
		}
	}
}
