package archtest

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// module is the source of one Go module, without nested modules.
type module struct {
	path     string // module path
	requires []string
	fset     *token.FileSet
	pkgs     []*pkg // sorted by path
}

// pkg is one folder with Go files.
type pkg struct {
	path  string // relative to the module
	files []*file
}

type file struct {
	name    string // path relative to the module
	test    bool
	built   bool // belongs to the default build on some platform
	gen     bool // generated
	lines   int
	ast     *ast.File
	imports []imported
}

type imported struct {
	path string
	name string // the name in the file
	pos  token.Pos
}

// platforms are samples of the platforms on which the default build must work.
var platforms = [][2]string{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "arm64"}, {"windows", "amd64"}}

// load parses the module at the root of fsys.
func load(fsys fs.FS) (*module, error) {
	m := &module{fset: token.NewFileSet()}
	var err error
	if m.path, m.requires, err = goMod(fsys, "go.mod"); err != nil {
		return nil, err
	}
	err = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if name != "." && skipped(fsys, name) {
				return fs.SkipDir
			}
			return nil
		case path.Ext(name) != ".go":
			return nil
		}
		return m.add(fsys, name)
	})
	return m, err
}

// skipped says whether the go command ignores a folder, too.
func skipped(fsys fs.FS, dir string) bool {
	base := path.Base(dir)
	if base == "testdata" || base == "vendor" || base[0] == '.' || base[0] == '_' {
		return true
	}
	_, err := fs.Stat(fsys, path.Join(dir, "go.mod"))
	return err == nil
}

func (m *module) add(fsys fs.FS, name string) error {
	src, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	tree, err := parser.ParseFile(m.fset, name, src, parser.ParseComments)
	if err != nil {
		return err
	}
	f := &file{
		name:  name,
		test:  strings.HasSuffix(name, "_test.go"),
		gen:   ast.IsGenerated(tree),
		lines: m.fset.File(tree.FileStart).LineCount(),
		ast:   tree,
	}
	if f.built, err = inDefaultBuild(fsys, name); err != nil {
		return err
	}
	for _, spec := range tree.Imports {
		i := imported{path: strings.Trim(spec.Path.Value, `"`), pos: spec.Pos()}
		if i.name = path.Base(i.path); spec.Name != nil {
			i.name = spec.Name.Name
		}
		f.imports = append(f.imports, i)
	}
	p := m.pkg(path.Dir(name))
	p.files = append(p.files, f)
	return nil
}

// pkg returns the package of a folder. It adds the package if it is new.
func (m *module) pkg(dir string) *pkg {
	i, ok := slices.BinarySearchFunc(m.pkgs, dir, func(p *pkg, dir string) int { return strings.Compare(p.path, dir) })
	if !ok {
		m.pkgs = slices.Insert(m.pkgs, i, &pkg{path: dir})
	}
	return m.pkgs[i]
}

// local returns the path, relative to the module, of an import from this module.
func (m *module) local(importPath string) (string, bool) {
	if importPath == m.path {
		return ".", true
	}
	return strings.CutPrefix(importPath, m.path+"/")
}

// at returns a position for messages.
func (m *module) at(pos token.Pos) string {
	p := m.fset.Position(pos)
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

func inDefaultBuild(fsys fs.FS, name string) (bool, error) {
	ctx := build.Context{
		Compiler:    "gc",
		ReleaseTags: build.Default.ReleaseTags,
		JoinPath:    path.Join,
		OpenFile:    func(name string) (io.ReadCloser, error) { return fsys.Open(name) },
	}
	for _, p := range platforms {
		ctx.GOOS, ctx.GOARCH = p[0], p[1]
		ok, err := ctx.MatchFile(path.Dir(name), path.Base(name))
		if ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// goMod returns the path of a module and those of the modules it requires.
func goMod(fsys fs.FS, name string) (modPath string, requires []string, err error) {
	b, err := fs.ReadFile(fsys, name)
	if err != nil {
		return "", nil, err
	}
	block := ""
	for line := range strings.Lines(string(b)) {
		line, _, _ = strings.Cut(line, "//")
		f := strings.Fields(line)
		switch {
		case len(f) == 0:
		case f[0] == ")":
			block = ""
		case len(f) == 2 && f[1] == "(":
			block = f[0]
		case f[0] == "module" && len(f) == 2:
			modPath = f[1]
		case f[0] == "require" && len(f) == 3:
			requires = append(requires, f[1])
		case block == "require" && len(f) == 2:
			requires = append(requires, f[0])
		}
	}
	if modPath == "" {
		return "", nil, fmt.Errorf("%s: no module line", name)
	}
	return modPath, requires, nil
}

// matches says whether a package path matches one of the patterns.
func matches(pkg string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		dir, below := strings.CutSuffix(p, "/...")
		return pkg == p || below && (dir == "." || pkg == dir || strings.HasPrefix(pkg, dir+"/"))
	})
}

// within says whether an import path is one of the roots or below one.
func within(importPath string, roots []string) bool {
	return slices.ContainsFunc(roots, func(r string) bool {
		return importPath == r || strings.HasPrefix(importPath, r+"/")
	})
}
