package rma

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap/layout"
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

// Cond is a condition on one shared word, as plain data: it is polled without
// a call through a pointer and passed without an allocation.
type Cond struct {
	Addr   unsafe.Pointer
	Val    uint64 // sign-extended where Signed
	Width  uint8  // bytes: 2, 4 or 8
	Signed bool
	Cmp    Cmp
}

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
		// There is no atomic load of two bytes: load the aligned four
		// around it. Little endian, as amd64 and arm64 are.
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
	if c.Signed { // order-preserving map of signed to unsigned
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

// Waiter is how one process waits for its peers. There is one per process and
// job; its methods may be called by any goroutine.
type Waiter struct {
	bell     *layout.Bell // of this PE
	sleepers atomic.Int32 // goroutines of this process that want the bell
	polls    int          // before the first yield
	yields   int          // before the first sleep
	barrier  bool         // membarrier works: writers need no fence before they look at the bell
}

// The numbers of the wait function. A poll costs about 2 ns, a yield that
// finds nobody 0.3 us and otherwise a time slice of a peer, which is what is
// wanted: with more PEs than cores the peer must run for the wait to end.
const (
	pollsShared  = 200
	pollsAlone   = 2000
	yieldsBefore = 20

	// A sleep that nobody ends doubles, so that many PEs that wait for long
	// (behind a debugger, for a slow peer) cost the node little.
	sleepFirst  = 500 * time.Microsecond
	sleepAtMost = 4 * time.Millisecond
)

// NewWaiter returns the waiter of the PE whose bell is given, on a node with
// localPEs PEs and cores processors.
//
// It registers the process for membarrier. Where that is missing, writers use
// a locked operation before they look at a bell (Path.Locked).
func NewWaiter(bell *layout.Bell, localPEs, cores int) *Waiter {
	w := &Waiter{bell: bell, polls: pollsShared, yields: yieldsBefore}
	if localPEs <= cores {
		w.polls = pollsAlone
	}
	w.barrier = xunix.MembarrierRegister() == nil
	return w
}

// Expedited says whether membarrier works here.
func (w *Waiter) Expedited() bool { return w.barrier }

// Wait returns when the condition holds, or with the cause when ctx, which may
// be nil, ends first; in both cases with the word as it was read last, extended
// to 64 bits.
//
// It is the one wait function of the project: it polls, then yields the
// processor, then sleeps on the PE's bell. The sleep has a timeout because a
// writer may die between its store and its wake-up.
func (w *Waiter) Wait(c Cond, ctx context.Context) (uint64, error) { //nolint:revive // the condition is the subject, the context optional
	for range w.polls {
		if x := c.Load(); c.holds(x) {
			return x, nil
		}
	}
	for range w.yields {
		xunix.SchedYield()
		if x := c.Load(); c.holds(x) {
			return x, nil
		}
	}
	return w.sleep(&c, ctx)
}

// sleep is the last phase of Wait.
func (w *Waiter) sleep(c *Cond, ctx context.Context) (uint64, error) { //nolint:revive // as Wait
	w.sleepers.Add(1)
	defer w.leave()
	for timeout := sleepFirst; ; timeout = min(2*timeout, sleepAtMost) {
		atomic.StoreUint32(&w.bell.Sleeping, 1)
		if w.barrier {
			_ = xunix.Membarrier() // registered, so it cannot fail
		}
		x := c.Load()
		if c.holds(x) {
			return x, nil
		}
		if err := expired(ctx); err != nil {
			return x, err
		}
		err := xunix.FutexWait(&w.bell.Sleeping, 1, timeout)
		if err != nil && !errors.Is(err, xunix.ErrTimeout) {
			return x, err
		}
		if x = c.Load(); c.holds(x) {
			return x, nil
		}
	}
}

// leave clears the bell when nobody of this process sleeps any more, so that
// the next writer is spared a system call. A goroutine that began to sleep in
// between has set the word before or after the store here: if before, it is
// set again and everybody is woken to look once more.
func (w *Waiter) leave() {
	if w.sleepers.Add(-1) > 0 {
		return
	}
	atomic.StoreUint32(&w.bell.Sleeping, 0)
	if w.sleepers.Load() > 0 {
		xunix.FutexWake(&w.bell.Sleeping, 1<<30)
	}
}

// expired returns the cause when ctx has ended or its deadline has passed; a
// timer may be late in a process whose only processor is busy.
func expired(ctx context.Context) error {
	if ctx == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if d, ok := ctx.Deadline(); ok && !time.Now().Before(d) {
		return context.DeadlineExceeded
	}
	return nil
}

// wake rings a bell that was found set: the slow half of Ring.
//
//go:noinline
func wake(bell *uint32) {
	if atomic.CompareAndSwapUint32(bell, 1, 0) {
		xunix.FutexWake(bell, 1<<30)
	}
}
