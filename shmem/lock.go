package shmem

import (
	"errors"
	"fmt"

	"github.com/goshmem/goshmem/internal/wait"
)

// Lock is a mutual exclusion of PEs: at most one of the job holds it. Those that wait
// get it in the order in which they came. It is a value that may be copied; the zero
// value is no lock.
//
// A lock is the PE's, not the goroutine's: goroutines of one PE that share it exclude
// each other by Go's means first.
//
// # Deaths
//
// When a PE dies while it holds the lock, whoever gets it next is told, once: Acquire
// and Try give the lock and return a *PEError with that PE, with ErrLockHolderDied and
// ErrPEDied among its causes. What the lock guards may be half changed then. The caller
// holds the lock as ever, repairs what is to be repaired, and releases it:
//
//	err := l.Acquire(c)
//	if errors.Is(err, shmem.ErrLockHolderDied) {
//		err = repair() // under the lock
//	}
//
// That goes for a PE, too, that died before it noticed that it had the lock.
//
// A PE that dies while it waits is passed over. No death ends a wait for a lock. A PE
// that finalizes while it holds the lock keeps it.
type Lock struct {
	x    Sym[int64]
	home int // PE where the queue is
}

// NewLock returns a lock that nobody holds.
//
//   - Shape: LockLen elements on each PE. Those of one PE are home to the lock's queue; the
//     locks of a job are spread over its PEs.
//   - Errors: those of Calloc.
//   - Collective: over all PEs.
//   - Source: none; any zeroed long is a lock in C.
func NewLock(w *World) (Lock, error) {
	if err := w.usable("NewLock"); err != nil {
		return Lock{}, err
	}
	x, err := Calloc[int64](w, LockLen(w))
	if err != nil {
		return Lock{}, err
	}
	return lockOf(w, x), nil
}

// LockLen returns how many elements a lock takes: three cache lines and one word for each
// PE of the job, in whole cache lines. It is 0 for a nil World.
//
//   - Concurrent calls: allowed.
//   - Source: none; in C it is one.
func LockLen(w *World) int {
	if w.NPEs() == 0 {
		return 0
	}
	return (lockWords(w.NPEs()) + 7) &^ 7
}

// LockAt returns the lock whose memory is the first LockLen elements of x, for locks that
// are many or part of something larger:
//
//	n := shmem.LockLen(w)
//	x, err := shmem.Calloc[int64](w, 1000*n)
//	l, err := shmem.LockAt(w, x.Slice(7*n, 8*n)) // number 7
//
// All PEs that use it have to name the same elements, which were zero on every PE before
// any used them, as those of Calloc are, and which nobody else writes. It is no call that
// PEs make together; whoever makes it again gets the same lock. The memory is given back as
// the object that it lies in.
//
//   - Cost: no communication.
//   - Errors: ErrBounds for fewer elements; those of Put for a bad handle; ErrArgument for a nil
//     World, ErrFinalized.
//   - Concurrent calls: allowed.
//   - Source: none; any zeroed long is a lock in C.
func LockAt(w *World, x Sym[int64]) (Lock, error) {
	const op = "LockAt"
	if err := w.usable(op); err != nil {
		return Lock{}, err
	}
	if err := w.s.h.checkRef(op, x.ref(), 0); err != nil {
		return Lock{}, err
	}
	if n := LockLen(w); x.n < n {
		return Lock{}, usage(op, ErrBounds, "%d elements, want at least %d, what LockLen says", x.n, n)
	}
	return lockOf(w, x), nil
}

func lockOf(w *World, x Sym[int64]) Lock { return Lock{x, lockHome(x.off, w.NPEs())} }

// Free gives back a lock of NewLock's, whoever holds it, after a barrier.
//
//   - Errors: those of the function Free; so ErrArgument for a part of an object.
//   - Collective: over all PEs, with the same lock.
//   - Source: none; any zeroed long is a lock in C.
func (l Lock) Free(w *World) error { return Free(w, l.x) }

// Acquire returns when this PE holds the lock. What earlier holders did before they
// released it is visible then.
//
// A wait that the context's With ends has left the queue, as far as the others notice:
// it is passed over. If this PE comes again before it was, it has its old place.
//
//   - Errors: ErrLockHeld, if this PE holds the lock or waits for it in another goroutine;
//     the context's With ended; those of Put for a bad handle. With ErrLockHolderDied, and
//     with none else, this PE holds the lock: see Lock.
//   - Cost: three locked instructions if nobody holds it, otherwise as WaitUntil.
//   - Concurrent calls: allowed.
//   - Source: shmem_set_lock.
func (l Lock) Acquire(c *Ctx) error {
	const op = "Lock.Acquire"
	var q lockQueue
	if err := l.open(&q, c, op); err != nil {
		return err
	}
	c.h.job.Waiter.Beat()
	died, ok, err := q.acquire()
	switch {
	case !ok:
		return usage(op, ErrLockHeld, "lock is held or waited for by this PE %d, want a call of Release before the next Acquire", q.me)
	case err != nil:
		return lockError(op, err)
	}
	return inherited(c.h, op, died)
}

// Try takes the lock if nobody holds it, and says whether it did.
//
//   - Errors: those of Acquire, without that of a wait; and ErrLockHeld is none: it is
//     false then.
//   - Concurrent calls: allowed.
//   - Source: shmem_test_lock.
func (l Lock) Try(c *Ctx) (bool, error) {
	const op = "Lock.Try"
	var q lockQueue
	if err := l.open(&q, c, op); err != nil {
		return false, err
	}
	c.h.job.Waiter.Beat() // it may be polled
	died, ok := q.try()
	if !ok {
		return false, nil
	}
	return true, inherited(c.h, op, died)
}

// Release completes all operations of this PE on the default context, and on c, and
// gives the lock to the PE that has waited longest, if any does.
//
//   - Errors: ErrLockNotHeld; those of Put for a bad handle.
//   - Cost: four locked instructions, and a system call if the next holder sleeps.
//   - Concurrent calls: allowed.
//   - Source: shmem_clear_lock.
func (l Lock) Release(c *Ctx) error {
	const op = "Lock.Release"
	var q lockQueue
	if err := l.open(&q, c, op); err != nil {
		return err
	}
	if q.m.load(q.own(lockState)) != lockHeld {
		return notHeld(op, q.me)
	}
	if err := c.Quiet(); err != nil {
		return err
	}
	if d := c.h.ctx; d != c {
		if err := d.Quiet(); err != nil {
			return err
		}
	}
	if !q.release() {
		return notHeld(op, q.me)
	}
	return nil
}

func notHeld(op string, me int) error {
	return usage(op, ErrLockNotHeld, "lock is not held by this PE %d, want one that Acquire or Try has given it", me)
}

// inherited returns what the holder of a lock must know of the one before.
func inherited(h *heap, op string, died int) error {
	if died < 0 {
		return nil
	}
	err := h.died(op, []int{died})
	if e, ok := errors.AsType[*PEError](err); ok {
		e.Err = fmt.Errorf("%w, which this PE has now: %w", ErrLockHolderDied, e.Err)
	}
	return err
}

// lockError returns the error of a wait for a lock that has ended with err.
func lockError(op string, err error) error {
	if errors.Is(err, wait.ErrClosed) {
		return usage(op, ErrFinalized, "waiting for the lock: finalized meanwhile")
	}
	return fmt.Errorf("shmem.%s: waiting for the lock: %w", op, err)
}
