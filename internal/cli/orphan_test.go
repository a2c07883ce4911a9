package cli

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

// forks runs functions that start children, on one thread that lasts as long as this process. The kernel kills a child
// when the thread that started it ends, and other threads may end earlier.
var forks = make(chan func())

func startChildren() {
	runtime.LockOSThread()
	for f := range forks {
		f()
	}
}

// startChild starts a process that the kernel kills when this process ends, in whatever way.
func startChild(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	return onForkThread(cmd.Start)
}

// onForkThread calls f on the thread that starts children, which inherit its attributes.
func onForkThread(f func() error) error {
	done := make(chan error)
	forks <- func() { done <- f() }
	return <-done
}

// asLoneTest makes TestNoOrphans the test that is killed.
const asLoneTest = "GOSHMEM_TEST_TO_BE_KILLED"

// Jobs end with the test that started them, even if the test is killed.
func TestNoOrphans(t *testing.T) {
	if os.Getenv(asLoneTest) != "" {
		j := prepare(t, "-n", "1", "--stdin", "0", "t-pe", "spin")
		s := onTerminal(t, j)
		s.wait("ready ")
		_, pid, _ := strings.Cut(s.String(), "ready ")
		fmt.Printf("\nchildren %d %s\n", j.cmd.Process.Pid, strings.TrimSpace(pid))
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	cmd := exec.Command(self(t), "-test.run=^TestNoOrphans$")
	// A killed test does not remove its temporary folder. This test removes both folders.
	cmd.Env = append(os.Environ(), asLoneTest+"=1", "TMPDIR="+t.TempDir())
	stdin, err := cmd.StdinPipe()
	check(t, err)
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	check(t, err)
	check(t, startChild(cmd))
	said, oshrun, pe := "", 0, 0
	for buf := make([]byte, 1000); pe == 0 || !strings.HasSuffix(said, "\n"); {
		n, err := stdout.Read(buf)
		check(t, err)
		said += string(buf[:n])
		_, words, _ := strings.Cut(said, "\nchildren ")
		_, _ = fmt.Sscanf(words, "%d %d\n", &oshrun, &pe)
	}
	var fds []int
	defer func() {
		for _, fd := range fds {
			xunix.CloseFD(fd)
		}
	}()
	for _, pid := range []int{oshrun, pe} {
		fd, err := xunix.OpenProcess(pid)
		check(t, err)
		fds = append(fds, fd)
	}
	check(t, cmd.Process.Kill())
	_ = cmd.Wait()
	for i, begin := 0, time.Now(); i < len(fds); {
		switch {
		case xunix.ProcessOver(fds[i]):
			i++
		case time.Since(begin) > testPatience:
			_ = syscall.Kill(oshrun, syscall.SIGKILL)
			t.Fatalf("a job is still running without its test: oshrun %d, PE %d", oshrun, pe)
		default:
			time.Sleep(time.Millisecond)
		}
	}
}
