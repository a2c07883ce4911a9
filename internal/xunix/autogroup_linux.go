package xunix

import (
	"fmt"
	"os"
	"strings"
)

// The range of nice values.
const (
	minNice = -20
	maxNice = 19
)

// SessionNice returns the nice value of this process against processes of other sessions: the nice value of
// its autogroup plus that of the calling thread. On a kernel without autogroups the former is 0.
func SessionNice() int {
	own.mu.RLock()
	led, session := own.led, own.session
	own.mu.RUnlock()
	if led {
		return session
	}
	thread, err := niceOf(0)
	if err != nil {
		return 0
	}
	group, _ := autogroupNice(os.Getpid())
	return min(max(thread+group, minNice), maxNice)
}

// autogroupNice returns the nice value of a process's autogroup.
func autogroupNice(pid int) (nice int, err error) {
	text, err := os.ReadFile(autogroupFile(pid))
	if err != nil {
		return 0, err
	}
	if _, after, found := strings.Cut(string(text), " nice "); found { // the root's group has no text
		_, err = fmt.Sscan(after, &nice)
	}
	return nice, err
}

// SetSessionNice sets the nice value of a process's autogroup, which is that of its session. It does nothing if same
// returns false: the number then belongs to another process.
//
// No lock is needed around check and write. The open file stands for the process that had the number when the file
// was opened, and a write fails when that process is gone. same is called after the open, so no other process is
// reached.
//
//   - EAGAIN: this process has no privileges, and an unprivileged user has changed a value in the last 0.1 s.
//   - EPERM: this process has no privileges, and the value is negative.
//   - ENOENT: the kernel has no autogroups.
func SetSessionNice(pid, nice int, same func() bool) error {
	f, err := os.OpenFile(autogroupFile(pid), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if same() {
		_, err = fmt.Fprint(f, nice)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

func autogroupFile(pid int) string { return fmt.Sprintf("/proc/%d/autogroup", pid) }
