package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/envvar"
)

// recorder is a test that notes how it ends.
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

const absent Capability = "slurm" // known to GOSHMEM_TEST_REQUIRE

func withoutIt(t *testing.T) {
	t.Helper()
	probes[absent] = probe{hint: "do without"}
	answers[absent] = func() answer { return answer{err: errors.New("there is none")} }
	t.Cleanup(func() { delete(probes, absent); delete(answers, absent) })
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
		t.Errorf("misspelled: %+v, want a failure that names it", r)
	}
	t.Setenv(envvar.TestRequire, "")
	here := User
	if os.Geteuid() == 0 {
		here = Root
	}
	if r := need(here); r.skipped != "" || r.failed != "" {
		t.Errorf("present: %+v, want nothing", r)
	}
}

// TestSpelling: what can be asked for can be required.
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

func TestCompileC(t *testing.T) {
	first := CompileC(t, CC, filepath.Join("testdata", "hello.c"))
	if again := CompileC(t, CC, filepath.Join("testdata", "hello.c")); again != first {
		t.Errorf("built twice: %s and %s", first, again)
	}
	if out, err := exec.Command(first).Output(); string(out) != "hello\n" || err != nil {
		t.Errorf("the program says %q, %v", out, err)
	}
	r := record(func(r *recorder) { CompileC(r, CC, filepath.Join("testdata", "broken.c")) })
	if !strings.Contains(r.failed, "broken.c") || !strings.Contains(r.failed, "nothing") {
		t.Errorf("a program that cannot be built: %+v, want the compiler's message", r)
	}
}

// TestLibraries builds and starts a program with each library that is here.
func TestLibraries(t *testing.T) {
	for _, c := range []Capability{OpenMPI, OSHMEM, MPICH, PMI1, LibPMIx} {
		t.Run(string(c), func(t *testing.T) {
			path := CompileC(t, c, filepath.Join("testdata", "hello.c"))
			if out, err := exec.Command(path).Output(); string(out) != "hello\n" || err != nil {
				t.Errorf("the program says %q, %v", out, err)
			}
		})
	}
}

const asVictim = "GOSHMEM_TESTENV_VICTIM"

// TestScratchVanishes with a process that is killed.
func TestScratchVanishes(t *testing.T) {
	if os.Getenv(asVictim) != "" {
		fmt.Println("built", CompileC(t, CC, filepath.Join("testdata", "hello.c")))
		time.Sleep(time.Minute) // to be killed
	}
	Need(t, CC)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	victim := exec.Command(self, "-test.run=^TestScratchVanishes$")
	victim.Env = append(os.Environ(), asVictim+"=1")
	out, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	var path string
	_, err = fmt.Fscanf(out, "built %s\n", &path)
	_ = victim.Process.Kill()
	_ = victim.Wait()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(filepath.Dir(path))
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is left", dir)
		}
	}
}
