package win

import "github.com/goshmem/goshmem/shmem"

// Put copies src to the memory of a rank, from a displacement on. It returns when src may be used again.
//
//   - Completion: at the target after Flush, Unlock, Complete or Fence.
//   - Cost: that of shmem.Put.
//   - Errors: mpi.ErrRankRange, shmem.ErrBounds, shmem.ErrFreed; *mpi.RankError with mpi.ErrDied for a dead rank.
//   - Concurrent calls: allowed.
//   - Source: MPI_Put.
func (w *Win[T]) Put(src []T, rank, displacement int) error {
	const op = "Put"
	h := w.handle()
	if do, err := h.checkRange(op, rank, displacement, len(src)); !do || len(src) == 0 {
		return err
	}
	return h.fail(op, shmem.Put(h.ops, w.x.Slice(displacement, displacement+len(src)), src, h.pes[rank]))
}

// Get copies the memory of a rank, from a displacement on, to dst.
//
//   - Completion: on return.
//   - Cost: that of shmem.Get.
//   - Errors: as Put.
//   - Concurrent calls: allowed.
//   - Source: MPI_Get.
func (w *Win[T]) Get(dst []T, rank, displacement int) error {
	const op = "Get"
	h := w.handle()
	if do, err := h.checkRange(op, rank, displacement, len(dst)); !do || len(dst) == 0 {
		return err
	}
	return h.fail(op, shmem.Get(h.ops, dst, w.x.Slice(displacement, displacement+len(dst)), h.pes[rank]))
}

// Request is an operation that is under way. A Request is a value that may be copied.
type Request[T any] struct {
	h       *handle
	p       shmem.Pending[[]T] // of Rget
	fetches *fetches[T]        // of RgetAccumulate; otherwise nil
	dst     []T
	null    bool // nothing is to be done
}

// Rget is Get that may return before dst was written: read dst after Request.Wait.
//
//   - Completion: after Wait, or Flush, Unlock, Complete or Fence.
//   - Errors: as Put.
//   - Concurrent calls: allowed.
//   - Source: MPI_Rget.
func (w *Win[T]) Rget(dst []T, rank, displacement int) (Request[T], error) {
	const op = "Rget"
	h := w.handle()
	do, err := h.checkRange(op, rank, displacement, len(dst))
	if err != nil {
		return Request[T]{}, err
	}
	if !do || len(dst) == 0 {
		return Request[T]{h: h, dst: dst, null: true}, nil
	}
	p, err := shmem.GetNBI(h.ops, dst, w.x.Slice(displacement, displacement+len(dst)), h.pes[rank])
	return Request[T]{h: h, p: p, dst: dst}, h.fail(op, err)
}

// Wait returns the elements of dst when they are there: nil for Rput and Raccumulate, which have none.
//
//   - Errors: those of the operation; mpi.ErrArgument for a Request that no call returned; the end of the window's
//     context.
//   - Concurrent calls: allowed.
//   - Source: MPI_Wait.
func (r Request[T]) Wait() ([]T, error) {
	const op = "Request.Wait"
	if err := r.h.check(op); err != nil || r.null {
		return r.dst, err
	}
	if r.fetches != nil {
		return r.dst, r.h.fail(op, r.fetches.wait(r.dst))
	}
	got, err := r.p.Wait()
	return got, r.h.fail(op, err)
}
