package xunix

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The mask is what umask(2) says.
func TestUmask(t *testing.T) {
	was := unix.Umask(0o27)
	defer unix.Umask(was)
	if got := Umask(); got != 0o27 {
		t.Errorf("umask %#o, want 027", got)
	}
	SetUmask(0o77)
	if got := unix.Umask(was); got != 0o77 {
		t.Errorf("umask %#o, want 077", got)
	}
	for status, want := range map[string]int{"": -1, "Name:\tx\nUmask:\t0022\nState:\tR\n": 0o22, "Umask:\t9\n": -1, "Umask:\t07777\n": -1, "Umask:": -1} {
		if got := parseUmask([]byte(status)); got != want {
			t.Errorf("%q: %#o, want %#o", status, got, want)
		}
	}
}

// limitsOf returns what a shell says of its limits, as a child of this process.
func limitsOf(t *testing.T) string {
	t.Helper()
	text, err := exec.Command("sh", "-c", "ulimit -Sn").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// The limit that a child has is known, though this process has a higher one.
func TestChildOpenFiles(t *testing.T) {
	got, err := ChildOpenFiles()
	if want := limitsOf(t); err != nil || strconv.FormatUint(got, 10) != want {
		t.Errorf("a child has %d files, %v, want %s", got, err, want)
	}
}

// The soft limit of a process can be set up to its hard limit, and its score only be raised.
func TestSetOpenFiles(t *testing.T) {
	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = child.Process.Kill(), child.Wait() }()
	pid := child.Process.Pid
	limit, err := openFilesOf(pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ soft, want uint64 }{{77, 77}, {limit.Max, limit.Max}, {limit.Max + 1, limit.Max}, {78, 78}} {
		got, err := SetOpenFiles(pid, x.soft)
		now, nerr := openFilesOf(pid)
		if err != nil || nerr != nil || got != x.want || now.Cur != x.want || now.Max != limit.Max {
			t.Errorf("limit %d: %d, %v, has %+v, %v, want %d", x.soft, got, err, now, nerr, x.want)
		}
	}
	for _, x := range []struct{ to, want int }{{500, 500}, {400, 500}, {600, 600}} {
		if err := RaiseOOMScore(pid, x.to); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
		if got := strings.TrimSpace(string(text)); err != nil || got != strconv.Itoa(x.want) {
			t.Errorf("score raised to %d: %s, %v, want %d", x.to, got, err, x.want)
		}
	}
	if _, err := SetOpenFiles(1<<30, 5); err == nil {
		t.Error("limit of a process that does not exist: want an error")
	}
	if err := RaiseOOMScore(1<<30, 5); err == nil {
		t.Error("score of a process that does not exist: want an error")
	}
}
