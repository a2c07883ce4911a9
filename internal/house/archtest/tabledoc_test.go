package archtest

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
)

var updateDocs = flag.Bool("update", false, "write the table of packages into docs/architecture.md")

// The part of docs/architecture.md between these lines is made from table, owners and the lean packages.
const (
	tableDoc   = "docs/architecture.md"
	tableBegin = "<!-- made by: go test ./internal/house/archtest -run TestTableInDocs -update -->\n"
	tableEnd   = "<!-- end of what is made -->\n"
)

// describeTable returns the tables of docs/architecture.md. Packages that m does not have are marked as planned.
func describeTable(m *module) string {
	var b strings.Builder
	b.WriteString("\n| layer | packages | may import |\n|---|---|---|\n")
	for i := range table {
		g := &table[i]
		layer := g.layer
		if g.pure {
			layer += ", pure"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", layer, describePackages(m, g), describeMay(g))
	}
	b.WriteString("\n| module or package | which packages may import it | why |\n|---|---|---|\n")
	for _, o := range owners {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", o.path, quoteAll(o.packages), o.why)
	}
	fmt.Fprintf(&b, "\n| every user's program links | so it imports none of these, nor by way of others |\n|---|---|\n| %s | %s |\n\n",
		strings.ReplaceAll(quoteAll(lean), ", ", " or "), quoteAll(slices.Concat(existing(m, leanModule), leanOthers)))
	return b.String()
}

// exists says whether a module has a package that matches a pattern.
func exists(m *module, pattern string) bool {
	return slices.ContainsFunc(m.pkgs, func(p *pkg) bool { return matches(p.path, []string{pattern}) })
}

// existing returns the patterns that match a package of a module.
func existing(m *module, patterns []string) []string {
	return slices.DeleteFunc(slices.Clone(patterns), func(p string) bool { return !exists(m, p) })
}

// describePackages lists the packages of a row: those that exist, those that are planned, and the row's note.
func describePackages(m *module, g *group) string {
	here := existing(m, g.packages)
	var parts []string
	if len(here) > 0 {
		parts = append(parts, quoteAll(here))
	}
	if planned := slices.DeleteFunc(slices.Clone(g.packages), func(p string) bool { return slices.Contains(here, p) }); len(planned) > 0 {
		parts = append(parts, "*planned* "+quoteAll(planned))
	}
	text := strings.Join(parts, "; ")
	if g.note != "" {
		text += ": " + g.note
	}
	return text
}

// describeMay says which packages those of a row may import.
func describeMay(g *group) string {
	var layers, others []string
	for _, p := range g.may {
		switch layer, ok := strings.CutPrefix(p, "layer "); {
		case ok:
			layers = append(layers, layer)
		case p == "./...":
			others = append(others, "all")
		default:
			others = append(others, "`"+p+"`")
		}
	}
	var parts []string
	switch n := len(layers); {
	case n == 1:
		parts = append(parts, layers[0])
	case n > 1: // the layers of a row follow one another: see TestDescribeTable
		parts = append(parts, layers[0]+"-"+layers[n-1])
	}
	text := strings.Join(append(parts, others...), ", ")
	if text == "" {
		text = "nothing"
	}
	if len(g.never) > 0 {
		text += "; not " + quoteAll(g.never)
	}
	return text
}

// quoteAll lists names as code.
func quoteAll(names []string) string { return "`" + strings.Join(names, "`, `") + "`" }

// splitTableDoc returns a document's text before the tables, the tables, and the text after them.
func splitTableDoc(doc string) (before, tables, after string, ok bool) {
	before, rest, begins := strings.Cut(doc, tableBegin)
	tables, after, ends := strings.Cut(rest, tableEnd)
	return before, tables, after, begins && ends
}

// TestTableInDocs compares the tables in docs/architecture.md with those that the other tests enforce.
func TestTableInDocs(t *testing.T) {
	root := os.DirFS("../../..")
	m, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	text, err := fs.ReadFile(root, tableDoc)
	if err != nil {
		t.Fatal(err)
	}
	before, tables, after, ok := splitTableDoc(string(text))
	if !ok {
		t.Fatalf("%s has no lines %q and %q, want both, in this order", tableDoc, tableBegin, tableEnd)
	}
	want := describeTable(m)
	if tables == want {
		return
	}
	if !*updateDocs {
		for line := range strings.Lines(want) {
			if !strings.Contains(tables, line) {
				t.Errorf("%s lacks the row %q", tableDoc, line)
			}
		}
		t.Fatalf("%s is not what table_test.go says; hint: go test ./internal/house/archtest -run TestTableInDocs -update", tableDoc)
	}
	if err := os.WriteFile("../../../"+tableDoc, []byte(before+tableBegin+want+tableEnd+after), 0o644); err != nil { //nolint:gosec // a document
		t.Fatal(err)
	}
}

func TestDescribeTable(t *testing.T) {
	m := fake(t, map[string]string{"a/b.go": "package a\n", "d/e/f.go": "package e\n"})
	for _, c := range []struct {
		g             group
		packages, may string
	}{
		{group{packages: []string{"a"}}, "`a`", "nothing"},
		{group{packages: []string{"a", "b", "d/..."}, note: "why"}, "`a`, `d/...`; *planned* `b`: why", "nothing"},
		{group{packages: []string{"b"}, may: []string{"layer 0"}}, "*planned* `b`", "0"},
		{group{packages: []string{"a"}, may: []string{"layer 0", "layer 1", "layer 2", "x"}, never: []string{"y", "z"}}, "`a`", "0-2, `x`; not `y`, `z`"},
		{group{packages: []string{"a"}, may: []string{"./..."}}, "`a`", "all"},
	} {
		if packages, may := describePackages(m, &c.g), describeMay(&c.g); packages != c.packages || may != c.may {
			t.Errorf("%+v: packages %q, may import %q, want %q and %q", c.g, packages, may, c.packages, c.may)
		}
	}
	for _, g := range table {
		var layers []string
		for _, p := range g.may {
			if layer, ok := strings.CutPrefix(p, "layer "); ok {
				layers = append(layers, layer)
			}
		}
		if want := "0123456789"[:len(layers)]; strings.Join(layers, "") != want {
			t.Errorf("row of %v may import layers %v, want all from 0 up to the last", g.packages, layers)
		}
	}
}
