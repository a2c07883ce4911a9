package coverage

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Func is an exported function or method that implements routines.
type Func struct {
	Name     string // such as Put or Ctx.Quiet
	File     string
	Routines []string // names in the list
	decl     *ast.FuncDecl
}

// Source is the parsed source of package shmem.
type Source struct {
	Funcs  []Func            // in the order of files and declarations
	Consts map[string]string // Go names, by the specification's name of a constant or handle
	Tests  map[string]string // files of tests, by routine
	Bad    []string          // names in Source lines and tests that are not in the list

	fset  *token.FileSet
	dir   string
	files map[string]*ast.File
}

// Load reads the source of package shmem and of its tests from a folder.
func Load(dir string) (*Source, error) {
	s := &Source{Consts: map[string]string{}, Tests: map[string]string{}, fset: token.NewFileSet(), dir: dir, files: map[string]*ast.File{}}
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	for _, name := range names {
		tree, err := parser.ParseFile(s.fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		base := filepath.Base(name)
		if strings.HasSuffix(base, "_test.go") {
			s.addTests(base, tree)
			continue
		}
		s.files[base] = tree
		for _, d := range tree.Decls {
			s.addDecl(base, d)
		}
	}
	if len(s.files) == 0 {
		return nil, fmt.Errorf("no source of a package: %w: %s", os.ErrNotExist, dir)
	}
	return s, nil
}

// addDecl adds a declaration of the package.
func (s *Source) addDecl(file string, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if !d.Name.IsExported() {
			return
		}
		f := Func{Name: qualified(d), File: file, decl: d}
		for _, name := range sourceLine(d.Doc) {
			s.addName(&f, name)
		}
		if len(f.Routines) > 0 || f.Name == "Reduce" { // Reduce has no Source line; the operators have
			s.Funcs = append(s.Funcs, f)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				s.addConsts(spec.Name.Name, append(sourceLine(spec.Doc), sourceLine(d.Doc)...))
			case *ast.ValueSpec:
				s.addConsts(spec.Names[0].Name, append(sourceLine(spec.Doc), sourceLine(spec.Comment)...))
			}
		}
		s.assignGroup(d)
	}
}

// addName adds one name of a Source line to its function.
func (s *Source) addName(f *Func, name string) {
	canonical, listed := Canonical(name)
	switch {
	case listed && !slices.Contains(f.Routines, canonical):
		f.Routines = append(f.Routines, canonical)
	case listed:
	case strings.HasPrefix(name, "SHMEM_"), strings.HasSuffix(name, "_t"):
		s.addConsts(f.Name, []string{name})
	default:
		s.Bad = append(s.Bad, f.File+": "+f.Name+" stands for "+name)
	}
}

// assignGroup assigns the names in the comment of a group of constants. With as many names as constants, each constant gets
// one; otherwise the first constant gets all of them.
func (s *Source) assignGroup(d *ast.GenDecl) {
	if d.Tok == token.TYPE {
		return
	}
	var idents []string
	for _, spec := range d.Specs {
		if v, is := spec.(*ast.ValueSpec); is {
			for _, id := range v.Names {
				if id.IsExported() {
					idents = append(idents, id.Name)
				}
			}
		}
	}
	names := sourceLine(d.Doc)
	for i, name := range names {
		switch len(idents) {
		case 0:
		case len(names):
			s.addConsts(idents[i], []string{name})
		default:
			s.addConsts(idents[0], []string{name})
		}
	}
}

// addConsts assigns names of constants and handles to an exported Go name.
func (s *Source) addConsts(ident string, names []string) {
	if !ast.IsExported(ident) {
		return
	}
	for _, name := range names {
		if _, listed := Canonical(name); !listed {
			s.Consts[name] = ident
		}
	}
}

// addTests finds the registered tests: calls in values of variables whose first argument is a routine's name.
func (s *Source) addTests(file string, tree *ast.File) {
	for _, d := range tree.Decls {
		g, is := d.(*ast.GenDecl)
		if !is || g.Tok != token.VAR {
			continue
		}
		ast.Inspect(g, func(n ast.Node) bool {
			if _, is := n.(*ast.FuncLit); is {
				return false
			}
			call, is := n.(*ast.CallExpr)
			if !is || len(call.Args) == 0 {
				return true
			}
			if lit, is := call.Args[0].(*ast.BasicLit); is && routineName.MatchString(lit.Value) {
				name, listed := Canonical(strings.Trim(lit.Value, `"`))
				if !listed {
					s.Bad = append(s.Bad, file+": a test of "+name)
				}
				s.Tests[name] = file
			}
			return true
		})
	}
}

// Of returns the functions that implement a routine.
func (s *Source) Of(routine string) (out []Func) {
	for _, f := range s.Funcs {
		if slices.Contains(f.Routines, routine) {
			out = append(out, f)
		}
	}
	return out
}

// Missing returns the differences between list and source: routines without a function or a test, and names in the
// source that the list lacks.
func (s *Source) Missing() (bad []string) {
	for _, name := range s.Bad {
		bad = append(bad, name+", which is no routine of the list")
	}
	for _, r := range Routines {
		if len(s.Of(r.Name)) == 0 {
			bad = append(bad, r.Name+": no exported function has it in its Source line")
		}
		if s.Tests[r.Name] == "" {
			bad = append(bad, r.Name+": no test is registered for it")
		}
	}
	for name := range strings.FieldsSeq(required) {
		if s.Consts[name] == "" && noteOf(name) == "" {
			bad = append(bad, name+": no exported name has it in its Source line")
		}
	}
	return bad
}

// noteOf returns the note for a constant without a Source line, or "" if there is none.
func noteOf(name string) string {
	for _, n := range constants {
		if slices.Contains(strings.Split(n.names, ", "), name) {
			return n.text
		}
	}
	return ""
}

var names = regexp.MustCompile(`\b(start_pes|shmem_[a-z0-9_]*[a-z0-9]|SHMEM_[A-Z0-9_]*[A-Z0-9])\b`)

var routineName = regexp.MustCompile(`^"(start_pes|shmem_\w+)"$`)

// sourceLine returns the specification's names in the list item Source of a comment.
func sourceLine(doc *ast.CommentGroup) []string {
	_, line, found := strings.Cut("\n"+doc.Text(), "\n  - Source: ")
	if !found {
		return nil
	}
	line, _, _ = strings.Cut(line, "\n\n")
	line, _, _ = strings.Cut(line, "\n  - ")
	return names.FindAllString(line, -1)
}

// qualified returns the name of a function, or type and name of a method.
func qualified(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	return typeName(d.Recv.List[0].Type) + "." + d.Name.Name
}

// typeName returns the name of a type without pointer and type parameters.
func typeName(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return typeName(t.X)
	case *ast.IndexExpr:
		return typeName(t.X)
	case *ast.IndexListExpr:
		return typeName(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}
