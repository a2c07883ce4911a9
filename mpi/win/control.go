package win

import (
	"context"
	"errors"
	"time"

	"github.com/goshmem/goshmem/shmem"
)

// The words of a window on each rank, before its locks:
//
//	wordPosted+i     how often rank i has posted to this rank; rank i adds
//	wordCompleted+i  how often rank i has completed an epoch here; rank i adds
//	wordReader+i     1 while rank i has, or tries to get, a shared lock of this rank; rank i writes
//	wordWriter       1 + the rank that holds this rank's exclusive lock, or waits for shared ones to end; 0: none
//	wordWake         grows when a shared lock ends that this rank waits for

// The places of the words, in a window of n ranks.
func (w *window) wordPosted(rank int) int    { return rank }
func (w *window) wordCompleted(rank int) int { return w.n + rank }
func (w *window) wordReader(rank int) int    { return 2*w.n + rank }
func (w *window) wordWriter() int            { return (3*w.n + 7) &^ 7 } // on a cache line of its own
func (w *window) wordWake() int              { return w.wordWriter() + 8 }
func (w *window) wordCount() int             { return w.wordWake() + 8 }

// allocateControl allocates the words and the locks of a window.
func (h *handle) allocateControl(op string) error {
	n := h.wordCount()
	if h.locks {
		n += h.n * shmem.LockLen(h.world)
	}
	x, err := shmem.Calloc[int64](h.world, n)
	if err != nil {
		return h.fail(op, err)
	}
	h.memory, h.words = x, shmem.Bits64(x.Slice(0, h.wordCount()))
	return nil
}

// lockOf returns the lock of a rank.
func (h *handle) lockOf(rank int) (shmem.Lock, error) {
	size := shmem.LockLen(h.world)
	from := h.wordCount() + rank*size
	return shmem.LockAt(h.world, h.memory.Slice(from, from+size))
}

// recheck is how long a wait for a word lasts before the waiter looks again for dead ranks. It ends waits whose death another
// goroutine acknowledges while the wait begins.
const recheck = 100 * time.Millisecond

// waitFor waits until the comparison of a word of this rank holds, but not longer than recheck. A death ends the wait with
// an error of shmem, if it is not acknowledged.
func (h *handle) waitFor(word int, cmp shmem.Cmp, v uint64) (bool, error) {
	x := h.words.At(word)
	if ok, err := shmem.Test(h.ops, x, cmp, v); ok || err != nil {
		return ok, err
	}
	ctx, cancel := context.WithTimeout(h.ctx, recheck)
	defer cancel()
	_, err := h.plain.With(ctx).SignalWaitUntil(x, cmp, v)
	if errors.Is(err, context.DeadlineExceeded) && h.ctx.Err() == nil {
		return false, nil
	}
	return err == nil, err
}

// awaitRank waits until a word that a rank adds to is at least v. It returns an error if the rank has died before, and does
// not wait for one that is recognized as dead.
func (h *handle) awaitRank(op string, rank, word int, v uint64) error {
	for {
		if h.isRecognized(rank) {
			return nil
		}
		dead := h.isDead(rank) // before the look at the word: what the dead has added is seen
		ok, err := shmem.Test(h.ops, h.words.At(word), shmem.GE, v)
		switch {
		case err != nil:
			return h.fail(op, err)
		case ok:
			return nil
		case dead:
			return h.deadError(op, rank)
		}
		if ok, err = h.waitFor(word, shmem.GE, v); ok {
			return nil
		}
		if err != nil && !h.isDead(rank) { // otherwise the next round returns the error of this rank alone
			return h.fail(op, err)
		}
	}
}
