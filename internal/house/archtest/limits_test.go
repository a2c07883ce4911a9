package archtest

import (
	"fmt"
	"go/ast"
)

// checkLengths: files and functions are short enough to be read in one go.
func checkLengths(m *module) (bad []string) {
	for _, p := range m.pkgs {
		for _, f := range p.files {
			if f.gen {
				continue
			}
			if f.lines > maxFileLines && longFiles[f.name] == "" {
				bad = append(bad, fmt.Sprintf("%s: %d lines, want at most %d", f.name, f.lines, maxFileLines))
			}
			for _, d := range f.ast.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || longFuncs[f.name+":"+fn.Name.Name] != "" {
					continue
				}
				n := m.fset.Position(fn.End()).Line - m.fset.Position(fn.Pos()).Line + 1
				if n > maxFuncLines {
					bad = append(bad, fmt.Sprintf("%s: %s has %d lines, want at most %d", m.at(fn.Pos()), fn.Name.Name, n, maxFuncLines))
				}
			}
		}
	}
	return bad
}
