package daemon

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"github.com/goshmem/goshmem/internal/xunix"
)

// HintError is an error for which something helps.
type HintError struct {
	Err  error
	Hint string
}

// Error returns what went wrong.
func (e *HintError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *HintError) Unwrap() error { return e.Err }

// explain says what the kernel means that does not start a program.
func (a *App) explain(err error) error {
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		what, hint := formatOf(a.Path)
		return &HintError{fmt.Errorf("%s is %s: %w", a.Path, what, err), hint}
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	_, perr := os.Stat(a.Path)
	_, derr := os.Stat(cmp.Or(a.Dir, "."))
	if perr != nil || derr != nil {
		return err
	}
	return fmt.Errorf("%w: the program is there, its interpreter (in the line that begins with #!) or loader is not", err)
}

// explainNull says what helps where /dev/null cannot be opened; too many open files have
// another remedy.
func explainNull(err error) error {
	if err == nil || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return err
	}
	return &HintError{
		fmt.Errorf("%w: it is the standard input of PEs that read none", err),
		"mount /dev, or mknod -m 666 /dev/null c 1 3",
	}
}

// formatOf says what a file is that the kernel cannot run, and what helps.
func formatOf(path string) (what, hint string) {
	const rebuild = "build it for this machine: GOARCH=" + runtime.GOARCH
	begin, err := beginOf(path)
	switch {
	case err != nil:
		return "a file that cannot be read (" + err.Error() + ")", "look at its permissions"
	case len(begin) == 0:
		return "an empty file", "was its build cut short?"
	case bytes.HasPrefix(begin, []byte(elf.ELFMAG)):
		machine := "an unknown machine"
		if f, err := elf.Open(path); err == nil {
			machine = f.Machine.String()
			_ = f.Close() // it was only read
		}
		return "a program for " + machine + ", and this machine is " + runtime.GOARCH, rebuild
	case bytes.HasPrefix(begin, []byte("MZ")), bytes.HasPrefix(begin, []byte("\xcf\xfa\xed\xfe")):
		return "a program for another system", rebuild
	case !bytes.Contains(begin, []byte{0}):
		return "a text without a line that begins with #!", "let it begin with #!/bin/sh, or start it by its interpreter: sh " + path
	}
	return "no program", "is it the right file?"
}

// beginOf returns the first bytes of a file.
func beginOf(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	const enough = 256
	return io.ReadAll(io.LimitReader(f, enough))
}

// checkSurroundings says what the step cannot do without, and lacks.
func checkSurroundings() error {
	if err := xunix.TryWait(); err != nil {
		return &HintError{
			fmt.Errorf("%w: oshrun could not learn how PEs end", err),
			"a sandbox (seccomp) must allow waitid",
		}
	}
	// Processes are known by their numbers: another namespace's would be killed
	// in place of the job's, and no PE would be recognized.
	const hint = "mount -t proc proc /proc, or unshare --mount-proc"
	self, err := os.Readlink("/proc/self")
	if err != nil {
		return &HintError{fmt.Errorf("/proc is not mounted: %w", err), hint}
	}
	if pid := os.Getpid(); self != strconv.Itoa(pid) {
		return &HintError{fmt.Errorf("/proc is that of another PID namespace: it calls this process %s, whose number is %d", self, pid), hint}
	}
	return nil
}

// checkLoopback tells if programs cannot reach the PMIx server. Those that use none
// run without it.
func (r *reporter) checkLoopback() {
	conn, err := net.Dial("udp4", "127.0.0.1:9") // sends nothing
	if err != nil {
		r.notice("no loopback interface, so programs of goshmem and Open MPI cannot join the job: %v; hint: ip link set lo up", err)
		return
	}
	_ = conn.Close() // nothing was sent
}
