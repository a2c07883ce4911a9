package explore

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMutants builds the machines with each mistake and lets TestShipped find it.
func TestMutants(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds a program for each mutant")
	}
	mutate(t, Mutants, "^TestShipped$")
}

// TestAgreeMutants does the same with those of agreement, by TestAgreeShipped.
func TestAgreeMutants(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds a program for each mutant")
	}
	mutate(t, AgreeMutants, "^TestAgreeShipped$")
}

// mutate runs a test of this package with each mutant, which it has to find.
func mutate(t *testing.T, all []Mutant, test string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			program := buildMutant(t, root, m)
			cmd := exec.CommandContext(t.Context(), program, "-mutant", "-test.run", test, "-test.timeout", "100s")
			out, err := cmd.CombinedOutput()
			found := regexp.MustCompile(`FOUND .*`).FindString(string(out))
			if err == nil || found == "" {
				t.Fatalf("%s is not found (%v):\n%.2000s", m.Breaks, err, out)
			}
			t.Log(found)
		})
	}
}

// buildMutant is this test with the machine of m.
func buildMutant(t *testing.T, root string, m Mutant) string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(root, m.File)
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), m.Old); n != 1 {
		t.Fatalf("%s holds %q %d times, want once", m.File, m.Old, n)
	}
	changed := filepath.Join(dir, "changed.go")
	if err := os.WriteFile(changed, []byte(strings.Replace(string(text), m.Old, m.New, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{source: changed}})
	if err != nil {
		t.Fatal(err)
	}
	list, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "explore.test")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-ldflags=-s -w", "-overlay", list, "-o", program, "./sim/explore")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", m.Name, err, out)
	}
	return program
}
