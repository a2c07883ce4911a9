package rerun

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// statOf returns a stat file's text behind the process number.
func statOf(name string, parent, flags int) string {
	return fmt.Sprintf("(%s) S %d 1 1 0 -1 %d 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0", name, parent, flags)
}

// fakeProcesses returns a directory as /proc.
func fakeProcesses(t *testing.T) string {
	t.Helper()
	proc := t.TempDir()
	for pid, p := range map[string]struct{ stat, command string }{
		"10": {statOf("oshrun", 1, 0), "oshrun\x00daemon\x00--stdin\x00"},
		"11": {statOf("a) b ", 10, 0), "oshrun\x00pe\x00ftco-pe\x00"},
		"12": {statOf("oshrun", 10, 0), "/bin/oshrun\x00agent\x00"},
		"13": {statOf("oshrun", 9, 0), "oshrun\x00agent\x00"},
		"14": {"odd", "oshrun\x00agent\x00"},
		"15": {"(oshrun) S", "oshrun\x00agent\x00"},
		"16": {statOf("sh", 11, 0), "sh\x00"},
		"20": {statOf("oshrun", 10, 0), "oshrun\x00daemon\x00--stdin\x00"},
		"21": {statOf("oshrun", 20, 0), "oshrun\x00agent\x00"},
		"22": {statOf("oshrun", 10, 0x40), "oshrun\x00daemon\x00--stdin\x00"}, // between fork and exec: a PE to be
	} {
		dir := filepath.Join(proc, pid)
		if err := errors.Join(os.Mkdir(dir, 0o777), os.WriteFile(filepath.Join(dir, "stat"), []byte(pid+" "+p.stat), 0o666),
			os.WriteFile(filepath.Join(dir, "cmdline"), []byte(p.command), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(proc, "self"), 0o777); err != nil {
		t.Fatal(err)
	}
	return proc
}

// TestAgentOf: the agent is the child of the daemon that runs as one.
func TestAgentOf(t *testing.T) {
	t.Parallel()
	all, err := readProcesses(fakeProcesses(t))
	if err != nil {
		t.Fatal(err)
	}
	if p, err := all.AgentOf(10); p.PID != 12 || err != nil {
		t.Errorf("agent %d, %v, want 12", p.PID, err)
	}
	if _, err := all.AgentOf(1); err == nil || !strings.Contains(err.Error(), "pid 1 has no agent among its 1 children") {
		t.Errorf("no agent: %v", err)
	}
	if _, err := readProcesses(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no processes: %v", err)
	}
}

// TestNodeOf: a node has the daemon and what it has started, without the nodes of other daemons.
func TestNodeOf(t *testing.T) {
	t.Parallel()
	all, err := readProcesses(fakeProcesses(t))
	if err != nil {
		t.Fatal(err)
	}
	node, err := all.NodeOf(10)
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, p := range node {
		pids = append(pids, p.PID)
	}
	if got := fmt.Sprint(pids); got != "[10 11 12 22 16]" {
		t.Errorf("processes %s, want [10 11 12 22 16]", got)
	}
	if _, err := all.NodeOf(99); err == nil || !strings.Contains(err.Error(), "no daemon with pid 99") {
		t.Errorf("no daemon: %v", err)
	}
}

// TestProcessKill: a signal reaches the process that was seen, and no later one with its number.
func TestProcessKill(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	all, err := LookAtProcesses()
	if err != nil {
		t.Fatal(err)
	}
	p := all[cmd.Process.Pid]
	if p.Parent != os.Getpid() || p.start == 0 {
		t.Errorf("%+v, want a child of this process with a start time", p)
	}
	other := p
	other.start++
	if err := other.Kill(syscall.SIGKILL); err != nil {
		t.Errorf("a process that has ended: %v", err)
	}
	if err := p.Kill(syscall.Signal(0)); err != nil {
		t.Errorf("the process was killed in place of another one: %v", err)
	}
	if err := p.Kill(syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("ended with %v, want by SIGKILL", err)
	}
	if err := p.Kill(syscall.SIGKILL); err != nil {
		t.Errorf("a process that was reaped: %v", err)
	}
}
