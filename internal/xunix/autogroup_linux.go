package xunix

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// The range of nice values.
const (
	minNice = -20
	maxNice = 19
)

// SessionNice returns how nice this process is to those of other sessions: the
// nice value of its autogroup plus that of the calling thread. Where the kernel
// has no autogroups, the first is 0.
func SessionNice() int {
	own, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return 0
	}
	const zero = 20 // what the system call returns for a nice value of 0; -20 is 40
	group, _ := autogroupNice(os.Getpid())
	return min(max(zero-own+group, minNice), maxNice)
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

// SetSessionNice gives the autogroup of a process, which is that of its session,
// a nice value, unless same says that the number is another process's by now.
//
// The open file stands for the process that had the number when it was opened, and
// writing fails when that process is gone. So if same holds after the file has been
// opened, no other process is reached, without a lock around the two.
//
// To an ordinary user the kernel answers EAGAIN if any such user has changed a nice
// value within the last 0.1 s, and EPERM if the value is negative. It fails with
// ENOENT where the kernel has no autogroups.
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
