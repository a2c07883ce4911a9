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

// PeakMemory returns the most memory of process pid that was resident at a time, in bytes;
// false: it is not there, or has given its memory back.
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

// Usage returns of an ended process the most memory that it had, in bytes, and
// how often it gave up a processor and had to give it up.
func Usage(s *os.ProcessState) (maxRSS uint64, voluntary, involuntary int64) {
	u, ok := s.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0, 0, 0
	}
	return uint64(u.Maxrss) << 10, u.Nvcsw, u.Nivcsw
}
