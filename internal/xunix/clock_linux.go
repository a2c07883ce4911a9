package xunix

import (
	"time"

	"golang.org/x/sys/unix"
)

// Monotonic returns the time on CLOCK_MONOTONIC, which all processes of a machine
// and its kernel share.
func Monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0 // every Linux has it
	}
	return time.Duration(ts.Nano())
}
