// Package mutanttest checks that the tests of a package find mistakes that a programmer could make.
package mutanttest

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/weave"
)

// Mutant is a mistake: in File, New replaces Old, which stands there once, inside of a function. A package declares a type of
// its own for its table, "type mistake mutanttest.Mutant": go vet then lets the rows do without names of fields.
type Mutant struct {
	Breaks string // what goes wrong, as a sentence
	Test   string // the test that finds it, without "Test"
	File   string // a name in the package's folder
	Old    string
	New    string
}

// Run builds the tests of a package with all mutants, of which each process has one, and checks for each mutant that its
// test fails. root is the path from the calling test to the root of the module; dir is the package's folder in there. Run
// skips the calling test with -short.
func Run[M ~struct{ Breaks, Test, File, Old, New string }](t *testing.T, root, dir string, mutants []M) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds a program with mutants")
	}
	changes := make([]weave.Change, len(mutants))
	for i, m := range mutants {
		m := Mutant(m)
		changes[i] = weave.Change{File: path.Join(dir, m.File), Old: m.Old, New: m.New}
	}
	o, err := weave.New(root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	alone, err := o.Switch(changes)
	if err != nil || len(alone) > 0 {
		t.Fatalf("%v; changes outside of functions: %v, want none", err, alone)
	}
	program, err := o.Build(t.Context(), dir, "")
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range mutants {
		m := Mutant(m)
		t.Run(m.Breaks, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), program, "-test.run", "^Test"+m.Test+"$", "-test.short", "-test.timeout", "60s")
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", weave.MutantVar, i+1))
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: Test"+m.Test) {
				t.Errorf("Test%s does not find that %s (%v):\n%.1000s", m.Test, m.Breaks, err, out)
			}
		})
	}
}
