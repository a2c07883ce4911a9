package shmem

import "github.com/goshmem/goshmem/rma"

// AtomicFetchNBI is AtomicFetch that may return before the element was read: Wait returns its value. Fence does not
// order the read.
//
//   - Completion: after Wait, Quiet or a barrier.
//   - Cost: as AtomicFetch, where the PE is on the same node.
//   - Errors: as AtomicFetch.
//   - Concurrent calls: allowed.
//   - Source: shmem_atomic_fetch_nbi.
//
//go:nosplit
func AtomicFetchNBI[T AMOExt](c *Ctx, x Sym[T], pe int) (Pending[T], error) {
	if !c.passes(x.tag, pe) {
		return slowAtomicNBI(c, x, 0, pe, &routineAtomicFetchNBI)
	}
	return Pending[T]{of: &c.origin, value: rma.AtomicLoad[T](c.targetAndMark(pe).At(x.off))}, nil
}

// AtomicSwapNBI is AtomicSwap that may return before the operation was performed: Wait returns what the element held.
// Fence does not order the fetch.
//
//   - Completion: of both ends after Wait, Quiet or a barrier.
//   - Cost: as AtomicSwap, where the PE is on the same node.
//   - Errors: as AtomicFetch.
//   - Concurrent calls: allowed.
//   - Source: shmem_atomic_swap_nbi.
//
//go:nosplit
func AtomicSwapNBI[T AMOExt](c *Ctx, x Sym[T], v T, pe int) (Pending[T], error) {
	if !c.passes(x.tag, pe) {
		return slowAtomicNBI(c, x, v, pe, &routineAtomicSwapNBI)
	}
	t := c.targetAndMark(pe)
	old := rma.AtomicSwap(t.At(x.off), v)
	t.Ring()
	return Pending[T]{of: &c.origin, value: old}, nil
}

// AtomicCompareSwapNBI is AtomicCompareSwap that may return before the operation was performed: Wait returns what the
// element held. Fence does not order the fetch.
//
//   - Completion: of both ends after Wait, Quiet or a barrier.
//   - Cost: as AtomicCompareSwap, where the PE is on the same node.
//   - Errors: as AtomicFetch.
//   - Concurrent calls: allowed.
//   - Source: shmem_atomic_compare_swap_nbi.
//
//go:nosplit
func AtomicCompareSwapNBI[T AMO](c *Ctx, x Sym[T], cond, v T, pe int) (Pending[T], error) {
	if !c.passes(x.tag, pe) {
		return slowCompareSwapNBI(c, x, cond, v, pe)
	}
	t := c.targetAndMark(pe)
	old := rma.AtomicCompareSwap(t.At(x.off), cond, v)
	t.Ring()
	return Pending[T]{of: &c.origin, value: old}, nil
}

// AtomicFetchIncNBI is AtomicFetchInc that may return before the operation was performed: Wait returns what the
// element held. Fence does not order the fetch.
//
//   - Completion: of both ends after Wait, Quiet or a barrier.
//   - Cost: as AtomicFetchInc, where the PE is on the same node.
//   - Errors: as AtomicFetch.
//   - Concurrent calls: allowed.
//   - Source: shmem_atomic_fetch_inc_nbi.
//
//go:nosplit
func AtomicFetchIncNBI[T AMO](c *Ctx, x Sym[T], pe int) (Pending[T], error) {
	if !c.passes(x.tag, pe) {
		return slowAtomicNBI(c, x, 1, pe, &routineAtomicFetchIncNBI)
	}
	t := c.targetAndMark(pe)
	old := rma.AtomicAdd(t.At(x.off), T(1))
	t.Ring()
	return Pending[T]{of: &c.origin, value: old}, nil
}

// AtomicFetchAddNBI is AtomicFetchAdd that may return before the operation was performed: Wait returns what the
// element held. Fence does not order the fetch.
//
//   - Completion: of both ends after Wait, Quiet or a barrier.
//   - Cost: as AtomicFetchAdd, where the PE is on the same node.
//   - Errors: as AtomicFetch.
//   - Concurrent calls: allowed.
//   - Source: shmem_atomic_fetch_add_nbi.
//
//go:nosplit
func AtomicFetchAddNBI[T AMO](c *Ctx, x Sym[T], v T, pe int) (Pending[T], error) {
	if !c.passes(x.tag, pe) {
		return slowAtomicNBI(c, x, v, pe, &routineAtomicFetchAddNBI)
	}
	t := c.targetAndMark(pe)
	old := rma.AtomicAdd(t.At(x.off), v)
	t.Ring()
	return Pending[T]{of: &c.origin, value: old}, nil
}

// AtomicFetchAndNBI is AtomicFetchAnd that may return before the operation was performed: Wait returns what the
// element held. Fence does not order the fetch.
//
//   - Completion: of both ends after Wait, Quiet or a barrier.
//   - Cost: as AtomicFetchAnd, where the PE is on the same node.
//   - Errors: as AtomicFetch.
//   - Concurrent calls: allowed.
//   - Source: shmem_atomic_fetch_and_nbi.
//
//go:nosplit
func AtomicFetchAndNBI[T AMOBits](c *Ctx, x Sym[T], v T, pe int) (Pending[T], error) {
	if !c.passes(x.tag, pe) {
		return slowAtomicNBI(c, x, v, pe, &routineAtomicFetchAndNBI)
	}
	t := c.targetAndMark(pe)
	old := rma.AtomicAnd(t.At(x.off), v)
	t.Ring()
	return Pending[T]{of: &c.origin, value: old}, nil
}

// AtomicFetchOrNBI is AtomicFetchOr that may return before the operation was performed: Wait returns what the element
// held. Fence does not order the fetch.
//
//   - Completion: of both ends after Wait, Quiet or a barrier.
//   - Cost: as AtomicFetchOr, where the PE is on the same node.
//   - Errors: as AtomicFetch.
//   - Concurrent calls: allowed.
//   - Source: shmem_atomic_fetch_or_nbi.
//
//go:nosplit
func AtomicFetchOrNBI[T AMOBits](c *Ctx, x Sym[T], v T, pe int) (Pending[T], error) {
	if !c.passes(x.tag, pe) {
		return slowAtomicNBI(c, x, v, pe, &routineAtomicFetchOrNBI)
	}
	t := c.targetAndMark(pe)
	old := rma.AtomicOr(t.At(x.off), v)
	t.Ring()
	return Pending[T]{of: &c.origin, value: old}, nil
}

// AtomicFetchXorNBI is AtomicFetchXor that may return before the operation was performed: Wait returns what the
// element held. Fence does not order the fetch.
//
//   - Completion: of both ends after Wait, Quiet or a barrier.
//   - Cost: as AtomicFetchXor, where the PE is on the same node.
//   - Errors: as AtomicFetch.
//   - Concurrent calls: allowed.
//   - Source: shmem_atomic_fetch_xor_nbi.
//
//go:nosplit
func AtomicFetchXorNBI[T AMOBits](c *Ctx, x Sym[T], v T, pe int) (Pending[T], error) {
	if !c.passes(x.tag, pe) {
		return slowAtomicNBI(c, x, v, pe, &routineAtomicFetchXorNBI)
	}
	t := c.targetAndMark(pe)
	old := rma.AtomicXor(t.At(x.off), v)
	t.Ring()
	return Pending[T]{of: &c.origin, value: old}, nil
}
