package win

import (
	"sync"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
)

// Rput is Put with a request, which is complete at once, as Put returns when src may be used again. Its Wait returns nil and no error.
//
//   - Completion: src may be used again on return. At the target after Flush, Unlock, Complete or Fence.
//   - Cost: as Put.
//   - Errors: as Put.
//   - Concurrent calls: allowed.
//   - Source: MPI_Rput.
func (w *Win[T]) Rput(src []T, rank, displacement int) (Request[T], error) {
	return Request[T]{h: w.handle(), null: true}, w.Put(src, rank, displacement)
}

// Raccumulate is Accumulate with a request, which is complete at once, as that of Rput.
//
//   - Completion: src may be used again on return. At the target after Flush, Unlock, Complete or Fence.
//   - Cost: as Accumulate.
//   - Errors: as Accumulate.
//   - Concurrent calls: allowed.
//   - Source: MPI_Raccumulate.
func Raccumulate[T shmem.AMOExt](w *Win[T], src []T, rank, displacement int, o Op) (Request[T], error) {
	return Request[T]{h: w.handle(), null: true}, Accumulate(w, src, rank, displacement, o)
}

// RgetAccumulate is GetAccumulate that may return before dst was written: read dst after Request.Wait, which writes it.
//
//   - Shape: as GetAccumulate. dst must not be used until Wait.
//   - Completion: of dst after Wait. src may be used again on return. At the target after Wait, or Flush, Unlock, Complete or Fence.
//   - Cost: as GetAccumulate. On another node, the operations that are one atomic operation of shmem are under way together: one round trip for all
//     elements instead of one for each.
//   - Errors: as GetAccumulate, from RgetAccumulate or from Wait.
//   - Concurrent calls: allowed.
//   - Source: MPI_Rget_accumulate.
func RgetAccumulate[T shmem.AMOExt](w *Win[T], dst, src []T, rank, displacement int, o Op) (Request[T], error) {
	const op = "RgetAccumulate"
	h := w.handle()
	do, err := h.checkRange(op, rank, displacement, len(dst))
	if err == nil && len(src) != len(dst) && (o != NoOp || src != nil) {
		err = usage(op, mpi.ErrArgument, "%d elements in dst and %d in src, want the same number", len(dst), len(src))
	}
	if err == nil {
		err = checkOp[T](op, o)
	}
	if err != nil {
		return Request[T]{}, err
	}
	if !do || len(dst) == 0 {
		return Request[T]{h: h, dst: dst, null: true}, nil
	}
	f := &fetches[T]{all: make([]func() (T, error), len(dst))}
	for i := range dst {
		var v T
		if src != nil {
			v = src[i]
		}
		if f.all[i], err = startUpdate(h.ops, w.x.At(displacement+i), o, v, h.pes[rank]); err != nil {
			return Request[T]{}, h.fail(op, err)
		}
	}
	return Request[T]{h: h, dst: dst, fetches: f}, nil
}

// fetches are updates that are under way. Each of them returns what its element was.
type fetches[T any] struct {
	all  []func() (T, error)
	once sync.Once
	err  error
}

// wait writes to dst what the elements were, once.
func (f *fetches[T]) wait(dst []T) error {
	f.once.Do(func() {
		for i, fetch := range f.all {
			v, err := fetch()
			if err != nil {
				f.err = err
				return
			}
			dst[i] = v
		}
		f.all = nil
	})
	return f.err
}

// startUpdate begins an update that fetches the element, if it is one atomic operation of shmem. Otherwise it makes the update.
func startUpdate[T shmem.AMOExt](c *shmem.Ctx, x shmem.Sym[T], o Op, v T, pe int) (func() (T, error), error) {
	k := kindOf[T]()
	switch {
	case o == NoOp:
		p, err := shmem.AtomicFetchNBI(c, x, pe)
		return p.Wait, err
	case o == Replace:
		p, err := shmem.AtomicSwapNBI(c, x, v, pe)
		return p.Wait, err
	case k.float || o != Sum && o < And:
		old, err := update(c, x, o, v, pe, true)
		return func() (T, error) { return old, nil }, err
	case k.size == 4:
		p, err := startWord(c, shmem.Bits32(x), o, bits32(k, v), pe)
		return func() (T, error) { return fetched(p, k, of32[T]) }, err
	default:
		p, err := startWord(c, shmem.Bits64(x), o, bits64(k, v), pe)
		return func() (T, error) { return fetched(p, k, of64[T]) }, err
	}
}

// fetched returns the element whose bits an operation fetches.
func fetched[T, U any](p shmem.Pending[U], k kind, of func(kind, U) T) (T, error) {
	bits, err := p.Wait()
	return of(k, bits), err
}

// startWord begins an update by one atomic operation: Sum, And, Or, Xor.
func startWord[U uint32 | uint64](c *shmem.Ctx, x shmem.Sym[U], o Op, v U, pe int) (shmem.Pending[U], error) {
	switch o {
	case Sum:
		return shmem.AtomicFetchAddNBI(c, x, v, pe)
	case And:
		return shmem.AtomicFetchAndNBI(c, x, v, pe)
	case Or:
		return shmem.AtomicFetchOrNBI(c, x, v, pe)
	default:
		return shmem.AtomicFetchXorNBI(c, x, v, pe)
	}
}
