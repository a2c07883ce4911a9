package xunix

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ChildStatus and the descriptor of a process say what wait does, and do not
// reap.
func TestChildStatus(t *testing.T) {
	for script, want := range map[string]syscall.WaitStatus{
		"read x; exit 7":      7 << 8,
		"read x; kill -9 $$":  9,
		"read x; kill -15 $$": 15,
	} {
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script)
		in, err := cmd.StdinPipe()
		try(t, err)
		try(t, cmd.Start())
		pid := cmd.Process.Pid
		fd, err := OpenProcess(pid)
		try(t, err)
		if status, over, err := ChildStatus(pid); over || err != nil || ProcessOver(fd) {
			t.Errorf("%s: status %#x, %v, %v of a process that runs", script, status, over, err)
		}
		try(t, in.Close())
		try(t, WaitExited(pid))
		for range 2 {
			if status, over, err := ChildStatus(pid); status != want || !over || err != nil {
				t.Errorf("%s: status %#x, %v, %v, want %#x", script, status, over, err, want)
			}
		}
		if !ProcessOver(fd) {
			t.Errorf("%s: the descriptor says that it runs", script)
		}
		_ = cmd.Wait()
		if got, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || got != want {
			t.Errorf("%s: wait says %#x, want %#x", script, got, want)
		}
		if _, _, err := ChildStatus(pid); !errors.Is(err, unix.ECHILD) {
			t.Errorf("%s: %v after it was reaped, want %v", script, err, unix.ECHILD)
		}
		CloseFD(fd)
	}
	if _, err := OpenProcess(1 << 30); err == nil {
		t.Error("a descriptor of no process")
	}
}

// The clock is that of the kernel and of other processes.
func TestMonotonic(t *testing.T) {
	before := Monotonic()
	var now unix.Timespec
	try(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	if at := time.Duration(now.Nano()); at < before || at > Monotonic() {
		t.Errorf("the clock says %v, want about %v", before, at)
	}
}

func TestEffectiveCapabilities(t *testing.T) {
	have, err := EffectiveCapabilities()
	try(t, err)
	if sysAdmin := have&(1<<unix.CAP_SYS_ADMIN) != 0; sysAdmin && os.Geteuid() != 0 {
		t.Errorf("capabilities %#x of user %d", have, os.Geteuid())
	}
}

// A Poller reports descriptors once or as long as they are ready, and waits no
// longer than it is told to.
func TestPoller(t *testing.T) {
	p, err := NewPoller()
	try(t, err)
	defer func() { try(t, p.Close()) }()
	always, w1, err := os.Pipe()
	try(t, err)
	once, w2, err := os.Pipe()
	try(t, err)
	fds := []int{int(always.Fd()), int(once.Fd())}
	try(t, p.Watch(fds[0], 1, false))
	try(t, p.Watch(fds[1], 1<<40, true))
	for _, w := range []*os.File{w1, w2} {
		_, err := w.WriteString("x")
		try(t, err)
	}
	for _, want := range [][]uint64{{1, 1 << 40}, {1}, {1}} {
		ready, err := p.Wait(time.Time{})
		slices.Sort(ready)
		if !slices.Equal(ready, want) || err != nil {
			t.Errorf("ready %d, %v, want %d", ready, err, want)
		}
	}
	p.Forget(fds[0])
	until := time.Now().Add(10 * time.Millisecond)
	if ready, err := p.Wait(until); len(ready) > 0 || err != nil || time.Now().Before(until) {
		t.Errorf("ready %d, %v, want none after the time", ready, err)
	}
	p.Wake()
	if ready, err := p.Wait(time.Time{}); len(ready) > 0 || err != nil {
		t.Errorf("ready %d, %v, want none when woken", ready, err)
	}
	for _, f := range []*os.File{always, once, w1, w2} {
		try(t, f.Close())
	}
}

// Nothing is read from the process connector unless somebody asks for it.
func TestProcessEvents(t *testing.T) {
	fd, err := ProcessEvents()
	if err != nil {
		t.Skipf("this kernel has none: %v", err)
	}
	defer CloseFD(fd)
	try(t, SendPacket(fd, []byte("too short to be a request")))
	if n, err := ReadPacket(fd, make([]byte, 256)); err != nil && !errors.Is(err, ErrAgain) {
		t.Errorf("read %d bytes, %v, want none or what others asked for", n, err)
	}
}
