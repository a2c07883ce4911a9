package shmem

import (
	"errors"
	"fmt"

	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Lock is a mutual exclusion of PEs: at most one PE of the job holds it. PEs that wait get
// it in the order in which they came. A Lock is a value that may be copied; the zero value
// is no lock.
//
// A lock belongs to a PE, not to a goroutine: goroutines of one PE that share it exclude
// each other by Go's means first.
//
// # Deaths
//
// When a PE dies while it holds the lock, the next holder learns of it by the Grant that
// Acquire or Try returns. What the lock guards may be half changed then. The next holder
// repairs it under the lock, and releases the lock as ever:
//
//	g, err := l.Acquire(c)
//	if err != nil {
//		return err // this PE does not hold the lock
//	}
//	if g.HolderDied {
//		err = repair()
//	}
//	return errors.Join(err, l.Release(c))
//
// Holders after that one learn nothing. If it dies as well before it releases the lock, the
// next holder learns of its death alone. A PE that died before it noticed that it had the
// lock counts as a holder.
//
// A PE that dies while it waits is passed over. No death ends a wait for a lock. A PE
// that finalizes while it holds the lock keeps it.
type Lock struct {
	x    Sym[int64]
	home layout.PE // PE where the queue is
}

// Grant says from whom a PE got a lock. Without a death of that PE, and of a call that did
// not get the lock, it is Grant{PE: -1}.
type Grant struct {
	HolderDied bool // the holder before died while it held the lock: what the lock guards may be half changed
	PE         int  // that holder, by its number in the world; -1 unless HolderDied, as 0 is a PE
}

// grantAfter returns the grant of a lock whose last holder died, or released it if died is -1.
func grantAfter(died layout.PE) Grant { return Grant{HolderDied: died >= 0, PE: int(died)} }

// noGrant is the grant of a call that did not get the lock.
var noGrant = Grant{PE: -1}

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
// released it is visible then. With an error, this PE does not hold the lock.
//
// A wait that the context's With ends has left the queue, as far as the others notice:
// it is passed over. If this PE comes again before it was, it has its old place.
//
//   - Errors: ErrLockHeld, if this PE holds the lock or waits for it in another goroutine;
//     the context's With ended; those of Put for a bad handle. The death of a holder is no
//     error: the Grant says it.
//   - Cost: three locked instructions if nobody holds it, otherwise as WaitUntil.
//   - Concurrent calls: allowed.
//   - Source: shmem_set_lock.
func (l Lock) Acquire(c *Ctx) (Grant, error) {
	const op = "Lock.Acquire"
	var q lockQueue
	if err := l.open(&q, c, op); err != nil {
		return noGrant, err
	}
	c.h.job.Waiter.Beat()
	died, ok, err := q.acquire()
	switch {
	case !ok:
		return noGrant, usage(op, ErrLockHeld, "lock is held or waited for by this PE %d, want a call of Release before the next Acquire", q.me)
	case err != nil:
		return noGrant, lockError(op, err)
	}
	return grantAfter(died), nil
}

// Try takes the lock if nobody holds it, and says whether it did. A Try in vain serves others as
// a Test does.
//
//   - Errors: those of Acquire, but for the end of a wait and ErrLockHeld: where this PE
//     holds the lock, Try returns false. With an error, this PE does not hold the lock.
//   - Concurrent calls: allowed.
//   - Source: shmem_test_lock.
func (l Lock) Try(c *Ctx) (Grant, bool, error) {
	const op = "Lock.Try"
	var q lockQueue
	if err := l.open(&q, c, op); err != nil {
		return noGrant, false, err
	}
	c.h.job.Waiter.Beat() // it may be polled
	died, ok := q.try()
	if !ok {
		c.h.job.Waiter.ServePeers()
		return noGrant, false, nil
	}
	return grantAfter(died), true, nil
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

func notHeld(op string, me layout.PE) error {
	return usage(op, ErrLockNotHeld, "lock is not held by this PE %d, want one that Acquire or Try has given it", me)
}

// lockError returns the error of a wait for a lock that has ended with err.
func lockError(op string, err error) error {
	if errors.Is(err, wait.ErrClosed) {
		return usage(op, ErrFinalized, "waiting for the lock: finalized meanwhile")
	}
	return fmt.Errorf("shmem.%s: waiting for the lock: %w", op, err)
}
