package win

import (
	"errors"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
)

// A lock of a rank t is one lock of package shmem and the words reader and writer on t. Only the holder of shmem's lock
// writes the word writer.
//
//	exclusive    get shmem's lock; set writer; wait until no word reader of a living rank is set; keep shmem's lock
//	shared       set this rank's reader; read writer. If that is 0, this rank has the lock. Otherwise clear
//	             reader again, get shmem's lock, clear writer (its rank has released or died), set reader,
//	             release shmem's lock
//	unlock, exclusive    clear writer; release shmem's lock
//	unlock, shared       clear reader; read writer. If that is not 0, wake its rank
//
// # One kind of holder
//
// An exclusive rank sets writer and then reads all words reader; a shared one sets its reader and then reads writer. All
// are atomic operations that have returned. So of two ranks that come at a time, at least one sees the other. A rank that
// sees a writer waits in the queue of shmem's lock: ranks with exclusive locks do not starve.
//
// # No lost wake-up
//
// An exclusive rank sets writer before it looks at the readers, and reads its word wake before the look. A shared rank
// clears its reader before it reads writer. So a reader that the look has found set changes wake later, unless it dies.
//
// # Deaths
//
// shmem's lock passes from a dead holder to the next rank. A word writer that the dead has left sends shared ranks to
// shmem's lock, whose holder clears the word. A word reader of a dead rank is cleared by the next exclusive rank.
//
// A rank that has learned of a death and gives up before it has the lock leaves the dead rank in writer (passedOn). The
// next holder of shmem's lock finds it there.

// passedOn is the flag of a word writer that has 1 + the last rank that has died with the lock, and no rank that has it.
const passedOn = 1 << 32

// Grant says from whom a rank got a lock. It is Grant{Rank: -1} unless a rank has died with it.
type Grant struct {
	HolderDied bool // a rank has died holding the lock: what the lock guards may be half changed
	Rank       int  // that rank; -1 unless HolderDied
}

var noGrant = Grant{Rank: -1}

// held says which lock of a rank this rank has.
type held uint8

const (
	lockPending held = iota + 1 // a call of Lock, Unlock or the like is under way
	lockShared
	lockExclusive
)

// Lock gets the lock of a rank: alone if exclusive is set, otherwise together with others that want it so. Operations on
// the rank follow, and Unlock.
//
// When a rank dies with the lock, the next one gets it, and the Grant tells. An exclusive lock waits for the shared ones that
// are there; shared ones that come later wait for it.
//
//   - Cost: shared, two atomic operations if nobody has it exclusively; exclusive, one lock of shmem, two operations and a
//     look at a word for each rank.
//   - Errors: mpi.ErrRankRange; shmem.ErrLockHeld if this rank has the lock, or is waiting for it in another goroutine;
//     mpi.ErrArgument for a window made with NoLocks; *mpi.RankError for a rank that has died; the end of the window's
//     context. With an error, this rank does not have the lock. On several nodes each lock has a home, a rank whose death
//     ends it.
//   - Concurrent calls: allowed; a lock belongs to a rank, not to a goroutine.
//   - Source: MPI_Win_lock.
func (w *Win[T]) Lock(rank int, exclusive bool) (Grant, error) {
	const op = "Lock"
	h := w.handle()
	if err := h.checkRank(op, rank); err != nil {
		return noGrant, err
	}
	if err := h.claim(op, rank); err != nil {
		return noGrant, err
	}
	kind, get := lockShared, h.acquireShared
	if exclusive {
		kind, get = lockExclusive, h.acquireExclusive
	}
	g, err := get(op, rank)
	h.settle(rank, kind, err == nil)
	return g, err
}

// Unlock releases the lock of a rank.
//
//   - Completion: of this rank's operations on the window, at their targets.
//   - Errors: shmem.ErrLockNotHeld, also for locks of LockAll; *mpi.RankError for a rank that has died: the lock is
//     released nevertheless. When the window's context ends first, this rank still has the lock.
//   - Concurrent calls: allowed.
//   - Source: MPI_Win_unlock.
func (w *Win[T]) Unlock(rank int) error {
	const op = "Unlock"
	h := w.handle()
	if err := h.checkRank(op, rank); err != nil {
		return err
	}
	h.mu.Lock()
	kind := h.held[rank]
	if kind < lockShared || h.all {
		h.mu.Unlock()
		return usage(op, shmem.ErrLockNotHeld, "this rank %d does not have the lock of rank %d by Lock, want Lock first", h.me, rank)
	}
	h.held[rank] = lockPending
	h.mu.Unlock()
	done, err := h.releaseLock(op, rank, kind)
	h.settle(rank, kind, !done)
	return err
}

// LockAll gets a shared lock of each rank. UnlockAll releases them.
//
//   - Cost: that of a shared Lock for each rank.
//   - Errors: as Lock. With an error, this rank has none of the locks.
//   - Concurrent calls: allowed.
//   - Source: MPI_Win_lock_all.
func (w *Win[T]) LockAll() (Grant, error) {
	const op = "LockAll"
	h := w.handle()
	if err := h.check(op); err != nil {
		return noGrant, err
	}
	g := noGrant
	for rank := range h.n {
		err := h.claim(op, rank)
		if err == nil {
			var one Grant
			one, err = h.acquireShared(op, rank)
			h.settle(rank, lockShared, err == nil)
			if one.HolderDied {
				g = one
			}
		}
		if err != nil {
			for before := range rank {
				_, e := h.releaseShared(op, before)
				h.settle(before, lockShared, false)
				err = errors.Join(err, e)
			}
			return noGrant, err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = true
	return g, nil
}

// UnlockAll releases the locks of LockAll.
//
//   - Completion: of this rank's operations on the window, at their targets.
//   - Errors: shmem.ErrLockNotHeld; as Unlock.
//   - Concurrent calls: allowed.
//   - Source: MPI_Win_unlock_all.
func (w *Win[T]) UnlockAll() error {
	const op = "UnlockAll"
	h := w.handle()
	if err := h.check(op); err != nil {
		return err
	}
	h.mu.Lock()
	if !h.all {
		defer h.mu.Unlock()
		return usage(op, shmem.ErrLockNotHeld, "this rank %d does not have the locks of all ranks, want LockAll first", h.me)
	}
	h.all = false
	h.mu.Unlock()
	lost := h.ops.Quiet()
	if lost != nil && !errors.Is(lost, shmem.ErrPEDied) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.all = true
		return h.fail(op, lost)
	}
	err := h.fail(op, lost)
	for rank := range h.n {
		if _, e := h.releaseShared(op, rank); err == nil {
			err = e
		}
		h.settle(rank, lockShared, false)
	}
	return err
}

// claim notes that this rank is about to get the lock of a rank.
func (h *handle) claim(op string, rank int) error {
	if !h.locks {
		return usage(op, mpi.ErrArgument, "the window was made with NoLocks, want one made without")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held[rank] != 0 {
		return usage(op, shmem.ErrLockHeld, "this rank %d already has the lock of rank %d or waits for it, want Unlock before the next Lock", h.me, rank)
	}
	h.held[rank] = lockPending
	return nil
}

// settle notes that this rank has the lock of a rank, or has it no more.
func (h *handle) settle(rank int, kind held, has bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if has {
		h.held[rank] = kind
	} else {
		delete(h.held, rank)
	}
}

// acquireExclusive gets an exclusive lock.
func (h *handle) acquireExclusive(op string, rank int) (Grant, error) {
	if h.isRecognized(rank) {
		return noGrant, nil
	}
	l, g, err := h.acquireQueue(op, rank)
	if err != nil {
		return noGrant, err
	}
	if err = h.setWriter(rank, uint64(h.me+1), &g); err == nil {
		err = h.awaitReaders(rank, &g)
	}
	if err != nil {
		return noGrant, errors.Join(h.fail(op, err), h.fail(op, h.giveUp(l, rank, g)))
	}
	return g, nil
}

// setWriter sets the word writer of a rank for the holder of shmem's lock. It completes the grant by what another rank has
// passed on.
func (h *handle) setWriter(rank int, word uint64, g *Grant) error {
	old, err := shmem.AtomicSwap(h.ops, h.words.At(h.wordWriter()), word, h.pes[rank])
	if err == nil && old&passedOn != 0 && !g.HolderDied {
		*g = Grant{HolderDied: true, Rank: int(old&^passedOn) - 1}
	}
	return err
}

// giveUp releases shmem's lock after an error, and passes the grant on.
func (h *handle) giveUp(l shmem.Lock, rank int, g Grant) error {
	word := uint64(0)
	if g.HolderDied {
		word = passedOn | uint64(g.Rank+1)
	}
	_ = shmem.AtomicSet(h.plain, h.words.At(h.wordWriter()), word, h.pes[rank]) // it fails if the rank is dead
	return l.Release(h.plain)
}

// acquireQueue gets shmem's lock for the lock of a rank.
func (h *handle) acquireQueue(op string, rank int) (shmem.Lock, Grant, error) {
	l, err := h.lockOf(rank)
	if err != nil {
		return l, noGrant, h.fail(op, err)
	}
	if h.isDead(rank) {
		return l, noGrant, h.deadError(op, rank)
	}
	from, err := l.Acquire(h.ops)
	if err != nil {
		return l, noGrant, h.fail(op, err)
	}
	g := noGrant
	if from.HolderDied {
		g = Grant{HolderDied: true, Rank: h.ranks[from.PE]}
	}
	return l, g, nil
}

// awaitReaders waits until no living rank has a shared lock of a rank, whose word writer names this rank. Its errors are
// those of shmem.
func (h *handle) awaitReaders(rank int, g *Grant) error {
	readers := make([]uint64, h.n)
	from := h.wordReader(0)
	var ended error // why the last wait has ended, after which this looks once more
	for {
		wake, err := h.plain.SignalFetch(h.words.At(h.wordWake()))
		if err != nil {
			return err
		}
		if err := shmem.Get(h.ops, readers, h.words.Slice(from, from+h.n), h.pes[rank]); err != nil {
			return err
		}
		living := false
		for r, word := range readers {
			switch {
			case word == 0:
			case !h.isDead(r):
				living = true
			default:
				*g = Grant{HolderDied: true, Rank: r}
				if err := shmem.AtomicSet(h.ops, h.words.At(from+r), 0, h.pes[rank]); err != nil {
					return err
				}
			}
		}
		if !living || ended != nil {
			if !living {
				return nil
			}
			return ended
		}
		_, ended = h.waitFor(h.wordWake(), shmem.NE, wake)
	}
}

// acquireShared gets a shared lock.
func (h *handle) acquireShared(op string, rank int) (Grant, error) {
	if h.isRecognized(rank) {
		return noGrant, nil
	}
	busy, err := h.enterShared(rank)
	if err != nil || !busy {
		return noGrant, h.fail(op, err)
	}
	if err := h.leaveShared(h.ops, rank); err != nil {
		h.undoShared(rank)
		return noGrant, h.fail(op, err)
	}
	l, g, err := h.acquireQueue(op, rank)
	if err != nil {
		return noGrant, err
	}
	if err = h.setWriter(rank, 0, &g); err == nil {
		_, err = shmem.AtomicSwap(h.ops, h.words.At(h.wordReader(h.me)), 1, h.pes[rank])
	}
	if err != nil {
		_ = h.giveUp(l, rank, g) // err matters more
	} else {
		err = l.Release(h.plain)
	}
	if err != nil {
		h.undoShared(rank)
		return noGrant, h.fail(op, err)
	}
	return g, nil
}

// enterShared sets this rank's word reader of a rank, and reports whether a rank has the lock exclusively, or is about to.
// With an error the word is clear.
func (h *handle) enterShared(rank int) (bool, error) {
	_, err := shmem.AtomicSwap(h.ops, h.words.At(h.wordReader(h.me)), 1, h.pes[rank])
	if err == nil {
		var writer uint64
		if writer, err = shmem.AtomicFetch(h.ops, h.words.At(h.wordWriter()), h.pes[rank]); err == nil {
			return writer != 0, nil
		}
	}
	h.undoShared(rank)
	return false, err
}

// undoShared clears this rank's word reader of a rank after an error. An operation that the end of a context has cut short
// may take place later, but before Quiet returns. Errors say that the rank is dead.
func (h *handle) undoShared(rank int) {
	_ = h.plain.Quiet()
	_ = h.leaveShared(h.plain, rank)
}

// leaveShared clears this rank's word reader of a rank, and wakes the rank that waits for it.
func (h *handle) leaveShared(c *shmem.Ctx, rank int) error {
	if _, err := shmem.AtomicSwap(c, h.words.At(h.wordReader(h.me)), 0, h.pes[rank]); err != nil {
		return err
	}
	writer, err := shmem.AtomicFetch(c, h.words.At(h.wordWriter()), h.pes[rank])
	if err != nil || writer == 0 || writer&passedOn != 0 {
		return err
	}
	_ = c.SignalAdd(h.words.At(h.wordWake()), 1, h.pes[writer-1]) // it fails if that rank is dead, and waits for nothing
	return nil
}

// releaseLock completes the operations on the window and releases a lock. It reports whether this rank has the lock no more.
func (h *handle) releaseLock(op string, rank int, kind held) (bool, error) {
	lost := h.ops.Quiet()
	if lost != nil && !errors.Is(lost, shmem.ErrPEDied) {
		return false, h.fail(op, lost)
	}
	release := h.releaseShared
	if kind == lockExclusive {
		release = h.releaseExclusive
	}
	done, err := release(op, rank)
	if err == nil {
		err = h.fail(op, lost)
	}
	return done, err
}

// releaseShared releases a shared lock, whatever becomes of the context of the window.
func (h *handle) releaseShared(op string, rank int) (bool, error) {
	if h.isRecognized(rank) {
		return true, nil
	}
	return true, h.fail(op, h.leaveShared(h.plain, rank))
}

// releaseExclusive releases an exclusive lock.
func (h *handle) releaseExclusive(op string, rank int) (bool, error) {
	if h.isRecognized(rank) {
		return true, nil
	}
	l, err := h.lockOf(rank)
	if err != nil {
		return false, h.fail(op, err)
	}
	lost := shmem.AtomicSet(h.plain, h.words.At(h.wordWriter()), 0, h.pes[rank])
	if err := l.Release(h.plain); err != nil {
		return true, h.fail(op, err)
	}
	return true, h.fail(op, lost)
}
