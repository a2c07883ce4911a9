package shmem

import "github.com/goshmem/goshmem/rma"

// The fast half does not test alignment. Elements are 4 or 8 bytes long and aligned to their size: blocks begin on
// cache lines, and At and Slice count whole elements. Any other way to make a handle that may be misaligned must make
// it hollow, so that it fails the fast test and check names the cause.

// AtomicFetch returns the first element of x on PE pe.
//
// Each function named Atomic works on one element. It is atomic with respect to every other one, and to waits and
// tests, on elements of the same type, on any PE and context. It is not atomic with respect to puts, and to plain
// stores through Local. A put that was fenced before the store whose value it finds is visible afterwards, as after a
// wait.
//
//   - Completion: on return.
//   - Cost: one load, where the PE is on the same node.
//   - Errors: those of Put, and ErrMisaligned.
//   - Concurrent calls: allowed.
//   - Source: shmem_atomic_fetch.
//
//go:nosplit
func AtomicFetch[T AMOExt](c *Ctx, x Sym[T], pe int) (T, error) {
	if !c.passes(x.tag, pe) {
		return slowAtomic(c, x, 0, pe, &routineAtomicFetch)
	}
	return rma.AtomicLoad[T](c.targetAndMark(pe).At(x.off)), nil
}

// AtomicSet writes v to the first element of x on PE pe.
//
//   - Completion: at the target after Quiet or a barrier.
//   - Cost: one atomic instruction, where the PE is on the same node.
//   - Errors: as AtomicFetch.
//   - Concurrent calls: allowed.
//   - Source: shmem_atomic_set.
//
//go:nosplit
func AtomicSet[T AMOExt](c *Ctx, x Sym[T], v T, pe int) error {
	if !c.passes(x.tag, pe) {
		return slowUpdate(c, x, v, pe, &routineAtomicSet)
	}
	t := c.targetAndMark(pe)
	rma.AtomicStore(t.At(x.off), v)
	t.Ring()
	return nil
}

// AtomicSwap writes v to the first element of x on PE pe and returns what it held.
//
//   - Completion: on return.
//   - Cost: one atomic instruction, where the PE is on the same node.
//   - Errors: as AtomicFetch.
//   - Concurrent calls: allowed.
//   - Source: shmem_atomic_swap.
//
//go:nosplit
func AtomicSwap[T AMOExt](c *Ctx, x Sym[T], v T, pe int) (T, error) {
	if !c.passes(x.tag, pe) {
		return slowAtomic(c, x, v, pe, &routineAtomicSwap)
	}
	t := c.targetAndMark(pe)
	old := rma.AtomicSwap(t.At(x.off), v)
	t.Ring()
	return old, nil
}

// AtomicCompareSwap writes v to the first element of x on PE pe if it holds cond, and returns what it held.
//
//   - Completion: on return.
//   - Cost: one atomic instruction, where the PE is on the same node.
//   - Errors: as AtomicFetch.
//   - Concurrent calls: allowed.
//   - Source: shmem_atomic_compare_swap.
//
//go:nosplit
func AtomicCompareSwap[T AMO](c *Ctx, x Sym[T], cond, v T, pe int) (T, error) {
	if !c.passes(x.tag, pe) {
		return slowCompareSwap(c, x, cond, v, pe, &routineAtomicCompareSwap)
	}
	t := c.targetAndMark(pe)
	old := rma.AtomicCompareSwap(t.At(x.off), cond, v)
	t.Ring()
	return old, nil
}

// AtomicFetchInc adds 1 to the first element of x on PE pe and returns what it held.
//
//   - Completion: on return.
//   - Cost: one atomic instruction, where the PE is on the same node.
//   - Errors: as AtomicFetch.
//   - Concurrent calls: allowed.
//   - Source: shmem_atomic_fetch_inc.
//
//go:nosplit
func AtomicFetchInc[T AMO](c *Ctx, x Sym[T], pe int) (T, error) {
	if !c.passes(x.tag, pe) {
		return slowAtomic(c, x, 1, pe, &routineAtomicFetchInc)
	}
	t := c.targetAndMark(pe)
	old := rma.AtomicAdd(t.At(x.off), T(1))
	t.Ring()
	return old, nil
}

// AtomicInc adds 1 to the first element of x on PE pe.
//
//   - Completion: at the target after Quiet or a barrier.
//   - Cost: one atomic instruction, where the PE is on the same node.
//   - Errors: as AtomicFetch.
//   - Concurrent calls: allowed.
//   - Source: shmem_atomic_inc.
//
//go:nosplit
func AtomicInc[T AMO](c *Ctx, x Sym[T], pe int) error {
	if !c.passes(x.tag, pe) {
		return slowUpdate(c, x, 1, pe, &routineAtomicInc)
	}
	t := c.targetAndMark(pe)
	rma.AtomicAdd(t.At(x.off), T(1))
	t.Ring()
	return nil
}

// AtomicFetchAdd adds v to the first element of x on PE pe and returns what it held.
//
//   - Completion: on return.
//   - Cost: one atomic instruction, where the PE is on the same node.
//   - Errors: as AtomicFetch.
//   - Concurrent calls: allowed.
//   - Source: shmem_atomic_fetch_add.
//
//go:nosplit
func AtomicFetchAdd[T AMO](c *Ctx, x Sym[T], v T, pe int) (T, error) {
	if !c.passes(x.tag, pe) {
		return slowAtomic(c, x, v, pe, &routineAtomicFetchAdd)
	}
	t := c.targetAndMark(pe)
	old := rma.AtomicAdd(t.At(x.off), v)
	t.Ring()
	return old, nil
}

// AtomicAdd adds v to the first element of x on PE pe.
//
//   - Completion: at the target after Quiet or a barrier.
//   - Cost: one atomic instruction, where the PE is on the same node.
//   - Errors: as AtomicFetch.
//   - Concurrent calls: allowed.
//   - Source: shmem_atomic_add.
//
//go:nosplit
func AtomicAdd[T AMO](c *Ctx, x Sym[T], v T, pe int) error {
	if !c.passes(x.tag, pe) {
		return slowUpdate(c, x, v, pe, &routineAtomicAdd)
	}
	t := c.targetAndMark(pe)
	rma.AtomicAdd(t.At(x.off), v)
	t.Ring()
	return nil
}

// AtomicFetchAnd combines v with the first element of x on PE pe by bitwise and and returns what it held.
//
//   - Completion: on return.
//   - Cost: one atomic instruction, where the PE is on the same node.
//   - Errors: as AtomicFetch.
//   - Concurrent calls: allowed.
//   - Source: shmem_atomic_fetch_and.
//
//go:nosplit
func AtomicFetchAnd[T AMOBits](c *Ctx, x Sym[T], v T, pe int) (T, error) {
	if !c.passes(x.tag, pe) {
		return slowAtomic(c, x, v, pe, &routineAtomicFetchAnd)
	}
	t := c.targetAndMark(pe)
	old := rma.AtomicAnd(t.At(x.off), v)
	t.Ring()
	return old, nil
}

// AtomicAnd combines v with the first element of x on PE pe by bitwise and.
//
//   - Completion: at the target after Quiet or a barrier.
//   - Cost: one atomic instruction, where the PE is on the same node.
//   - Errors: as AtomicFetch.
//   - Concurrent calls: allowed.
//   - Source: shmem_atomic_and.
//
//go:nosplit
func AtomicAnd[T AMOBits](c *Ctx, x Sym[T], v T, pe int) error {
	if !c.passes(x.tag, pe) {
		return slowUpdate(c, x, v, pe, &routineAtomicAnd)
	}
	t := c.targetAndMark(pe)
	rma.AtomicAnd(t.At(x.off), v)
	t.Ring()
	return nil
}

// AtomicFetchOr combines v with the first element of x on PE pe by bitwise or and returns what it held.
//
//   - Completion: on return.
//   - Cost: one atomic instruction, where the PE is on the same node.
//   - Errors: as AtomicFetch.
//   - Concurrent calls: allowed.
//   - Source: shmem_atomic_fetch_or.
//
//go:nosplit
func AtomicFetchOr[T AMOBits](c *Ctx, x Sym[T], v T, pe int) (T, error) {
	if !c.passes(x.tag, pe) {
		return slowAtomic(c, x, v, pe, &routineAtomicFetchOr)
	}
	t := c.targetAndMark(pe)
	old := rma.AtomicOr(t.At(x.off), v)
	t.Ring()
	return old, nil
}

// AtomicOr combines v with the first element of x on PE pe by bitwise or.
//
//   - Completion: at the target after Quiet or a barrier.
//   - Cost: one atomic instruction, where the PE is on the same node.
//   - Errors: as AtomicFetch.
//   - Concurrent calls: allowed.
//   - Source: shmem_atomic_or.
//
//go:nosplit
func AtomicOr[T AMOBits](c *Ctx, x Sym[T], v T, pe int) error {
	if !c.passes(x.tag, pe) {
		return slowUpdate(c, x, v, pe, &routineAtomicOr)
	}
	t := c.targetAndMark(pe)
	rma.AtomicOr(t.At(x.off), v)
	t.Ring()
	return nil
}

// AtomicFetchXor combines v with the first element of x on PE pe by bitwise xor and returns what it held.
//
//   - Completion: on return.
//   - Cost: a loop around one atomic instruction, where the PE is on the same node.
//   - Errors: as AtomicFetch.
//   - Concurrent calls: allowed.
//   - Source: shmem_atomic_fetch_xor.
//
//go:nosplit
func AtomicFetchXor[T AMOBits](c *Ctx, x Sym[T], v T, pe int) (T, error) {
	if !c.passes(x.tag, pe) {
		return slowAtomic(c, x, v, pe, &routineAtomicFetchXor)
	}
	t := c.targetAndMark(pe)
	old := rma.AtomicXor(t.At(x.off), v)
	t.Ring()
	return old, nil
}

// AtomicXor combines v with the first element of x on PE pe by bitwise xor.
//
//   - Completion: at the target after Quiet or a barrier.
//   - Cost: a loop around one atomic instruction, where the PE is on the same node.
//   - Errors: as AtomicFetch.
//   - Concurrent calls: allowed.
//   - Source: shmem_atomic_xor.
//
//go:nosplit
func AtomicXor[T AMOBits](c *Ctx, x Sym[T], v T, pe int) error {
	if !c.passes(x.tag, pe) {
		return slowUpdate(c, x, v, pe, &routineAtomicXor)
	}
	t := c.targetAndMark(pe)
	rma.AtomicXor(t.At(x.off), v)
	t.Ring()
	return nil
}
