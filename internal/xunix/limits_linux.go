package xunix

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Umask returns the file mode creation mask of this process; -1: it is not known. To ask the kernel by umask(2) would change
// the mask for a moment, for all threads.
func Umask() int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return -1
	}
	return parseUmask(status)
}

// parseUmask finds the mask in /proc/PID/status. Kernels before 4.7 do not have it there.
func parseUmask(status []byte) int {
	for line := range bytes.Lines(status) {
		if text, found := bytes.CutPrefix(line, []byte("Umask:")); found {
			mask, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 8, 9)
			if err != nil {
				return -1
			}
			return int(mask)
		}
	}
	return -1
}

// SetUmask sets the file mode creation mask of this process and of those that it will start.
func SetUmask(mask int) { unix.Umask(mask) }

// ChildOpenFiles returns the soft limit of open files (RLIMIT_NOFILE) that a child of this process has. Go raises it for
// itself, and gives children the limit from before, which it does not tell. So a child is started, looked at before its
// first instruction, and killed.
func ChildOpenFiles() (uint64, error) {
	runtime.LockOSThread() // the thread that traces the child
	defer runtime.UnlockOSThread()
	child := &exec.Cmd{Path: "/proc/self/exe", SysProcAttr: Held(ChildAttr())}
	if err := child.Start(); err != nil {
		return 0, fmt.Errorf("limit of open files of a child: %w", err)
	}
	limit, err := openFilesOf(child.Process.Pid)
	_ = child.Process.Kill() // it cannot have ended
	_ = child.Wait()         // killed
	return limit.Cur, err
}

// openFilesOf returns the limits of open files of a process.
func openFilesOf(pid int) (limit unix.Rlimit, err error) {
	if err = unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &limit); err != nil {
		err = fmt.Errorf("prlimit RLIMIT_NOFILE of process %d: %w", pid, err)
	}
	return limit, err
}

// SetOpenFiles sets the soft limit of open files of a process, but not beyond its hard limit. It returns the limit that the
// process has then.
func SetOpenFiles(pid int, soft uint64) (uint64, error) {
	limit, err := openFilesOf(pid)
	if err != nil {
		return 0, err
	}
	limit.Cur = min(soft, limit.Max)
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &limit, nil); err != nil {
		return 0, fmt.Errorf("prlimit RLIMIT_NOFILE of process %d to %d: %w", pid, limit.Cur, err)
	}
	return limit.Cur, nil
}

// RaiseOOMScore raises what counts against a process when the kernel ends one for lack of memory, from -1000 to 1000. A
// process that has as much already keeps it.
func RaiseOOMScore(pid, to int) error {
	file := fmt.Sprintf("/proc/%d/oom_score_adj", pid)
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if now, err := strconv.Atoi(string(bytes.TrimSpace(text))); err == nil && now >= to {
		return nil
	}
	return os.WriteFile(file, []byte(strconv.Itoa(to)), 0)
}
