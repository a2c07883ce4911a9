package wait

import (
	"sync/atomic"
	"unsafe"
)

// Cmp is a comparison of a shared word with a value.
type Cmp uint8

// The comparisons of the specification, in its order.
const (
	EQ Cmp = iota
	NE
	GT
	GE
	LT
	LE
)

// Cond is a condition on one shared word. It is plain data: polling it makes no call through a
// pointer, passing it allocates nothing.
type Cond struct {
	Addr   unsafe.Pointer // the word, aligned to Width
	Val    uint64         // the value to compare with, sign-extended if Signed
	Seen   uint64         // deaths up to this epoch of the failure page do not end the wait
	Width  uint8          // bytes of the word: 2, 4 or 8
	Signed bool           // the word is a signed integer
	Cmp    Cmp            // word Cmp Val is the condition
	// Agent says that the agent of the node writes the word, by atomic.Swap, and then loads the bell: the swap orders the two,
	// so the wait needs no membarrier before it sleeps. (atomic.Store does not, in a build with the race detector: in mapped
	// memory it is a plain store there.) And the agent writes soon as a rule: giveWay is for the first sleep.
	Agent bool
	// Alone says that the agent waits for other agents only: it writes within some microseconds as a rule, and no PE of the node
	// needs the processor for that. The wait polls little and does not yield. Only with Agent.
	Alone bool
	// Peer is the PE that the wait is for: its number plus 1, AwaitsLock, or 0 if unknown. The watch for
	// hangs reports it (Awaited).
	Peer int32
}

// AwaitsLock is the Peer of a wait for the grant of a lock. Such a wait has no fixed peer, because the
// holder may change during the wait.
const AwaitsLock = -1

// Load reads the word with acquire order, extended to 64 bits.
func (c *Cond) Load() uint64 {
	switch c.Width {
	case 8:
		return atomic.LoadUint64((*uint64)(c.Addr))
	case 4:
		v := atomic.LoadUint32((*uint32)(c.Addr))
		if c.Signed {
			return uint64(int64(int32(v)))
		}
		return uint64(v)
	default:
		// There is no atomic load of two bytes. Load the aligned four bytes around the word; the shift is
		// for little endian, which amd64 and arm64 are.
		odd := uintptr(c.Addr) & 2
		v := uint16(atomic.LoadUint32((*uint32)(unsafe.Add(c.Addr, -int(odd)))) >> (8 * odd))
		if c.Signed {
			return uint64(int64(int16(v)))
		}
		return uint64(v)
	}
}

// Ready evaluates the condition once.
func (c *Cond) Ready() bool { return c.holds(c.Load()) }

// holds says whether the condition holds for a word that was read as x.
func (c *Cond) holds(x uint64) bool {
	v := c.Val
	if c.Signed { // maps signed to unsigned in the same order
		x, v = x^(1<<63), v^(1<<63)
	}
	switch c.Cmp {
	case EQ:
		return x == v
	case NE:
		return x != v
	case GT:
		return x > v
	case GE:
		return x >= v
	case LT:
		return x < v
	default:
		return x <= v
	}
}
