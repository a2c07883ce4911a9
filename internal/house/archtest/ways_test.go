package archtest

import (
	"fmt"
	"go/ast"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The parts of docs/ways.md that the test reads.
var (
	// wayLine matches a row: its number, what happens, a function and its file.
	wayLine = regexp.MustCompile("^\\| ([\\d.]+)\\. (.*) \\| `(\\w+)` \\| `([\\w/.]+)` \\|$")
	// wayBy matches the name of a function between a row and its caller's row.
	wayBy = regexp.MustCompile("\\bby `(\\w+)`")
	// wayThrough matches the name of a variable, field or interface through which the caller calls the row's function.
	wayThrough = regexp.MustCompile("\\bthrough `(\\w+)`")
)

// wayRow is a row of docs/ways.md.
type wayRow struct {
	way    string // the heading that it is under
	number string // "1.2.1"
	what   string
	fn     string
	file   string
}

func (r wayRow) String() string {
	return fmt.Sprintf("docs/ways.md, %q: %s. `%s` in %s", r.way, r.number, r.fn, r.file)
}

// caller returns the number of the rows that call this one; "": none does.
func (r wayRow) caller() string {
	i := strings.LastIndexByte(r.number, '.')
	return r.number[:max(i, 0)]
}

// parseWays returns the rows of docs/ways.md.
func parseWays(doc string) (rows []wayRow) {
	way := ""
	for line := range strings.Lines(doc) {
		line = strings.TrimSuffix(line, "\n")
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			way = heading
		}
		if p := wayLine.FindStringSubmatch(line); p != nil {
			rows = append(rows, wayRow{way: way, number: p[1], what: p[2], fn: p[3], file: p[4]})
		}
	}
	return rows
}

// bodies has the identifiers in the bodies of a module's functions: by file, by function. Methods of one name in one
// file count as one function.
type bodies map[string]map[string]map[string]bool

func bodiesOf(m *module) bodies {
	all := bodies{}
	for _, p := range m.pkgs {
		for _, f := range p.files {
			all[f.name] = map[string]map[string]bool{}
			for _, d := range f.ast.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				names := all[f.name][fn.Name.Name]
				if names == nil {
					names = map[string]bool{}
					all[f.name][fn.Name.Name] = names
				}
				if fn.Body == nil {
					continue
				}
				ast.Inspect(fn.Body, func(n ast.Node) bool {
					if id, ok := n.(*ast.Ident); ok {
						names[id.Name] = true
					}
					return true
				})
			}
		}
	}
	return all
}

// reaches says whether the function of row "from" calls that of row "to", as far as names tell: its body has the name,
// or that of a function or variable between the two that "to" tells of.
func (b bodies) reaches(from, to wayRow) bool {
	body := b[from.file][from.fn]
	between, through := wayBy.FindAllStringSubmatch(to.what, -1), wayThrough.FindAllStringSubmatch(to.what, -1)
	if between == nil && through == nil {
		return body[to.fn]
	}
	return slices.ContainsFunc(through, func(x []string) bool { return body[x[1]] }) ||
		slices.ContainsFunc(between, func(x []string) bool {
			return body[x[1]] && (b[from.file][x[1]][to.fn] || b[to.file][x[1]][to.fn])
		})
}

// checkWays: functions are in the files that the document names, and are called as its numbers say.
func checkWays(m *module, doc string) (bad []string) {
	b, rows := bodiesOf(m), parseWays(doc)
	for _, r := range rows {
		if b[r.file][r.fn] == nil {
			bad = append(bad, fmt.Sprintf("%v: the file has no such function", r))
			continue
		}
		number := r.caller()
		if number == "" {
			continue
		}
		calls := func(from wayRow) bool { return from.way == r.way && from.number == number && b.reaches(from, r) }
		if !slices.ContainsFunc(rows, calls) {
			bad = append(bad, fmt.Sprintf("%v: no row %s of that way calls it, want its name in that function's body, or \"by `x`\" or \"through `x`\" in the row", r, number))
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
	rows, lines := len(parseWays(string(doc))), strings.Count(string(doc), ".go` |\n")
	if rows < 30 || rows != lines {
		t.Errorf("%d rows in docs/ways.md, of %d lines that end with a file, want all of them, and 30 or more", rows, lines)
	}
}

func TestCheckWays(t *testing.T) {
	m := fake(t, map[string]string{
		"a/b.go": "package a\nfunc (x T) f() { x.g(); x.between(); x.hook() }\nfunc (x T) between() { x.h() }\n",
		"a/c.go": "package a\nfunc (x T) g() {}\nfunc (x T) h() {}\nfunc (x T) i() {}\n",
	})
	const top = "## A way\n| 1. what | `f` | `a/b.go` |\n"
	for _, rows := range []string{
		"| 1.1. what | `g` | `a/c.go` |\n",
		"| 1.1. what (by `between`) | `h` | `a/c.go` |\n",
		"| 1.1. what (through `hook`), then | `i` | `a/c.go` |\n",
		"| 1. alternative | `i` | `a/c.go` |\n| 1.1. what | `g` | `a/c.go` |\n",
		"| 2. what | `i` | `a/c.go` |\n",
	} {
		if bad := checkWays(m, top+rows); len(bad) != 0 {
			t.Errorf("%q: %q, want no violation", rows, bad)
		}
	}
	for _, rows := range []string{
		"| 2. what | `j` | `a/b.go` |\n",
		"| 2. what | `f` | `a/c.go` |\n",
		"| 1.1. not called | `i` | `a/c.go` |\n",
		"| 1.1. not by name | `h` | `a/c.go` |\n",
		"| 1.1. not so (by `between`) | `g` | `a/c.go` |\n",
		"| 1.1. not there (by `other`) | `g` | `a/c.go` |\n",
		"| 1.1. not there (through `other`) | `g` | `a/c.go` |\n",
		"| 3.1. of no row | `g` | `a/c.go` |\n",
		"## Another way\n| 1.1. of another way | `g` | `a/c.go` |\n",
	} {
		if bad := checkWays(m, top+rows); len(bad) != 1 {
			t.Errorf("%q: %q, want one violation", rows, bad)
		}
	}
}
