package explore

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"testing"
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
	o := newOverlay(t)
	alone := o.switched(t, all)
	program := o.build(t)
	for i, m := range all {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			program := program
			if alone[i+1] {
				one := newOverlay(t)
				text, _ := mutated(t, one.read(t, m.File), &m)
				one.write(t, m.File, text)
				program = one.build(t)
			}
			by := "search"
			if bySchedules[m.Name] {
				by = "random"
			}
			cmd := exec.CommandContext(t.Context(), program, "-mutant", by, "-test.run", test, "-test.timeout", "100s")
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", mutantVar, i+1))
			out, err := cmd.CombinedOutput()
			found := regexp.MustCompile(`FOUND .*`).FindString(string(out))
			if err == nil || found == "" {
				t.Fatalf("%s is not found (%v):\n%.2000s", m.Breaks, err, out)
			}
			t.Log(found)
		})
	}
}
