package explore

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/goshmem/goshmem/internal/weave"
)

// bySchedules are the mutants that a search of small groups does not find: what is said
// again is no state of its own, and others need larger groups.
var bySchedules = map[string]bool{
	"up-again": true, "have-again": true, "ack-again": true, "question-is-progress": true,
	"stray-dropped": true, "tree-by-hearsay": true,
}

// TestMutants builds the machines with the mistakes and lets TestShipped find each.
func TestMutants(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds programs with mutants")
	}
	mutate(t, Mutants, "^TestShipped$")
}

// TestAgreeMutants does the same with those of agreement, by TestAgreeShipped.
func TestAgreeMutants(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds programs with mutants")
	}
	mutate(t, AgreeMutants, "^TestAgreeShipped$")
}

// mutate runs a test of this package with each mutant, which it has to find. They are
// all in one program, but for those that cannot be switched.
func mutate(t *testing.T, all []Mutant, test string) {
	t.Helper()
	var changes []weave.Change
	for _, m := range all {
		changes = append(changes, weave.Change{File: m.File, Old: m.Old, New: m.New})
	}
	program, alone := built(t, changes)
	for i, m := range all {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			program, number := program, i+1
			if alone[number] {
				program, number = replaced(t, changes[i]), 0
			}
			by := "search"
			if bySchedules[m.Name] {
				by = "random"
			}
			cmd := exec.CommandContext(t.Context(), program, "-mutant", by, "-test.run", test, "-test.timeout", "100s")
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", weave.MutantVar, number))
			out, err := cmd.CombinedOutput()
			found := regexp.MustCompile(`FOUND .*`).FindString(string(out))
			if err == nil || found == "" {
				t.Fatalf("%s is not found (%v):\n%.2000s", m.Breaks, err, out)
			}
			t.Log(found)
		})
	}
}

// built builds the program of this package's tests with all changes in it. Those that
// are not of one function's body are not, and returned.
func built(t *testing.T, changes []weave.Change) (program string, alone map[int]bool) {
	t.Helper()
	o, err := weave.New("../..", t.TempDir())
	if err == nil {
		alone, err = o.Switch(changes)
	}
	if err == nil {
		program, err = o.Build(t.Context(), "sim/explore", "")
	}
	if err != nil {
		t.Fatal(err)
	}
	return program, alone
}

// replaced builds that program with one change.
func replaced(t *testing.T, c weave.Change) (program string) {
	t.Helper()
	o, err := weave.New("../..", t.TempDir())
	if err == nil {
		err = o.Replace(c)
	}
	if err == nil {
		program, err = o.Build(t.Context(), "sim/explore", "")
	}
	if err != nil {
		t.Fatal(err)
	}
	return program
}
