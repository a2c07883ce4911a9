package shmem

import (
	"unsafe"

	"github.com/goshmem/goshmem/rma"
)

// Each function here makes the operation of a call whose fast test has failed. The call has it in
// tail position and never in line, so that it keeps nothing alive for it: the fast half is the
// same, instruction by instruction, as if there were no slow one.

//go:noinline
func slowPut[T any](c *Ctx, dst Sym[T], src []T, pe int, r *routine) error {
	_, err := c.carryOut(&operation{
		routine: r, pe: pe, object: dst.ref(), need: len(src), size: sizeOf[T](),
		local: unsafe.Pointer(unsafe.SliceData(src)), n: len(src),
	})
	return err
}

//go:noinline
func slowGet[T any](c *Ctx, dst []T, src Sym[T], pe int, r *routine) error {
	_, err := c.carryOut(&operation{
		routine: r, pe: pe, object: src.ref(), need: len(dst), size: sizeOf[T](),
		local: unsafe.Pointer(unsafe.SliceData(dst)), n: len(dst),
	})
	return err
}

//go:noinline
func slowGetNBI[T any](c *Ctx, dst []T, src Sym[T], pe int) (Pending[[]T], error) {
	return pending(c, dst, slowGet(c, dst, src, pe, &routineGetNBI))
}

//go:noinline
func slowP[T any](c *Ctx, dst Sym[T], v T, pe int) error {
	_, err := c.carryOut(&operation{
		routine: &routineP, pe: pe, object: dst.ref(), need: 1, size: sizeOf[T](), local: unsafe.Pointer(&v), n: 1,
	})
	return err
}

//go:noinline
func slowG[T any](c *Ctx, src Sym[T], pe int) (v T, err error) {
	_, err = c.carryOut(&operation{
		routine: &routineG, pe: pe, object: src.ref(), need: 1, size: sizeOf[T](), local: unsafe.Pointer(&v), n: 1,
	})
	return v, err
}

//go:noinline
func slowPutStrided[T any](c *Ctx, dst Sym[T], src []T, s Stride, pe int, r *routine) error {
	_, err := c.carryOut(&operation{
		routine: r, pe: pe, object: dst.ref(), size: sizeOf[T](),
		local: unsafe.Pointer(unsafe.SliceData(src)), n: len(src), particulars: &particulars{stride: s},
	})
	return err
}

//go:noinline
func slowGetStrided[T any](c *Ctx, dst []T, src Sym[T], s Stride, pe int, r *routine) error {
	_, err := c.carryOut(&operation{
		routine: r, pe: pe, object: src.ref(), size: sizeOf[T](),
		local: unsafe.Pointer(unsafe.SliceData(dst)), n: len(dst), particulars: &particulars{stride: s},
	})
	return err
}

// slowAtomic is for atomic operations that have no operand (opFetch), or one.
//
//go:noinline
func slowAtomic[T AMOExt](c *Ctx, x Sym[T], operand T, pe int, r *routine) (old T, err error) {
	bits, err := c.carryOut(&operation{
		routine: r, pe: pe, object: x.aligned(), need: 1, size: sizeOf[T](), operand: rma.Bits(operand),
	})
	return rma.FromBits[T](bits), err
}

// slowUpdate is slowAtomic for operations whose result nobody asked for.
//
//go:noinline
func slowUpdate[T AMOExt](c *Ctx, x Sym[T], operand T, pe int, r *routine) error {
	_, err := slowAtomic(c, x, operand, pe, r)
	return err
}

// slowAtomicNBI is slowAtomic for operations that give a Pending.
//
//go:noinline
func slowAtomicNBI[T AMOExt](c *Ctx, x Sym[T], operand T, pe int, r *routine) (Pending[T], error) {
	old, err := slowAtomic(c, x, operand, pe, r)
	return pending(c, old, err)
}

//go:noinline
func slowCompareSwap[T AMO](c *Ctx, x Sym[T], cond, v T, pe int, r *routine) (old T, err error) {
	bits, err := c.carryOut(&operation{
		routine: r, pe: pe, object: x.aligned(), need: 1, size: sizeOf[T](), operand: rma.Bits(v), cond: rma.Bits(cond),
	})
	return rma.FromBits[T](bits), err
}

//go:noinline
func slowCompareSwapNBI[T AMO](c *Ctx, x Sym[T], cond, v T, pe int) (Pending[T], error) {
	old, err := slowCompareSwap(c, x, cond, v, pe, &routineAtomicCompareSwapNBI)
	return pending(c, old, err)
}

//go:noinline
func slowPutSignal[T any](c *Ctx, dst Sym[T], src []T, sig Sym[uint64], v uint64, update SignalOp, pe int, r *routine) error {
	_, err := c.carryOut(&operation{
		routine: r, pe: pe, object: dst.ref(), need: len(src), size: sizeOf[T](),
		local: unsafe.Pointer(unsafe.SliceData(src)), n: len(src), operand: v,
		particulars: &particulars{signal: sig.aligned(), update: update},
	})
	return err
}

// pending is the result of an operation that has been carried out.
func pending[T any](c *Ctx, v T, err error) (Pending[T], error) {
	if err != nil {
		return Pending[T]{}, err
	}
	return Pending[T]{c: c, v: v}, nil
}
