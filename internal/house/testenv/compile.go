package testenv

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// toolchain is a compiler and the flags of a library.
type toolchain struct {
	compiler string
	flags    []string // flags before the source
	libs     []string // flags after the source
}

// CompileC builds a C program from a source file, normally one in testdata, and returns its path.
//
//   - with: the capability whose compiler is used.
//   - libs: capabilities with which the program is linked. The test is skipped if the machine lacks one, as by Need.
//   - Result: a copy in a folder that every user can read, removed with the test. Each program is built once in a
//     test process.
func CompileC(t testing.TB, with Capability, source string, libs ...Capability) string {
	t.Helper()
	Need(t, append([]Capability{with}, libs...)...)
	program, err := built(with, libs, source)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := open755()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, nameOf(source))
	// Another process writes the copy. If this process had it open for writing, a child that another test is just
	// starting might inherit the descriptor, and running the copy would fail with ETXTBSY.
	cp := exec.Command("cp", "/dev/fd/3", path)
	cp.ExtraFiles = []*os.File{program}
	if text, err := cp.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", cp, err, bytes.TrimSpace(text))
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func nameOf(source string) string { return strings.TrimSuffix(filepath.Base(source), ".c") }

// open755 makes a temporary folder that every user can read.
func open755() (string, error) {
	dir, err := os.MkdirTemp("", "goshmem-testenv-")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755)
}

// programs holds the built programs as open files without a name. So none is left behind, however the test process
// ends.
var programs = struct {
	sync.Mutex
	files map[string]*os.File // by capabilities and source
}{files: map[string]*os.File{}}

func built(with Capability, libs []Capability, source string) (*os.File, error) {
	programs.Lock()
	defer programs.Unlock()
	key := fmt.Sprint(with, libs, source)
	if f, ok := programs.files[key]; ok {
		return f, nil
	}
	f, err := compile(with, libs, source)
	if err == nil {
		programs.files[key] = f
	}
	return f, err
}

func compile(with Capability, libs []Capability, source string) (_ *os.File, err error) {
	tools := answers[with]().tools
	if tools == nil {
		return nil, fmt.Errorf("compile %s: capability %s has no compiler", source, with)
	}
	dir, err := open755()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	out := filepath.Join(dir, nameOf(source))
	args := append([]string{"-O1", "-Wall", "-o", out}, tools.flags...)
	var last []string
	for _, l := range libs {
		if more := answers[l]().tools; more != nil {
			args, last = append(args, more.flags...), append(last, more.libs...)
		}
	}
	args = append(append(append(args, source), tools.libs...), last...)
	cmd := exec.Command(tools.compiler, args...)
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", cmd, err, bytes.TrimSpace(text))
	}
	return os.Open(out)
}

// look returns the path of the first installed program.
func look(names ...string) (path string, err error) {
	for _, name := range names {
		if path, err = exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", err
}

// wrapper finds the compiler of an MPI library. It tries the name own, then the name common that several libraries
// use. The latter counts if its output with the flag ask contains says.
func wrapper(own, common, ask, says string) (string, error) {
	path, err := look(own)
	if err == nil {
		return path, nil
	}
	other, err2 := look(common)
	if err2 != nil {
		return "", err
	}
	if text, err2 := exec.Command(other, ask).CombinedOutput(); err2 != nil || !strings.Contains(string(text), says) {
		return "", fmt.Errorf("%w, and %s is not the compiler of %q", err, other, says)
	}
	return other, nil
}

func findCC() (*toolchain, error) {
	path, err := look("gcc", "cc")
	if err != nil {
		return nil, err
	}
	return &toolchain{compiler: path}, builds(path, "#include <stdlib.h>")
}

func findOpenMPI() (*toolchain, error) {
	path, err := wrapper("mpicc.openmpi", "mpicc", "--showme:version", "Open MPI")
	if err != nil {
		return nil, err
	}
	return &toolchain{compiler: path}, builds(path, "#include <mpi.h>")
}

func findOSHMEM() (*toolchain, error) {
	path, err := look("oshcc")
	if err != nil {
		return nil, err
	}
	return &toolchain{compiler: path}, builds(path, "#include <shmem.h>")
}

func findMPICH() (*toolchain, error) {
	path, err := wrapper("mpicc.mpich", "mpicc", "-show", "mpich")
	if err != nil {
		return nil, err
	}
	if _, err := look("mpiexec.hydra"); err != nil {
		return nil, err
	}
	return &toolchain{compiler: path}, builds(path, "#include <mpi.h>")
}

func findPMI1() (*toolchain, error) {
	tools, err := findCC()
	if err != nil {
		return nil, err
	}
	tools.libs = []string{"-l:libmpich.a"}
	return tools, builds(tools.compiler, "int PMI_Init(int *); int (*client)(int *) = PMI_Init;", tools.libs...)
}

// debianPMIx is Debian's folder for the library, for machines without pkg-config.
const debianPMIx = "/usr/lib/*/pmix2"

func findLibPMIx() (*toolchain, error) {
	tools, err := findCC()
	if err != nil {
		return nil, err
	}
	if text, err := exec.Command("pkg-config", "--cflags", "--libs", "pmix").Output(); err == nil {
		tools.libs = strings.Fields(string(text))
	} else if found, _ := filepath.Glob(debianPMIx); len(found) > 0 {
		root := found[0]
		tools.libs = []string{"-I" + root + "/include", "-L" + root + "/lib", "-Wl,-rpath," + root + "/lib", "-lpmix"}
	} else {
		tools.libs = []string{"-lpmix"}
	}
	return tools, builds(tools.compiler, "#include <pmix.h>", tools.libs...)
}

// builds checks that a compiler can build a program.
func builds(compiler, source string, libs ...string) error {
	cmd := exec.Command(compiler, append([]string{"-o", os.DevNull, "-x", "c", "-", "-x", "none"}, libs...)...)
	cmd.Stdin = strings.NewReader(source + "\nint main(void) { return 0; }\n")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s cannot build a program: %w: %s", compiler, err, bytes.TrimSpace(text))
	}
	return nil
}
