package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Programs whose elements are larger than the stack that the linker leaves to functions without a stack check: they are linked, with
// and without optimizations, and right on one node and on two.
func TestLargeElements(t *testing.T) {
	t.Parallel()
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err == nil {
		var probe *os.File
		if probe, err = os.CreateTemp(strings.TrimSpace(string(cache)), "probe"); err == nil {
			_ = probe.Close()
			check(t, os.Remove(probe.Name()))
		}
	}
	if err != nil {
		t.Skipf("go builds nothing here: %v", err)
	}
	for name, flags := range map[string]string{"optimized": "", "not optimized": "all=-N -l"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := filepath.Join(t.TempDir(), "large")
			if out, err := exec.Command("go", "build", "-buildvcs=false", "-gcflags", flags, "-o", program, "../../shmem/testdata/large").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, args := range [][]string{{"-n", "2"}, {"--emulate", "2", "-n", "2"}} {
				j := start(t, append(args, program)...)
				j.expect(0)
				for _, line := range []string{"0 10 10 20 20\n", "1 11 11 21 21\n"} {
					if out := j.stdout.String(); !strings.Contains(out, line) {
						t.Errorf("%v: output %q, want %q in it", args, out, line)
					}
				}
			}
		})
	}
}
