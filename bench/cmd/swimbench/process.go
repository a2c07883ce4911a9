package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/goshmem/goshmem/internal/xunix"
)

// runBusy uses a processor until standard input ends.
func runBusy(stdin io.Reader) error {
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, stdin)
		ended <- err
	}()
	for {
		for range 1 << 20 { // work between two looks
		}
		select {
		case err := <-ended:
			return err
		default:
		}
	}
}

// runNice runs this program with another nice value: the first argument is that value, the others are the program's. A
// nice value is that of a thread, and the Go runtime has several by now. So one thread takes the value and executes the
// program anew, which ends the others.
func runNice(args []string) error {
	if len(args) < 2 {
		return wrong("nice: arguments %q, want a nice value and a mode", args)
	}
	nice, err := strconv.Atoi(args[0])
	if err != nil {
		return wrong("nice: %q, want a number", args[0])
	}
	runtime.LockOSThread()
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, nice); err != nil {
		return fmt.Errorf("nice value %d: %w; a value below the present one takes privileges", nice, err)
	}
	return syscall.Exec("/proc/self/exe", append([]string{os.Args[0]}, args[1:]...), os.Environ())
}

// process is a process that this program has started from itself. It ends when its standard input does, and the kernel
// kills it when this process ends.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.Reader
	said   tail
}

// startProcess starts this program in a mode.
func startProcess(nice int, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if nice != 0 {
		args = append([]string{modeNice, strconv.Itoa(nice)}, args...)
	}
	p := &process{cmd: exec.Command(self, args...)}
	p.cmd.SysProcAttr = xunix.ChildAttr()
	p.cmd.Stderr = &p.said
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.stdout, err = p.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	return p, nil
}

// kill sends SIGKILL. A process that has ended already gets nothing.
func (p *process) kill() { _ = p.cmd.Process.Kill() }

// tail keeps the last bytes that are written to it.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	const most = 2 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(b)
	t.buf.Next(max(0, t.buf.Len()-most))
	return len(b), nil
}

// String returns these bytes.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(t.buf.String())
}
