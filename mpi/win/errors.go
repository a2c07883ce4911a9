package win

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
)

// usage returns a *mpi.UsageError of a function of this package.
func usage(op string, cause error, format string, args ...any) error {
	return &mpi.UsageError{Op: "win." + op, Err: cause, Msg: fmt.Sprintf(format, args...)}
}

// check checks that a call returned the window, and that it was not freed.
func (h *handle) check(op string) error {
	switch {
	case h == nil:
		return usage(op, mpi.ErrArgument, "window is nil, want one that Allocate or Create has returned")
	case h.freed.Load():
		return usage(op, shmem.ErrFreed, "window was freed before this call, want a live one")
	}
	return nil
}

// checkRank checks a rank of the window.
func (h *handle) checkRank(op string, rank int) error {
	if err := h.check(op); err != nil {
		return err
	}
	if rank < 0 || rank >= h.n {
		return usage(op, mpi.ErrRankRange, "rank %d of a window of %d ranks, want 0 to %d", rank, h.n, h.n-1)
	}
	return nil
}

// checkRange checks the target of an operation: a rank, and count elements from a displacement on. It returns false where
// nothing is to be done: for mpi.ProcNull, and for a rank that is recognized as dead.
func (h *handle) checkRange(op string, rank, displacement, count int) (bool, error) {
	if rank == mpi.ProcNull {
		return false, h.check(op)
	}
	if err := h.checkRank(op, rank); err != nil {
		return false, err
	}
	if displacement < 0 || displacement > h.length {
		return false, usage(op, shmem.ErrBounds, "displacement %d in a window of %d elements, want 0 to %d", displacement, h.length, h.length)
	}
	if count > h.length-displacement {
		return false, usage(op, shmem.ErrBounds, "%d elements from displacement %d on in a window of %d, want at most %d",
			count, displacement, h.length, h.length-displacement)
	}
	return !h.isRecognized(rank), nil
}

// ranksError is what has become of the ranks of a *mpi.RankError: the cause of package mpi, and that of shmem.
type ranksError struct {
	cause error // mpi.ErrDied or mpi.ErrRankFinalized
	of    error
}

func (e *ranksError) Error() string   { return e.of.Error() }
func (e *ranksError) Unwrap() []error { return []error{e.cause, e.of} }

// fail returns the public form of an error of package shmem.
func (h *handle) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*shmem.PEError](err); ok {
		cause := mpi.ErrDied
		if !errors.Is(err, shmem.ErrPEDied) {
			cause = mpi.ErrRankFinalized
		}
		ranks := make([]int, len(e.PEs))
		for i, pe := range e.PEs {
			ranks[i] = h.ranks[pe]
		}
		slices.Sort(ranks)
		return &mpi.RankError{Ranks: ranks, Op: "win." + op, Err: &ranksError{cause, e.Err}}
	}
	if e, ok := errors.AsType[*shmem.UsageError](err); ok {
		return &mpi.UsageError{Op: "win." + op, Msg: e.Msg, Err: e.Err}
	}
	return fmt.Errorf("mpi.win.%s: %w", op, err)
}

// isDead reports whether a rank is known to be dead.
func (h *handle) isDead(rank int) bool { return !h.world.PEAccessible(h.pes[rank]) }

// deadError returns the error of a call that needs a rank that is known to be dead.
func (h *handle) deadError(op string, rank int) error {
	if err := h.plain.QuietPE(h.pes[rank]); err != nil { // it completes nothing on a dead PE, and names the cause of death
		return h.fail(op, err)
	}
	return &mpi.RankError{Ranks: []int{rank}, Op: "win." + op, Err: mpi.ErrDied}
}
