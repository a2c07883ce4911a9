package archtest

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
)

// waits are the functions, by package, with which a process can wait for another process or wake it. A name may end in
// "*".
var waits = map[string][]string{
	"internal/xunix": {"Futex*", "SchedYield"},
	"runtime":        {"Gosched"},
	"time":           {"Sleep"},
	"syscall":        {"SYS_FUTEX", "SYS_SCHED_YIELD", "Syscall*", "RawSyscall*"},
}

// checkWaiting: only the wait function polls, yields or sleeps. A loop that only evaluates its condition polls, too.
// Goroutines of one process wait for each other on channels, with a timer in a select if need be.
func checkWaiting(m *module) (bad []string) {
	for _, p := range m.pkgs {
		for _, f := range p.files {
			if ownsWaiting(f.name) || f.test || p.path == "internal/xunix" {
				continue
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					if what := m.waitCall(f, n); what != "" {
						bad = append(bad, fmt.Sprintf("%s: %s outside package wait; use its functions", m.at(n.Pos()), what))
					}
				case *ast.ForStmt:
					if n.Cond != nil && n.Post == nil && len(n.Body.List) == 0 {
						bad = append(bad, m.at(n.Pos())+": loop that polls outside package wait; use its functions")
					}
				}
				return true
			})
		}
	}
	return bad
}

// ownsWaiting says whether a process may wait in a file.
func ownsWaiting(name string) bool {
	return slices.ContainsFunc(waiting, func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		if err != nil {
			panic(err)
		}
		return ok
	})
}

// waitCall returns the name of the function that a selector refers to, if it is one of waits.
func (m *module) waitCall(f *file, sel *ast.SelectorExpr) string {
	x, ok := sel.X.(*ast.Ident)
	if !ok {
		return ""
	}
	for _, i := range f.imports {
		if i.name != x.Name {
			continue
		}
		from := i.path
		if to, local := m.local(from); local {
			from = to
		}
		if slices.ContainsFunc(waits[from], func(w string) bool { return like(sel.Sel.Name, w) }) {
			return x.Name + "." + sel.Sel.Name
		}
	}
	return ""
}

func like(name, pattern string) bool {
	prefix, open := strings.CutSuffix(pattern, "*")
	return name == pattern || open && strings.HasPrefix(name, prefix)
}
