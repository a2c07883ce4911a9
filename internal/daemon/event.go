package daemon

import (
	"os"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

// Usage is what a process has used, together with the processes that it has started and
// waited for.
type Usage struct {
	User        time.Duration // processor time in the program
	System      time.Duration // processor time in the kernel
	MaxRSS      uint64        // bytes, the most that were resident; 0: not known
	Voluntary   int64         // context switches: it waited
	Involuntary int64         // context switches: another process had its turn
}

// usageOf returns what the kernel tells of a process that has ended; state is nil if it tells nothing.
func usageOf(state *os.ProcessState) (u Usage) {
	if state == nil {
		return u
	}
	u.User, u.System = state.UserTime(), state.SystemTime()
	u.MaxRSS, u.Voluntary, u.Involuntary = xunix.Usage(state)
	return u
}

// Written counts the bytes that a PE has written to its outputs since its start. As soon as
// Hooks.Output has taken so many bytes of a stream, or the stream has ended, the one who takes
// output has all that the PE had written when the count was made.
type Written struct{ Stdout, Stderr uint64 }

// Of returns the count of one stream.
func (w Written) Of(s Stream) uint64 {
	if s == Stderr {
		return w.Stderr
	}
	return w.Stdout
}
