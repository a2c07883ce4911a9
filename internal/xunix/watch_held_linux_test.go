package xunix

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// A child that is held before its program begins has not ended.
func TestChildStatusOfHeld(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command("true")
	cmd.SysProcAttr = Held(&syscall.SysProcAttr{})
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if status, over, err := ChildStatus(cmd.Process.Pid); over || err != nil {
		t.Errorf("held: over %t with status %#x, %v", over, int(status), err)
	}
	if err := LetGo(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if err := WaitExited(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if status, over, err := ChildStatus(cmd.Process.Pid); !over || status != 0 || err != nil {
		t.Errorf("ended: over %t with status %#x, %v", over, int(status), err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// A child that is let go stopped has begun nothing, has no tracer, and goes on by SIGCONT.
func TestLetGoStopped(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command("sh", "-c", "exit 7")
	cmd.SysProcAttr = Held(&syscall.SysProcAttr{})
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if err := LetGoStopped(pid); err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nState:\tT (stopped)\n", "\nTracerPid:\t0\n", "\nThreads:\t1\n"} {
		if !strings.Contains(string(status), want) {
			t.Errorf("status lacks %q:\n%s", want, status)
		}
	}
	if err := Kill(pid, SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("ended by %v, want status 7", err)
	}
}
