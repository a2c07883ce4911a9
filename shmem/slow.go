package shmem

import (
	"unsafe"

	"github.com/goshmem/goshmem/rma"
)

// Each function in this file performs a call whose fast test has failed. The fast half calls it in tail position, and
// it is never inlined. So the fast half keeps nothing alive for it, and has the same instructions as if there were no
// slow half.

//go:noinline
func slowPut[T any](c *Ctx, dst Sym[T], src []T, pe int, r *routine) error {
	if len(src) <= dst.n && c.putFar(dst.tag, dst.off, unsafe.Pointer(unsafe.SliceData(src)), uint64(len(src))*sizeOf[T](), pe) {
		return nil
	}
	_, err := c.checkAndPerform(&operation{
		routine: r, pe: pe, object: dst.ref(), need: len(src), size: sizeOf[T](),
		local: unsafe.Pointer(unsafe.SliceData(src)), n: len(src),
	})
	return err
}

//go:noinline
func slowGet[T any](c *Ctx, dst []T, src Sym[T], pe int, r *routine) error {
	_, err := c.checkAndPerform(&operation{
		routine: r, pe: pe, object: src.ref(), need: len(dst), size: sizeOf[T](),
		local: unsafe.Pointer(unsafe.SliceData(dst)), n: len(dst),
	})
	return err
}

// slowGetNBI waits for the data of a far PE if dst lies on the goroutine's stack, which may move. So dst does not escape,
// and programs whose PEs are near get into local arrays without an allocation.
//
//go:noinline
func slowGetNBI[T any](c *Ctx, dst []T, src Sym[T], pe int) (Pending[[]T], error) {
	at := rma.OffStack(unsafe.Pointer(unsafe.SliceData(dst)))
	if at == nil || !c.isFar(pe) {
		return newPending(c, dst, slowGet(c, dst, src, pe, &routineGetNBI))
	}
	of, err := c.startGet(&operation{
		routine: &routineGetNBI, pe: pe, object: src.ref(), need: len(dst), size: sizeOf[T](), n: len(dst),
	}, at)
	return Pending[[]T]{of: of, value: dst}, err
}

//go:noinline
func slowP[T any](c *Ctx, dst Sym[T], v T, pe int) error {
	if c.putFar(dst.tag, dst.off, unsafe.Pointer(&v), sizeOf[T](), pe) {
		return nil
	}
	_, err := c.checkAndPerform(&operation{
		routine: &routineP, pe: pe, object: dst.ref(), need: 1, size: sizeOf[T](), local: unsafe.Pointer(&v), n: 1,
	})
	return err
}

//go:noinline
func slowG[T any](c *Ctx, src Sym[T], pe int) (v T, err error) {
	_, err = c.checkAndPerform(&operation{
		routine: &routineG, pe: pe, object: src.ref(), need: 1, size: sizeOf[T](), local: unsafe.Pointer(&v), n: 1,
	})
	return v, err
}

//go:noinline
func slowPutStrided[T any](c *Ctx, dst Sym[T], src []T, s Stride, pe int, r *routine) error {
	_, err := c.checkAndPerform(&operation{
		routine: r, pe: pe, object: dst.ref(), size: sizeOf[T](),
		local: unsafe.Pointer(unsafe.SliceData(src)), n: len(src), particulars: &particulars{stride: s},
	})
	return err
}

//go:noinline
func slowGetStrided[T any](c *Ctx, dst []T, src Sym[T], s Stride, pe int, r *routine) error {
	_, err := c.checkAndPerform(&operation{
		routine: r, pe: pe, object: src.ref(), size: sizeOf[T](),
		local: unsafe.Pointer(unsafe.SliceData(dst)), n: len(dst), particulars: &particulars{stride: s},
	})
	return err
}

// slowAtomic is for atomic operations with one operand, or none (opFetch).
//
//go:noinline
func slowAtomic[T AMOExt](c *Ctx, x Sym[T], operand T, pe int, r *routine) (old T, err error) {
	bits, err := c.checkAndPerform(&operation{
		routine: r, pe: pe, object: x.alignedRef(), need: 1, size: sizeOf[T](), operand: rma.Bits(operand),
	})
	return rma.FromBits[T](bits), err
}

// slowUpdate is slowAtomic for operations that return no result.
//
//go:noinline
func slowUpdate[T AMOExt](c *Ctx, x Sym[T], operand T, pe int, r *routine) error {
	_, err := slowAtomic(c, x, operand, pe, r)
	return err
}

// slowAtomicNBI is slowAtomic for operations that return a Pending.
//
//go:noinline
func slowAtomicNBI[T AMOExt](c *Ctx, x Sym[T], operand T, pe int, r *routine) (Pending[T], error) {
	if !c.isFar(pe) {
		old, err := slowAtomic(c, x, operand, pe, r)
		return newPending(c, old, err)
	}
	of, err := c.startFetch(&operation{
		routine: r, pe: pe, object: x.alignedRef(), need: 1, size: sizeOf[T](), operand: rma.Bits(operand),
	})
	return Pending[T]{of: of}, err
}

//go:noinline
func slowCompareSwap[T AMO](c *Ctx, x Sym[T], cond, v T, pe int, r *routine) (old T, err error) {
	bits, err := c.checkAndPerform(&operation{
		routine: r, pe: pe, object: x.alignedRef(), need: 1, size: sizeOf[T](), operand: rma.Bits(v), cond: rma.Bits(cond),
	})
	return rma.FromBits[T](bits), err
}

//go:noinline
func slowCompareSwapNBI[T AMO](c *Ctx, x Sym[T], cond, v T, pe int) (Pending[T], error) {
	if !c.isFar(pe) {
		old, err := slowCompareSwap(c, x, cond, v, pe, &routineAtomicCompareSwapNBI)
		return newPending(c, old, err)
	}
	of, err := c.startFetch(&operation{
		routine: &routineAtomicCompareSwapNBI, pe: pe, object: x.alignedRef(), need: 1, size: sizeOf[T](), operand: rma.Bits(v), cond: rma.Bits(cond),
	})
	return Pending[T]{of: of}, err
}

//go:noinline
func slowPutSignal[T any](c *Ctx, dst Sym[T], src []T, sig Sym[uint64], v uint64, update SignalOp, pe int, r *routine) error {
	_, err := c.checkAndPerform(&operation{
		routine: r, pe: pe, object: dst.ref(), need: len(src), size: sizeOf[T](),
		local: unsafe.Pointer(unsafe.SliceData(src)), n: len(src), operand: v,
		particulars: &particulars{signal: sig.alignedRef(), update: update},
	})
	return err
}

// newPending returns the Pending of an operation that was performed, or its error.
func newPending[T any](c *Ctx, v T, err error) (Pending[T], error) {
	if err != nil {
		return Pending[T]{}, err
	}
	return Pending[T]{of: &c.origin, value: v}, nil
}
