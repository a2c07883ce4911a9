package archtest

import (
	"fmt"
	"go/ast"
	"slices"
)

// checkTimers: no timer of no time. In a bubble of testing/synctest such a timer runs at once, on the goroutine that starts
// it; when two of them do so, the race detector ends the program ("ThreadSanitizer: CHECK failed", golang.org/issue/78156).
func checkTimers(m *module) (bad []string) {
	for _, p := range m.pkgs {
		for _, f := range p.files {
			ast.Inspect(f.ast, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && startsAtOnce(f, call) {
					bad = append(bad, fmt.Sprintf("%s: timer of no time; do at once what it is for", m.at(n.Pos())))
				}
				return true
			})
		}
	}
	return bad
}

// startsAtOnce says whether a call starts a timer of no time.
func startsAtOnce(f *file, call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return false
	}
	if d, ok := call.Args[0].(*ast.BasicLit); !ok || d.Value != "0" {
		return false
	}
	if sel.Sel.Name == "Reset" {
		return true
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && slices.Contains([]string{"NewTimer", "After", "AfterFunc"}, sel.Sel.Name) &&
		slices.ContainsFunc(f.imports, func(i imported) bool { return i.name == x.Name && i.path == "time" })
}
