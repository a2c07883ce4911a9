package archtest

import (
	"fmt"
	"go/ast"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// checkPackageDocs: every package has a comment that says what it is for.
func checkPackageDocs(m *module) (bad []string) {
	for _, p := range m.pkgs {
		name, ok := "", false
		for _, f := range p.files {
			if f.test {
				continue
			}
			name = f.ast.Name.Name
			if f.ast.Doc == nil {
				continue
			}
			text := f.ast.Doc.Text()
			ok = ok || strings.HasPrefix(text, "Package "+name+" ") || name == "main" && strings.HasPrefix(text, "Command ")
		}
		switch {
		case ok || name == "": // documented, or nothing but tests
		case name == "main":
			bad = append(bad, p.path+`: no package comment that begins with "Command "`)
		default:
			bad = append(bad, fmt.Sprintf("%s: no package comment that begins with %q", p.path, "Package "+name+" "))
		}
	}
	return bad
}

// public says whether other modules can import a package.
func public(p *pkg) bool {
	parts := strings.Split(p.path, "/")
	return !slices.Contains(parts, "internal") && p.files[0].ast.Name.Name != "main"
}

// checkExportedDocs: every exported name of a public package is documented. A comment on a group of constants or
// variables documents all of them.
func checkExportedDocs(m *module) (bad []string) {
	for _, p := range m.pkgs {
		if !public(p) {
			continue
		}
		for _, f := range p.files {
			if f.test || f.gen {
				continue
			}
			for _, d := range f.ast.Decls {
				for _, id := range undocumented(d) {
					bad = append(bad, fmt.Sprintf("%s: exported %s has no comment", m.at(id.Pos()), id.Name))
				}
			}
		}
	}
	return bad
}

// label matches a label at the start of a comment's line. Outside of a list, go doc would join it to the line before.
var label = regexp.MustCompile(`(?m)^(Shape|Completion|Cost|Errors|Collective|Concurrent calls|Source): `)

// checkLabels: labels in comments of declarations are items of a list, so that go doc shows each on its own line.
func checkLabels(m *module) (bad []string) {
	for _, p := range m.pkgs {
		for _, f := range p.files {
			if f.test || f.gen {
				continue
			}
			for _, d := range f.ast.Decls {
				var doc *ast.CommentGroup
				switch d := d.(type) {
				case *ast.FuncDecl:
					doc = d.Doc
				case *ast.GenDecl:
					doc = d.Doc
				}
				if found := label.FindString(doc.Text()); found != "" {
					bad = append(bad, fmt.Sprintf("%s: label %q in the comment is no item of a list, want \"//   - %s...\"", m.at(d.Pos()), found, found))
				}
			}
		}
	}
	return bad
}

// wellKnown are methods that their interface documents.
var wellKnown = []string{"Error", "Unwrap", "String"}

// undocumented returns the exported names of a declaration without a comment.
func undocumented(d ast.Decl) (out []*ast.Ident) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		known := d.Recv != nil && slices.Contains(wellKnown, d.Name.Name)
		if d.Name.IsExported() && receiverExported(d) && d.Doc == nil && !known {
			out = append(out, d.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && s.Doc == nil && s.Comment == nil && d.Doc == nil {
					out = append(out, s.Name)
				}
			case *ast.ValueSpec:
				for _, id := range s.Names {
					if id.IsExported() && s.Doc == nil && s.Comment == nil && d.Doc == nil {
						out = append(out, id)
					}
				}
			}
		}
	}
	return out
}

// receiverExported says whether a function has no receiver, or one of an exported type.
func receiverExported(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	name := receiver(d)
	return name == "" || ast.IsExported(name)
}

// dependencyRow is a row of the tables in docs/dependencies.md.
var dependencyRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")

// checkDependencies: docs/dependencies.md has a row for every module that the source imports, and no row for a module
// that no go.mod of the project requires.
func checkDependencies(m *module, doc string, required []string) (bad []string) {
	var rows []string
	for _, r := range dependencyRow.FindAllStringSubmatch(doc, -1) {
		rows = append(rows, r[1])
		if !slices.Contains(required, r[1]) {
			bad = append(bad, "docs/dependencies.md: "+r[1]+" is not required by any go.mod; remove the row")
		}
	}
	seen := map[string]bool{}
	for _, p := range m.pkgs {
		for _, f := range p.files {
			for _, i := range f.imports {
				_, local := m.local(i.path)
				if local || standard(i.path) || i.path == "C" || within(i.path, rows) || seen[i.path] {
					continue
				}
				seen[i.path] = true
				bad = append(bad, fmt.Sprintf("%s: docs/dependencies.md has no row for the module of %s; say there why it is needed",
					m.at(i.pos), i.path))
			}
		}
	}
	return bad
}

// allRequired returns what the go.mod files of the project require.
func allRequired(fsys fs.FS) (all []string, err error) {
	names, err := fs.Glob(fsys, "*/go.mod")
	if err != nil {
		return nil, err
	}
	for _, name := range append(names, "go.mod") {
		_, r, err := goMod(fsys, name)
		if err != nil {
			return nil, err
		}
		all = append(all, r...)
	}
	return all, nil
}
