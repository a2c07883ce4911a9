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

// toolchain is a compiler with the flags that a library needs before and after
// the source.
type toolchain struct {
	compiler string
	flags    []string
	libs     []string
}

// CompileC builds a C program from a source file, normally one in testdata, and
// returns its path. with says whose compiler to use, and libs what else the
// program is linked with; the machine must have all of them, as for Need. Each
// program is built once a test process, in a folder that everybody can read and
// that vanishes with the process.
func CompileC(t testing.TB, with Capability, source string, libs ...Capability) string {
	t.Helper()
	Need(t, append([]Capability{with}, libs...)...)
	key := fmt.Sprint(with, libs, source)
	programs.Lock()
	defer programs.Unlock()
	if path, ok := programs.paths[key]; ok {
		return path
	}
	path, err := compile(with, libs, source)
	if err != nil {
		t.Fatal(err)
	}
	programs.paths[key] = path
	return path
}

var programs = struct {
	sync.Mutex
	paths map[string]string // by what they are made of
}{paths: map[string]string{}}

func compile(with Capability, libs []Capability, source string) (string, error) {
	room, err := scratch()
	if err != nil {
		return "", err
	}
	tools := answers[with]().tools
	if tools == nil {
		return "", fmt.Errorf("compile %s: capability %s has no compiler", source, with)
	}
	// Everything may be there twice, for different compilers.
	out, err := os.MkdirTemp(room.dir, "program")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(out, 0o755); err != nil {
		return "", err
	}
	out = filepath.Join(out, strings.TrimSuffix(filepath.Base(source), ".c"))
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
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, bytes.TrimSpace(text))
	}
	return out, os.Chmod(out, 0o755)
}

// room is a folder that lives as long as this process, however that ends: no
// code of a test runs after the last test, let alone after a timeout.
type room struct {
	dir      string
	lifeline *os.File // open as long as this process lives
}

var scratch = sync.OnceValues(func() (*room, error) {
	dir, err := os.MkdirTemp("", "goshmem-testenv-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	janitor := exec.Command("sh", "-c", `trap "" INT QUIT TERM HUP; read end; rm -rf "$0"`, dir)
	janitor.Stdin, janitor.Dir = r, "/"
	if err := errors.Join(janitor.Start(), r.Close()); err != nil {
		return nil, fmt.Errorf("folder for programs of tests: %w", err)
	}
	return &room{dir, w}, janitor.Process.Release()
})

// look returns the first of several programs that is installed.
func look(names ...string) (path string, err error) {
	for _, name := range names {
		if path, err = exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", err
}

// wrapper finds a compiler of an MPI library: by its own name, or by a common
// one if that is this library's, which it says when asked.
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
		return "", fmt.Errorf("%w, and %s is not of %q", err, other, says)
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

// debianPMIx is where Debian puts the library; its pkg-config file exists, but
// pkg-config itself may not be installed.
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

// builds tries whether a compiler can make a program.
func builds(compiler, source string, libs ...string) error {
	cmd := exec.Command(compiler, append([]string{"-o", os.DevNull, "-x", "c", "-", "-x", "none"}, libs...)...)
	cmd.Stdin = strings.NewReader(source + "\nint main(void) { return 0; }\n")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s cannot build a program: %w: %s", compiler, err, bytes.TrimSpace(text))
	}
	return nil
}
