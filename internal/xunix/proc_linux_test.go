package xunix

import (
	"errors"
	"io/fs"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A child that has ended is found, and left to be reaped by whoever started it,
// whether its process is waited for by the poller or by a thread.
func TestWaitExited(t *testing.T) {
	block := func(pid int) error { _, err := ended(unix.P_PID, pid, 0); return err }
	for name, wait := range map[string]func(pid int) error{"poll": pollExited, "block": block, "either": WaitExited} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "read x; exit 7")
			in, err := cmd.StdinPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			if AnyEnded() {
				t.Error("a child has ended, want none to")
			}
			over := make(chan error)
			go func() { over <- wait(cmd.Process.Pid) }()
			if err := in.Close(); err != nil {
				t.Error(err)
			}
			if err := <-over; err != nil {
				t.Error(err)
			}
			if !AnyEnded() {
				t.Error("no child has ended, want one")
			}
			if err := cmd.Wait(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 7 {
				t.Errorf("wait: %v, state %v, want status 7", err, cmd.ProcessState)
			}
			if AnyEnded() {
				t.Error("a child has ended, want it reaped")
			}
		})
	}
}

// A process that is no child of this one is an error, at once.
func TestWaitExitedOfStranger(t *testing.T) {
	if err := WaitExited(1); err == nil {
		t.Error("no error")
	}
}

// A signal reaches the process that is meant, and none that has its number otherwise.
func TestKillSame(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	asked := false
	if err := KillSame(pid, func() bool { asked = true; return false }, unix.SIGKILL); !errors.Is(err, unix.ESRCH) || !asked {
		t.Errorf("the number is another process's: %v, asked: %v; want %v", err, asked, unix.ESRCH)
	}
	if err := KillSame(pid, func() bool { return true }, unix.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != unix.SIGTERM {
		t.Errorf("the process ended by %v, want SIGTERM only", cmd.ProcessState)
	}
	if err := KillSame(pid, func() bool { return true }, unix.SIGTERM); !errors.Is(err, unix.ESRCH) {
		t.Errorf("a reaped process: %v, want %v", err, unix.ESRCH)
	}
}

// A session gets its nice value, unless the process is another one by then.
func TestSetSessionNice(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	pid := cmd.Process.Pid
	before, err := autogroupNice(pid)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the kernel has no autogroups")
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := SetSessionNice(pid, before+5, func() bool { return false }); err != nil {
		t.Error(err)
	}
	if now, err := autogroupNice(pid); err != nil || now != before {
		t.Errorf("the nice value of another process is %d, %v, want %d as before", now, err, before)
	}
	for err = unix.EAGAIN; errors.Is(err, unix.EAGAIN); { // the kernel lets users set one every 0.1 s
		err = SetSessionNice(pid, before+5, func() bool { return true })
	}
	if err != nil {
		t.Fatal(err)
	}
	if now, err := autogroupNice(pid); err != nil || now != before+5 {
		t.Errorf("nice value %d, %v, want %d", now, err, before+5)
	}
}
