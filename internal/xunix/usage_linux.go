package xunix

import (
	"os"
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

// Usage returns of an ended process the most memory that it had, in bytes, and
// how often it gave up a processor and had to give it up.
func Usage(s *os.ProcessState) (maxRSS uint64, voluntary, involuntary int64) {
	u, ok := s.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0, 0, 0
	}
	return uint64(u.Maxrss) << 10, u.Nvcsw, u.Nivcsw
}
