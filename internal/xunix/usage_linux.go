package xunix

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ProcessTime returns the processor time that this process has used.
func ProcessTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		return 0 // every Linux has it
	}
	return time.Duration(ts.Nano())
}

// PeakMemory returns the largest resident memory of process pid so far, in bytes. ok is false if the process
// is gone or has freed its memory.
func PeakMemory(pid int) (peak uint64, ok bool) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, false
	}
	_, rest, _ := strings.Cut(string(status), "\nVmHWM:")
	if n, err := fmt.Sscanf(rest, "%d kB", &peak); n != 1 || err != nil {
		return 0, false
	}
	return peak << 10, true
}

// Usage returns the resource use of an ended process: its largest resident memory in bytes, and its voluntary
// and involuntary context switches.
func Usage(s *os.ProcessState) (maxRSS uint64, voluntary, involuntary int64) {
	u, ok := s.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0, 0, 0
	}
	return uint64(u.Maxrss) << 10, u.Nvcsw, u.Nivcsw
}
