package xunix

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// StartTime returns when a process began, in ticks since boot. The number of a process and its start time
// together identify it until the machine is shut down.
func StartTime(pid int) (uint64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// Format: pid (name) state ... The name may hold any byte, so fields are counted from the last ')'. The
	// start time is field 22.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const field = 22 - 3
	if len(fields) <= field {
		return 0, fmt.Errorf("/proc/%d/stat: %d fields, want more than %d", pid, len(fields), field)
	}
	return strconv.ParseUint(string(fields[field]), 10, 64)
}

// Lock locks a file for this process until the file is closed. It fails at once if another process holds the
// lock.
func Lock(f *os.File) error {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
}

// OwnedBySelf says whether an open file belongs to this process's effective user.
func OwnedBySelf(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid(), nil
}

// Dup returns a second descriptor of an open file, which programs that are started do not inherit.
func Dup(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("duplicate the descriptor of %s: %w", f.Name(), err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}
