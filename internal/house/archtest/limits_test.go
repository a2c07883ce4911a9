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

// checkMethods: a type has so few methods that it is one thing.
func checkMethods(m *module) (bad []string) {
	for _, p := range m.pkgs {
		methods := map[string]map[string]bool{} // by type; files for several platforms may repeat a method
		for _, f := range p.files {
			if f.gen || f.test {
				continue
			}
			for _, d := range f.ast.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
					of := p.path + "." + receiver(fn)
					if methods[of] == nil {
						methods[of] = map[string]bool{}
					}
					methods[of][fn.Name.Name] = true
				}
			}
		}
		for of, names := range methods {
			most, listed := manyMethods[of]
			switch n := len(names); {
			case !listed && n > maxMethods:
				bad = append(bad, fmt.Sprintf("%s has %d methods, want at most %d: cut it by feature", of, n, maxMethods))
			case listed && n > most:
				bad = append(bad, fmt.Sprintf("%s has %d methods, want at most the %d of manyMethods", of, n, most))
			case listed && n <= maxMethods:
				bad = append(bad, fmt.Sprintf("%s has %d methods, want it no longer in manyMethods", of, n))
			}
		}
	}
	return bad
}

// receiver returns the name of a method's type, empty if it has none.
func receiver(fn *ast.FuncDecl) string {
	t := fn.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}
