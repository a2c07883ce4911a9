package xunix

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// A process that computes runs and uses processor time, one that waits for input does
// neither, and one that was killed and not reaped is ending.
func TestRunning(t *testing.T) {
	deadline := time.Now().Add(20 * time.Second)
	until := func(pid int, ready, ok bool) {
		t.Helper()
		for {
			isReady, isOK := Running(pid)
			if isReady == ready && isOK == ok {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("ready %t, there %t; want %t, %t", isReady, isOK, ready, ok)
			}
		}
	}
	r, w, err := os.Pipe()
	try(t, err)
	defer func() { _ = w.Close() }()
	waits := exec.Command("cat")
	waits.Stdin = r
	computes := exec.Command("sh", "-c", "while :; do :; done")
	for _, cmd := range []*exec.Cmd{waits, computes} {
		try(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	until(waits.Process.Pid, false, true)
	until(computes.Process.Pid, true, true)
	before, err := ProcessTimeOf(computes.Process.Pid)
	try(t, err)
	for now := before; now < before+time.Millisecond; {
		if now, err = ProcessTimeOf(computes.Process.Pid); err != nil || time.Now().After(deadline) {
			t.Fatalf("it has used %v, and %v later: %v", before, now, err)
		}
	}
	try(t, computes.Process.Kill())
	until(computes.Process.Pid, false, false)
}
