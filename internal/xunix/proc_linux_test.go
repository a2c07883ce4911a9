package xunix

import (
	"os/exec"
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
