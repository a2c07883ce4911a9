package shmem

import (
	"unsafe"

	"github.com/goshmem/goshmem/rma"
)

// Put copies src to the first len(src) elements of dst on PE pe. It returns
// when src may be reused.
//
//   - Completion: at the target after Quiet or a barrier.
//   - Cost: a copy, without a system call, where the PE is on the same node.
//   - Errors: ErrPERange, ErrBounds, ErrFreed, ErrForeignHandle, ErrDestroyed, ErrFinalized;
//     ErrArgument for a nil Ctx, and for a handle of a Field that names no field; *PEError with
//     ErrPEDied for a PE that is known to be dead.
//   - Concurrent calls: allowed.
//   - Source: shmem_put.
//
//go:nosplit
func Put[T any](c *Ctx, dst Sym[T], src []T, pe int) error {
	if !c.passes(dst.tag, pe) || len(src) > dst.n {
		return slowPut(c, dst, src, pe, &routinePut)
	}
	t := c.target(pe)
	switch to := t.At(dst.off); {
	case len(src) == 1:
		rma.One[T](to, unsafe.Pointer(&src[0]))
	case rma.Few(src):
		rma.Copy(to, src)
	default:
		rma.Move(to, src)
	}
	t.Ring()
	return nil
}

// Get copies the first len(dst) elements of src on PE pe to dst.
//
//   - Completion: on return.
//   - Errors: as Put.
//   - Concurrent calls: allowed.
//   - Source: shmem_get.
//
//go:nosplit
func Get[T any](c *Ctx, dst []T, src Sym[T], pe int) error {
	if !c.passes(src.tag, pe) || len(dst) > src.n {
		return slowGet(c, dst, src, pe, &routineGet)
	}
	switch from := c.target(pe).At(src.off); {
	case len(dst) == 1:
		rma.One[T](unsafe.Pointer(&dst[0]), from)
	case rma.Few(dst):
		rma.CopyOut(dst, from)
	default:
		rma.MoveOut(dst, from)
	}
	*c.mark = 1
	return nil
}

// P writes v to the first element of dst on PE pe.
//
//   - Completion: at the target after Quiet or a barrier.
//   - Cost: one store, where the PE is on the same node.
//   - Errors: as Put.
//   - Concurrent calls: allowed.
//   - Source: shmem_p.
func P[T any](c *Ctx, dst Sym[T], v T, pe int) error {
	if !c.passes(dst.tag, pe) {
		return slowP(c, dst, v, pe)
	}
	t := c.target(pe)
	rma.One[T](t.At(dst.off), unsafe.Pointer(&v))
	t.Ring()
	return nil
}

// G returns the first element of src on PE pe.
//
//   - Completion: on return.
//   - Cost: one load, where the PE is on the same node.
//   - Errors: as Put.
//   - Concurrent calls: allowed.
//   - Source: shmem_g.
func G[T any](c *Ctx, src Sym[T], pe int) (v T, err error) {
	if !c.passes(src.tag, pe) {
		return slowG(c, src, pe)
	}
	var got T // not v: taking the address of a result keeps it in memory
	rma.One[T](unsafe.Pointer(&got), c.targetAndMark(pe).At(src.off))
	return got, nil
}

// PutNBI is Put that may return before src was read: leave src unchanged until Quiet.
//
//   - Completion: of both ends after Quiet or a barrier.
//   - Errors: as Put.
//   - Concurrent calls: allowed.
//   - Source: shmem_put_nbi.
//
//go:nosplit
func PutNBI[T any](c *Ctx, dst Sym[T], src []T, pe int) error {
	if !c.passes(dst.tag, pe) || len(src) > dst.n {
		return slowPut(c, dst, src, pe, &routinePutNBI)
	}
	t := c.target(pe)
	switch to := t.At(dst.off); {
	case len(src) == 1:
		rma.One[T](to, unsafe.Pointer(&src[0]))
	case rma.Few(src):
		rma.Copy(to, src)
	default:
		rma.Move(to, src)
	}
	t.Ring()
	return nil
}

// GetNBI is Get that may return before dst was written: read dst after Wait or Quiet.
//
//   - Completion: after Wait, Quiet or a barrier.
//   - Cost: as Get. If dst is on the stack of the caller, such as an array that is local to a function, and the PE is on
//     another node, the call returns when dst is written.
//   - Errors: as Put.
//   - Concurrent calls: allowed.
//   - Source: shmem_get_nbi.
//
//go:nosplit
func GetNBI[T any](c *Ctx, dst []T, src Sym[T], pe int) (Pending[[]T], error) {
	if !c.passes(src.tag, pe) || len(dst) > src.n {
		return slowGetNBI(c, dst, src, pe)
	}
	switch from := c.target(pe).At(src.off); {
	case len(dst) == 1:
		rma.One[T](unsafe.Pointer(&dst[0]), from)
	case rma.Few(dst):
		rma.CopyOut(dst, from)
	default:
		rma.MoveOut(dst, from)
	}
	*c.mark = 1
	return Pending[[]T]{of: &c.origin, value: dst}, nil
}
