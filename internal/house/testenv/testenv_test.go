package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/envvar"
)

// recorder is a test that records how it ends.
type recorder struct {
	testing.TB
	skipped, failed string
}

type ended struct{}

func (r *recorder) Helper() {}

func (r *recorder) Skip(args ...any) {
	r.skipped = fmt.Sprint(args...)
	panic(ended{})
}

func (r *recorder) Fatal(args ...any) {
	r.failed = fmt.Sprint(args...)
	panic(ended{})
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failed = fmt.Sprintf(format, args...)
	panic(ended{})
}

func need(all ...Capability) recorder {
	return record(func(r *recorder) { Need(r, all...) })
}

func record(f func(*recorder)) (r recorder) {
	defer func() {
		if p := recover(); p != nil && p != any(ended{}) {
			panic(p)
		}
	}()
	f(&r)
	return r
}

const absent Capability = "slurm" // any capability

// withoutIt lets the machine lack that capability.
func withoutIt(t *testing.T) {
	t.Helper()
	had, answered := probes[absent], answers[absent]
	probes[absent] = probe{hint: "do without"}
	answers[absent] = func() answer { return answer{err: errors.New("there is none")} }
	t.Cleanup(func() { probes[absent], answers[absent] = had, answered })
}

func TestNeed(t *testing.T) {
	withoutIt(t)
	t.Setenv(envvar.TestRequire, "openmpi")
	if r := need(absent); r.skipped != "slurm: there is none; hint: do without" || r.failed != "" {
		t.Errorf("missing: %+v, want a skip with cause and hint", r)
	}
	t.Setenv(envvar.TestRequire, "openmpi,slurm")
	if r := need(absent); r.skipped != "" || !strings.Contains(r.failed, "there is none") || !strings.Contains(r.failed, envvar.TestRequire) {
		t.Errorf("missing and required: %+v, want a failure with cause", r)
	}
	t.Setenv(envvar.TestRequire, "openmpi,slrum")
	if r := need(); !strings.Contains(r.failed, `"slrum"`) {
		t.Errorf("misspelled: %+v, want a failure with its name", r)
	}
	t.Setenv(envvar.TestRequire, "")
	here := User
	if os.Geteuid() == 0 {
		here = Root
	}
	if r := need(here); r.skipped != "" || r.failed != "" {
		t.Errorf("present: %+v, want neither a skip nor a failure", r)
	}
}

// TestSpelling: each capability that a test can need can be required.
func TestSpelling(t *testing.T) {
	for c, p := range probes {
		if _, err := envvar.Required(func(string) (string, bool) { return string(c), true }); err != nil {
			t.Errorf("%s: %v", c, err)
		}
		if p.hint == "" {
			t.Errorf("%s: no hint", c)
		}
	}
}

// TestCompileC: a program is built once, copied for each test, and removed after it.
func TestCompileC(t *testing.T) {
	source := filepath.Join(t.TempDir(), "hello.c")
	text, err := os.ReadFile(filepath.Join("testdata", "hello.c"))
	if err == nil {
		err = os.WriteFile(source, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for range 2 {
		t.Run("user", func(t *testing.T) {
			path := CompileC(t, CC, source)
			paths = append(paths, path)
			if out, err := exec.Command(path).Output(); string(out) != "hello\n" || err != nil {
				t.Errorf("the program printed %q, %v", out, err)
			}
			for _, name := range []string{path, filepath.Dir(path)} {
				if st, err := os.Stat(name); err != nil || st.Mode().Perm() != 0o755 {
					t.Errorf("%s: %v, %v, want mode 0755", name, st, err)
				}
			}
			_ = os.Remove(source) // another build is impossible now
		})
	}
	for _, path := range paths {
		if _, err := os.Stat(filepath.Dir(path)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s still exists: %v", filepath.Dir(path), err)
		}
	}
	r := record(func(r *recorder) { CompileC(r, CC, filepath.Join("testdata", "broken.c")) })
	if !strings.Contains(r.failed, "broken.c") || !strings.Contains(r.failed, "nothing") {
		t.Errorf("a program that cannot be built: %+v, want the compiler's message", r)
	}
}

// TestLibraries builds and starts a program with each library that is installed.
func TestLibraries(t *testing.T) {
	for _, c := range []Capability{OpenMPI, OSHMEM, MPICH, PMI1, LibPMIx} {
		t.Run(string(c), func(t *testing.T) {
			path := CompileC(t, c, filepath.Join("testdata", "hello.c"))
			if out, err := exec.Command(path).Output(); string(out) != "hello\n" || err != nil {
				t.Errorf("the program printed %q, %v", out, err)
			}
		})
	}
}
