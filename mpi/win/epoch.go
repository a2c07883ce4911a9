package win

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
)

// epoch is the group of an epoch of Start or Post.
type epoch struct {
	ranks []int
	open  bool // of Start: all ranks have posted
}

// Fence completes this rank's operations on the window, and returns when all ranks have called it. Then each rank sees
// what all ranks have put, accumulated and stored before.
//
//   - Errors: *mpi.RankError when a rank has died, and from then on at once; the end of the window's context. A rank
//     whose operations have failed meets the others all the same.
//   - Concurrent calls: it is a collective of the communicator, so no other one may be under way in another goroutine.
//   - Collective: over the communicator.
//   - Source: MPI_Win_fence.
func (w *Win[T]) Fence() error {
	const op = "Fence"
	h := w.handle()
	if err := h.check(op); err != nil {
		return err
	}
	lost := h.fail(op, h.ops.Quiet())
	if err := h.comm.Barrier(); err != nil {
		return errors.Join(lost, fmt.Errorf("mpi.win.%s: %w", op, err))
	}
	return lost
}

// Post opens this rank's memory to an epoch of some ranks, which call Start. Wait ends it. What this rank has stored before
// is seen in the epoch.
//
//   - Errors: mpi.ErrRankRange; mpi.ErrArgument for a rank that is named twice, and before the last epoch has ended;
//     *mpi.RankError for a rank that has died: the epoch has begun nevertheless, and Wait ends it.
//   - Source: MPI_Win_post.
func (w *Win[T]) Post(ranks ...int) error {
	const op = "Post"
	h := w.handle()
	if err := h.checkRanks(op, ranks); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.exposure != nil {
		return usage(op, mpi.ErrArgument, "the epoch of the last Post, for ranks %v, has not ended, want Wait first", h.exposure.ranks)
	}
	if err := h.ops.Fence(); err != nil {
		return h.fail(op, err)
	}
	h.exposure = &epoch{ranks: append([]int(nil), ranks...)}
	return h.signal(op, ranks, h.wordPosted(h.me))
}

// Start begins an epoch of operations on some ranks, and returns when all of them have called Post. Complete ends it.
//
//   - Errors: as Post, but the epoch has not begun: call Start again, with the ranks that live. The end of the window's
//     context.
//   - Source: MPI_Win_start.
func (w *Win[T]) Start(ranks ...int) error {
	const op = "Start"
	h := w.handle()
	if err := h.checkRanks(op, ranks); err != nil {
		return err
	}
	h.mu.Lock()
	if h.access != nil {
		defer h.mu.Unlock()
		return usage(op, mpi.ErrArgument, "the epoch of the last Start, of ranks %v, has not ended, want Complete first", h.access.ranks)
	}
	mine := &epoch{ranks: append([]int(nil), ranks...)}
	h.access = mine
	h.mu.Unlock()
	for _, rank := range ranks {
		if err := h.awaitRank(op, rank, h.wordPosted(rank), h.started[rank]+1); err != nil {
			h.mu.Lock()
			h.access = nil
			h.mu.Unlock()
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, rank := range ranks {
		h.started[rank]++
	}
	mine.open = true
	return nil
}

// Complete ends the epoch of Start, after the operations of this rank.
//
//   - Completion: of this rank's operations on the window, at their targets.
//   - Errors: mpi.ErrArgument without an epoch; *mpi.RankError for a rank that has died: the epoch has ended
//     nevertheless. When the window's context ends first, the epoch goes on.
//   - Source: MPI_Win_complete.
func (w *Win[T]) Complete() error {
	const op = "Complete"
	h := w.handle()
	if err := h.check(op); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.access == nil || !h.access.open {
		return usage(op, mpi.ErrArgument, "no epoch of this rank is under way, want Start first")
	}
	lost := h.ops.Quiet()
	if lost != nil && !errors.Is(lost, shmem.ErrPEDied) {
		return h.fail(op, lost)
	}
	ranks := h.access.ranks
	h.access = nil
	err := h.signal(op, ranks, h.wordCompleted(h.me))
	if err == nil {
		err = h.fail(op, lost)
	}
	return err
}

// Wait ends the epoch of Post. It returns when all its ranks have called Complete, and all that they have done is seen.
//
//   - Errors: mpi.ErrArgument without an epoch. *mpi.RankError with the ranks of the epoch that have died before they
//     completed it, when all others have: the epoch has ended. The death of any other rank, as long as it is not
//     acknowledged, and the end of the window's context: the epoch goes on, and Wait may be called again.
//   - Source: MPI_Win_wait.
func (w *Win[T]) Wait() error {
	const op = "Wait"
	h := w.handle()
	e, err := h.exposed(op)
	if err != nil {
		return err
	}
	var died []int
	var cause error
	for _, rank := range e.ranks {
		err := h.awaitRank(op, rank, h.wordCompleted(rank), h.waited[rank]+1)
		if dead, ok := errors.AsType[*mpi.RankError](err); ok && slices.Contains(dead.Ranks, rank) {
			died, cause = append(died, rank), err
		} else if err != nil {
			return err
		}
	}
	return h.endExposure(op, e, died, cause)
}

// Test is Wait that does not wait: it reports whether the epoch has ended. It makes progress for messages, as waits do.
//
//   - Errors: mpi.ErrArgument without an epoch; *mpi.RankError as Wait.
//   - Source: MPI_Win_test.
func (w *Win[T]) Test() (bool, error) {
	const op = "Test"
	h := w.handle()
	e, err := h.exposed(op)
	if err != nil {
		return false, err
	}
	var died []int
	var cause error
	for _, rank := range e.ranks {
		if h.isRecognized(rank) {
			continue
		}
		dead := h.isDead(rank) // before the look at the word, as in awaitRank
		done, err := shmem.Test(h.ops, h.words.At(h.wordCompleted(rank)), shmem.GE, h.waited[rank]+1)
		switch {
		case err != nil:
			return false, h.fail(op, err)
		case !done && !dead:
			return false, nil
		case !done:
			died, cause = append(died, rank), h.deadError(op, rank)
		}
	}
	return true, h.endExposure(op, e, died, cause)
}

// exposed returns the epoch of Post.
func (h *handle) exposed(op string) (*epoch, error) {
	if err := h.check(op); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.exposure == nil {
		return nil, usage(op, mpi.ErrArgument, "no epoch of this rank is under way, want Post first")
	}
	return h.exposure, nil
}

// endExposure ends the epoch of Post, all of whose ranks have completed it or died. cause is the error of one of those that
// have died.
func (h *handle) endExposure(op string, e *epoch, died []int, cause error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.exposure != e {
		return usage(op, mpi.ErrArgument, "another goroutine has ended the epoch, want one goroutine in Wait or Test at a time")
	}
	h.exposure = nil
	for _, rank := range e.ranks {
		h.waited[rank]++
	}
	if len(died) < 2 {
		return cause
	}
	return &mpi.RankError{Ranks: slices.Sorted(slices.Values(died)), Op: "win." + op, Err: cause}
}

// signal adds 1 to a word of each of some ranks, but of those that are recognized as dead.
func (h *handle) signal(op string, ranks []int, word int) (first error) {
	for _, rank := range ranks {
		if h.isRecognized(rank) {
			continue
		}
		if err := h.plain.SignalAdd(h.words.At(word), 1, h.pes[rank]); err != nil && first == nil {
			first = h.fail(op, err)
		}
	}
	return first
}

// checkRanks checks the group of an epoch.
func (h *handle) checkRanks(op string, ranks []int) error {
	if err := h.check(op); err != nil {
		return err
	}
	seen := make([]bool, h.n)
	for _, rank := range ranks {
		if err := h.checkRank(op, rank); err != nil {
			return err
		}
		if seen[rank] {
			return usage(op, mpi.ErrArgument, "rank %d is named twice in %v, want each once", rank, ranks)
		}
		seen[rank] = true
	}
	return nil
}
