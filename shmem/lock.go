package shmem

import (
	"errors"
	"fmt"

	"github.com/goshmem/goshmem/internal/far"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Lock is a mutual exclusion of PEs: at most one PE of the job holds it. Waiting PEs get it in the order in which
// they came. A Lock is a value that may be copied. The zero value is no lock.
//
// A lock belongs to a PE, not to a goroutine. Goroutines of one PE that share a lock first exclude each other by Go's
// means, such as a sync.Mutex.
//
// # Deaths
//
// When a PE dies while it holds the lock, the next holder learns of it from the Grant that Acquire or Try returns.
// What the lock guards may be half changed then. The next holder repairs it under the lock, and releases the lock as
// usual:
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
// Later holders learn nothing of it. If the next holder dies too before it releases the lock, the holder after it
// learns of that second death alone. A PE that died before it noticed that it had the lock counts as a holder.
//
// A PE that dies while it waits is passed over. No death ends a wait for a lock in a job of one node. In a job of several
// nodes, the death of the home does: PEs of other nodes cannot reach its queue any more, so all calls on the lock fail, on
// all PEs. A PE that finalizes while it holds the lock keeps it.
type Lock struct {
	words Sym[int64]
	home  layout.PE // the PE whose memory has the queue
}

// Grant says from whom a PE got a lock. It is Grant{PE: -1} unless that PE died, and for a call that did not get the
// lock.
type Grant struct {
	HolderDied bool // the previous holder died holding the lock: what it guards may be half changed
	PE         int  // that holder's number in the world; -1 unless HolderDied
}

// grantAfter returns the grant of a lock whose last holder died, or released the lock if died is -1.
func grantAfter(died layout.PE) Grant { return Grant{HolderDied: died >= 0, PE: int(died)} }

// noGrant is the grant of a call that did not get the lock.
var noGrant = Grant{PE: -1}

// NewLock returns a lock that nobody holds.
//
//   - Shape: LockLen elements on each PE. The queue is in the elements of one PE, the lock's home; the homes of a
//     job's locks are spread over its PEs.
//   - Errors: those of Calloc; ErrTooMany in a job of more than 8192 PEs.
//   - Collective: over all PEs.
//   - Source: none; any zeroed long is a lock in C.
func NewLock(w *World) (Lock, error) {
	if err := w.checkUsable("NewLock"); err != nil {
		return Lock{}, err
	}
	if err := w.checkLockSize("NewLock"); err != nil {
		return Lock{}, err
	}
	x, err := Calloc[int64](w, LockLen(w))
	if err != nil {
		return Lock{}, err
	}
	return lockOf(w, x), nil
}

// mostLockPEs is the most PEs that a job with locks can have. With more, a lock would take more than 64 KiB on each PE.
const mostLockPEs = 8192

// checkLockSize checks that the job is small enough for locks.
func (w *World) checkLockSize(op string) error {
	if n := w.NPEs(); n > mostLockPEs {
		return usage(op, ErrTooMany, "lock in a job of %d PEs, want at most %d PEs", n, mostLockPEs)
	}
	return nil
}

// LockLen returns how many elements a lock takes: three cache lines and one word for each PE of the job, rounded up
// to whole cache lines. It is 0 for a nil World.
//
//   - Concurrent calls: allowed.
//   - Source: none; a lock of C takes one long.
func LockLen(w *World) int {
	if w.NPEs() == 0 {
		return 0
	}
	return (lockWords(w.NPEs()) + 7) &^ 7
}

// LockAt returns the lock whose memory is the first LockLen elements of x. It is for locks that are many, or part of
// a larger object:
//
//	n := shmem.LockLen(w)
//	x, err := shmem.Calloc[int64](w, 1000*n)
//	l, err := shmem.LockAt(w, x.Slice(7*n, 8*n)) // number 7
//
// All PEs that use the lock name the same elements. These must be zero on every PE before the first use, as those of
// Calloc are, and nothing else may write them. LockAt is not collective, and every call with these elements returns
// the same lock. The memory is freed with the object that it lies in.
//
//   - Cost: no communication.
//   - Errors: ErrBounds for fewer elements; those of Put for a bad handle; ErrTooMany in a job of more than 8192 PEs;
//     ErrArgument for a nil World, ErrFinalized.
//   - Concurrent calls: allowed.
//   - Source: none; any zeroed long is a lock in C.
func LockAt(w *World, x Sym[int64]) (Lock, error) {
	const op = "LockAt"
	if err := w.checkUsable(op); err != nil {
		return Lock{}, err
	}
	if err := w.checkLockSize(op); err != nil {
		return Lock{}, err
	}
	if err := w.session.h.checkRef(op, x.ref(), 0); err != nil {
		return Lock{}, err
	}
	if n := LockLen(w); x.n < n {
		return Lock{}, usage(op, ErrBounds, "%d elements, want at least %d, the result of LockLen", x.n, n)
	}
	return lockOf(w, x), nil
}

// lockOf returns the lock in the first elements of x.
func lockOf(w *World, x Sym[int64]) Lock { return Lock{x, lockHome(x.off, w.NPEs())} }

// Free frees a lock that NewLock returned, after a barrier. It does so even if a PE holds the lock.
//
//   - Errors: those of the function Free, so ErrArgument for a lock of LockAt in a part of an object.
//   - Collective: over all PEs, with the same lock.
//   - Source: none; any zeroed long is a lock in C.
func (l Lock) Free(w *World) error { return Free(w, l.words) }

// Acquire returns when this PE holds the lock. What earlier holders did before they released the lock is visible
// then. With an error, this PE does not hold the lock.
//
// When the context's With ends the wait, this PE leaves the queue: the other PEs pass it over. If it calls Acquire
// again before they did, it gets its old place back. In a job of several nodes, no With ends an access to the queue while
// the node of the lock's home is out of reach: the loss of that node does.
//
//   - Errors: ErrLockHeld if this PE holds the lock, or waits for it in another goroutine; the end of the context's
//     With; those of Put for a bad handle. The death of a holder is no error: the Grant reports it.
//   - Cost: three locked instructions if nobody holds the lock, otherwise as WaitUntil.
//   - Concurrent calls: allowed.
//   - Source: shmem_set_lock.
func (l Lock) Acquire(c *Ctx) (Grant, error) {
	const op = "Lock.Acquire"
	var q lockQueue
	if err := l.openQueue(&q, c, op); err != nil {
		return noGrant, err
	}
	if q.mem.checkHome(); q.mem.err != nil {
		return noGrant, c.h.lockError(op, q.mem.err)
	}
	c.h.job.Waiter.Beat()
	died, ok, err := q.acquire()
	switch {
	case !ok:
		return noGrant, usage(op, ErrLockHeld, "this PE %d already holds the lock or waits for it, want Release before the next Acquire", q.me)
	case err != nil:
		return noGrant, c.h.lockError(op, err)
	}
	return grantAfter(died), nil
}

// Try takes the lock if nobody holds it, and reports whether it did. A Try that fails makes progress for messages of
// package mpi, as Test does.
//
//   - Errors: those of Acquire, except the end of a wait and ErrLockHeld: if this PE holds the lock, Try returns
//     false. With an error, this PE does not hold the lock.
//   - Concurrent calls: allowed.
//   - Source: shmem_test_lock.
func (l Lock) Try(c *Ctx) (Grant, bool, error) {
	const op = "Lock.Try"
	var q lockQueue
	if err := l.openQueue(&q, c, op); err != nil {
		return noGrant, false, err
	}
	if q.mem.checkHome(); q.mem.err != nil {
		return noGrant, false, c.h.lockError(op, q.mem.err)
	}
	c.h.job.Waiter.Beat() // the program may poll with Try
	died, ok := q.try()
	if q.mem.err != nil {
		return noGrant, false, c.h.lockError(op, q.lose())
	}
	if !ok {
		c.h.job.Waiter.ServePeers()
		return noGrant, false, nil
	}
	return grantAfter(died), true, nil
}

// Release completes all operations of this PE on the default context and on c. Then it gives the lock to the PE that
// has waited longest, if any waits.
//
//   - Errors: ErrLockNotHeld; those of Put for a bad handle. After a *PEError of operations on a lost node, the lock is
//     released; after the end of the context's With, this PE still holds it.
//   - Cost: four locked instructions, and a system call if the next holder sleeps.
//   - Concurrent calls: allowed.
//   - Source: shmem_clear_lock.
func (l Lock) Release(c *Ctx) error {
	const op = "Lock.Release"
	var q lockQueue
	if err := l.openQueue(&q, c, op); err != nil {
		return err
	}
	if q.mem.load(q.ownWord(lockState)) != lockHeld {
		return notHeldError(op, q.me)
	}
	lost := c.Quiet()
	if lost != nil && !isDeathError(lost) {
		return lost
	}
	if d := c.h.ctx; d != c {
		if err := d.Quiet(); err != nil {
			if !isDeathError(err) {
				return err
			}
			lost = errors.Join(lost, err)
		}
	}
	if q.mem.checkHome(); q.mem.err != nil {
		return c.h.lockError(op, q.lose())
	}
	if !q.release() {
		return notHeldError(op, q.me)
	}
	if q.mem.err != nil {
		return c.h.lockError(op, q.lose())
	}
	return lost // operations that will never be complete: others get the lock all the same
}

// notHeldError returns the error of Release by a PE that does not hold the lock.
func notHeldError(op string, me layout.PE) error {
	return usage(op, ErrLockNotHeld, "this PE %d does not hold the lock, want a lock that Acquire or Try gave it", me)
}

// lockError returns the error of a wait for a lock, or of an access to its words on another node, that has ended with
// err.
func (h *heap) lockError(op string, err error) error {
	if _, dead := errors.AsType[*far.DeadError](err); dead {
		return h.farError(op, err)
	}
	if errors.Is(err, wait.ErrClosed) {
		return usage(op, ErrFinalized, "Finalize ended the wait for the lock")
	}
	return fmt.Errorf("shmem.%s: waiting for the lock: %w", op, err)
}
