package failure

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/goshmem/goshmem/internal/xunix"
)

// Kind is what sort of an end a PE came to.
type Kind uint8

// The kinds.
const (
	Unknown  Kind = iota // ended, nobody could say how, as of a process that is not the step's child
	Killed               // by a signal
	Exited               // with a status
	Left                 // it had joined the job and ended, or hung up, without a farewell
	NodeLost             // its node does not answer
	Fenced               // it was ended because it was held for dead
)

// Cause says how a PE ended: its kind and what belongs to that. It is a word of
// the failure page, and an error.
type Cause uint32 //nolint:errname // it is a word of the page, which happens to say all that an error has to

// A cause is its kind in the upper 8 bits and a value in the others: of Killed the
// signal with the bits below, of Exited and Left the status.
const (
	kindShift = 24
	valueMask = 1<<kindShift - 1

	core      = 1 << 16 // Killed
	oom       = 1 << 17 // Killed
	exited    = 1 << 16 // Left: the process exited with the status; otherwise it hung up
	valueBits = 1<<16 - 1
)

// Of returns the cause of a kind of which nothing else is known.
func Of(k Kind) Cause { return Cause(k) << kindShift }

// ByExit returns the cause of a process that exited with a status.
func ByExit(status int) Cause { return Of(Exited) | Cause(status)&valueBits }

// ByLeaving returns the cause of a process that joined the job and exited with a
// status, mostly 0, without a farewell.
func ByLeaving(status int) Cause { return Of(Left) | exited | Cause(status)&valueBits }

// BySignal returns the cause of a process that was killed by a signal, perhaps
// with a core file, perhaps because memory was short.
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

// Status returns the exit status of a PE that exited, with or without a farewell,
// and -1 for any other.
func (c Cause) Status() int {
	if k := c.Kind(); k == Exited || k == Left && c&exited != 0 {
		return int(c & valueBits)
	}
	return -1
}

// CoreDumped says whether a PE that was killed has left a core file.
func (c Cause) CoreDumped() bool { return c.Kind() == Killed && c&core != 0 }

// OutOfMemory says whether the kernel killed the PE because memory was short.
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
