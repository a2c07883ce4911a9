package xunix

import (
	"time"

	"golang.org/x/sys/unix"
)

// Monotonic returns the time of CLOCK_MONOTONIC. All processes of a time namespace read the same time.
func Monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0 // every Linux has it
	}
	return time.Duration(ts.Nano())
}
