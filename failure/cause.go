package failure

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/goshmem/goshmem/internal/xunix"
)

// Kind says in which way a PE ended.
type Kind uint8

// The kinds.
const (
	Unknown  Kind = iota // in an unknown way: the process was not the step's child
	Killed               // killed by a signal
	Exited               // exited with a status
	Left                 // ended, or closed its connection, after it had joined the job and without Finalize
	NodeLost             // its node does not answer
	Fenced               // ended by the step because it was considered dead
)

// Cause says how a PE ended: a Kind and its value. It is a word of the failure page,
// and an error.
type Cause uint32 //nolint:errname // named for the word of the page, not for its use as an error

// A cause has its kind in the upper 8 bits and a value in the lower 24: for Killed
// the signal and the bits core and oom, for Exited and Left the exit status.
const (
	kindShift = 24
	valueMask = 1<<kindShift - 1

	core      = 1 << 16 // of Killed: the process left a core file
	oom       = 1 << 17 // of Killed: memory was short
	exited    = 1 << 16 // of Left: the process exited with the status; otherwise it closed its connection
	valueBits = 1<<16 - 1
)

// Of returns the cause of a kind without a value.
func Of(k Kind) Cause { return Cause(k) << kindShift }

// ByExit returns the cause of a process that exited with a status.
func ByExit(status int) Cause { return Of(Exited) | Cause(status)&valueBits }

// ByLeaving returns the cause of a process that joined the job and exited with a
// status, mostly 0, without Finalize.
func ByLeaving(status int) Cause { return Of(Left) | exited | Cause(status)&valueBits }

// BySignal returns the cause of a process that was killed by a signal; coreDumped and
// outOfMemory say whether it left a core file and whether memory was short.
func BySignal(sig syscall.Signal, coreDumped, outOfMemory bool) Cause {
	c := Of(Killed) | Cause(sig)&valueBits
	if coreDumped {
		c |= core
	}
	if outOfMemory {
		c |= oom
	}
	return c
}

// Kind returns the kind.
func (c Cause) Kind() Kind { return Kind(c >> kindShift) }

// Signal returns the signal that killed the PE, 0 if none did.
func (c Cause) Signal() syscall.Signal {
	if c.Kind() != Killed {
		return 0
	}
	return syscall.Signal(c & valueBits)
}

// Status returns the exit status of a PE that exited, with or without Finalize, and
// -1 for any other PE.
func (c Cause) Status() int {
	if k := c.Kind(); k == Exited || k == Left && c&exited != 0 {
		return int(c & valueBits)
	}
	return -1
}

// CoreDumped reports whether a PE that was killed has left a core file.
func (c Cause) CoreDumped() bool { return c.Kind() == Killed && c&core != 0 }

// OutOfMemory reports whether the kernel killed the PE because memory was short.
func (c Cause) OutOfMemory() bool { return c.Kind() == Killed && c&oom != 0 }

// Error returns the cause as the rest of a sentence about a PE.
func (c Cause) Error() string { return c.String() }

// String returns the cause as the rest of a sentence about a PE: "was killed by
// signal 9 (SIGKILL)".
func (c Cause) String() string {
	switch c.Kind() {
	case Unknown:
		return "has ended, nobody knows how"
	case Killed:
		more := []string{xunix.SignalName(c.Signal())}
		if more[0] == "" {
			more = nil
		}
		if c.CoreDumped() {
			more = append(more, "core dumped")
		}
		if c.OutOfMemory() {
			more = append(more, "out of memory")
		}
		text := fmt.Sprintf("was killed by signal %d", int(c.Signal()))
		if len(more) > 0 {
			text += " (" + strings.Join(more, ", ") + ")"
		}
		return text
	case Exited:
		return fmt.Sprintf("exited with status %d", c.Status())
	case Left:
		if c.Status() < 0 {
			return "left the job without Finalize"
		}
		return fmt.Sprintf("exited with status %d without Finalize", c.Status())
	case NodeLost:
		return "was on a node that is lost"
	case Fenced:
		return "was ended because it was held for dead"
	}
	return fmt.Sprintf("has ended, by a cause %#x that this version does not know", uint32(c))
}
