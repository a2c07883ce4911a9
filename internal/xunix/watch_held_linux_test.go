package xunix

import (
	"os/exec"
	"runtime"
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
