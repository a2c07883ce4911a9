package archtest

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// checkKnown: every package is in the table exactly once.
func checkKnown(m *module) (bad []string) {
	for _, p := range m.pkgs {
		n := 0
		for _, g := range table {
			if matches(p.path, g.packages) {
				n++
			}
		}
		switch {
		case n == 0:
			bad = append(bad, p.path+": unknown package; add it to a row of the table in internal/house/archtest/table_test.go")
		case n > 1:
			bad = append(bad, fmt.Sprintf("%s: stands in %d rows of the table in internal/house/archtest/table_test.go", p.path, n))
		}
	}
	return bad
}

// groupOf returns the row of a package; the zero row allows nothing.
func groupOf(pkg string) group {
	for _, g := range table {
		if matches(pkg, g.packages) {
			return g
		}
	}
	return group{layer: "unknown"}
}

// expand replaces "layer x" by the packages of that layer.
func expand(patterns []string) (out []string) {
	for _, p := range patterns {
		layer, ok := strings.CutPrefix(p, "layer ")
		if !ok {
			out = append(out, p)
			continue
		}
		for _, g := range table {
			if g.layer == layer {
				out = append(out, g.packages...)
			}
		}
	}
	return out
}

// checkLayers: imports within the module follow the table.
func checkLayers(m *module) (bad []string) {
	for _, p := range m.pkgs {
		g := groupOf(p.path)
		may := expand(g.may)
		for _, f := range p.files {
			if f.test {
				continue
			}
			for _, i := range f.imports {
				to, ok := m.local(i.path)
				if !ok {
					continue
				}
				if !matches(to, may) || matches(to, g.never) {
					bad = append(bad, fmt.Sprintf("%s: %s (layer %s) may not import %s", m.at(i.pos), p.path, g.layer, to))
				}
			}
		}
	}
	return bad
}

// checkPure: a pure package imports only the module's own packages and the pure part of the standard library, and
// starts no goroutine.
func checkPure(m *module) (bad []string) {
	for _, p := range m.pkgs {
		if !groupOf(p.path).pure {
			continue
		}
		for _, f := range p.files {
			if f.test {
				continue
			}
			for _, i := range f.imports {
				if _, local := m.local(i.path); !local && (!standard(i.path) || within(i.path, impure) && i.path != "net/netip") {
					bad = append(bad, fmt.Sprintf("%s: %s is pure and may not import %s", m.at(i.pos), p.path, i.path))
				}
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				if g, ok := n.(*ast.GoStmt); ok {
					bad = append(bad, fmt.Sprintf("%s: %s is pure and may not start a goroutine", m.at(g.Pos()), p.path))
				}
				return true
			})
		}
	}
	return bad
}

// standard says whether an import path is in the standard library: its first element has no dot.
func standard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".") && importPath != "C"
}

// checkOwners: some packages may be imported by their owners only, test files included.
func checkOwners(m *module) (bad []string) {
	for _, p := range m.pkgs {
		for _, f := range p.files {
			for _, i := range f.imports {
				for _, o := range owners {
					if within(i.path, []string{o.path}) && !matches(p.path, o.packages) {
						bad = append(bad, fmt.Sprintf("%s: %s may not import %s: %s; its owners are %s",
							m.at(i.pos), p.path, i.path, o.why, strings.Join(o.packages, ", ")))
					}
				}
			}
		}
	}
	return bad
}

// checkTestOnly: modules for tests stay in tests.
func checkTestOnly(m *module) (bad []string) {
	for _, p := range m.pkgs {
		if strings.HasSuffix(p.path, "test") {
			continue // a package of test helpers
		}
		for _, f := range p.files {
			for _, i := range f.imports {
				if !f.test && within(i.path, testOnly) {
					bad = append(bad, fmt.Sprintf("%s: only tests may import %s", m.at(i.pos), i.path))
				}
			}
		}
	}
	return bad
}

// checkCgo: the default build does without cgo.
func checkCgo(m *module) (bad []string) {
	for _, p := range m.pkgs {
		for _, f := range p.files {
			for _, i := range f.imports {
				if i.path == "C" && f.built {
					bad = append(bad, m.at(i.pos)+": cgo in the default build; put the file behind a build tag")
				}
			}
		}
	}
	return bad
}

// checkLean: the library's direct and indirect imports stay few, because users' programs link them.
func checkLean(m *module) (bad []string) {
	for _, root := range lean {
		from := map[string]string{root: ""} // package: its importer
		for todo := []string{root}; len(todo) > 0; todo = todo[1:] {
			i, ok := slices.BinarySearchFunc(m.pkgs, todo[0], func(p *pkg, s string) int { return strings.Compare(p.path, s) })
			if !ok {
				continue
			}
			for _, f := range m.pkgs[i].files {
				if f.test || !f.built {
					continue
				}
				for _, i := range f.imports {
					to, local := m.local(i.path)
					if local && matches(to, leanModule) || within(i.path, leanOthers) {
						bad = append(bad, fmt.Sprintf("%s: %s must not depend on %s: %s", m.at(i.pos), root, i.path, trail(from, todo[0])))
					}
					if _, seen := from[to]; local && !seen {
						from[to] = todo[0]
						todo = append(todo, to)
					}
				}
			}
		}
	}
	return bad
}

// trail lists the packages on the import path to pkg.
func trail(from map[string]string, pkg string) string {
	way := pkg
	for pkg = from[pkg]; pkg != ""; pkg = from[pkg] {
		way = pkg + " -> " + way
	}
	return way
}
