package explore

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/goshmem/goshmem/internal/weave"
)

// bySchedules lists the mutants that a search of small groups does not find: a repeated message is
// no new state, and other mutants need larger groups.
var bySchedules = map[string]bool{
	"up-again": true, "have-again": true, "ack-again": true, "question-is-progress": true,
	"stray-dropped": true, "tree-by-hearsay": true,
}

// TestMutants builds the machines with their mistakes and checks that TestShipped finds each.
func TestMutants(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds programs with mutants")
	}
	testMutants(t, Mutants, "^TestShipped$")
}

// TestAgreeMutants does the same with the mutants of agreement and TestAgreeShipped.
func TestAgreeMutants(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds programs with mutants")
	}
	testMutants(t, AgreeMutants, "^TestAgreeShipped$")
}

// testMutants runs a test of this package with each mutant, which the test has to find. All
// mutants are in one program, except those that cannot be switched.
func testMutants(t *testing.T, all []Mutant, test string) {
	t.Helper()
	var changes []weave.Change
	for _, m := range all {
		changes = append(changes, weave.Change{File: m.File, Old: m.Old, New: m.New})
	}
	program, alone := buildWithMutants(t, changes)
	for i, m := range all {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			program, number := program, i+1
			if alone[number] {
				program, number = buildWithChange(t, changes[i]), 0
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
				t.Fatalf("the test does not find %s (%v):\n%.2000s", m.Breaks, err, out)
			}
			t.Log(found)
		})
	}
}

// buildWithMutants builds the program of this package's tests with all changes in it. It leaves
// out and returns those that are not in the body of one function.
func buildWithMutants(t *testing.T, changes []weave.Change) (program string, alone map[int]bool) {
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

// buildWithChange builds that program with one change.
func buildWithChange(t *testing.T, c weave.Change) (program string) {
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
