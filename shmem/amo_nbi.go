package shmem

import "github.com/goshmem/goshmem/rma"

// AtomicFetchNBI is AtomicFetch that may return before the element was read: its value is
// to be had by Wait. Fence does not order when it is read.
//
//   - Completion: after Wait, Quiet or a barrier.
//   - Cost: as AtomicFetch, where the PE is on the same node.
//   - Errors: as AtomicFetch.
//   - Concurrent calls: allowed.
//   - Source: shmem_atomic_fetch_nbi.
//
//go:nosplit
func AtomicFetchNBI[T AMOExt](c *Ctx, x Sym[T], pe int) (Pending[T], error) {
	if !c.ok(x.tag, pe) {
		return slowFetchNBI(c, "AtomicFetchNBI", x, pe, AtomicFetch[T])
	}
	return Pending[T]{c: c, v: rma.AtomicLoad[T](c.path.To(pe).At(x.off))}, nil
}

// AtomicSwapNBI is AtomicSwap that may return before the operation was made: what the
// element held is to be had by Wait. Fence does not order when that is fetched.
//
//   - Completion: of both ends after Wait, Quiet or a barrier.
//   - Cost: as AtomicSwap, where the PE is on the same node.
//   - Errors: as AtomicFetch.
//   - Concurrent calls: allowed.
//   - Source: shmem_atomic_swap_nbi.
//
//go:nosplit
func AtomicSwapNBI[T AMOExt](c *Ctx, x Sym[T], v T, pe int) (Pending[T], error) {
	if !c.ok(x.tag, pe) {
		return slowSwapNBI(c, "AtomicSwapNBI", x, v, pe, AtomicSwap[T])
	}
	t := c.path.To(pe)
	old := rma.AtomicSwap(t.At(x.off), v)
	t.Ring()
	return Pending[T]{c: c, v: old}, nil
}

// AtomicCompareSwapNBI is AtomicCompareSwap that may return before the operation was made: what the
// element held is to be had by Wait. Fence does not order when that is fetched.
//
//   - Completion: of both ends after Wait, Quiet or a barrier.
//   - Cost: as AtomicCompareSwap, where the PE is on the same node.
//   - Errors: as AtomicFetch.
//   - Concurrent calls: allowed.
//   - Source: shmem_atomic_compare_swap_nbi.
//
//go:nosplit
func AtomicCompareSwapNBI[T AMO](c *Ctx, x Sym[T], cond, v T, pe int) (Pending[T], error) {
	if !c.ok(x.tag, pe) {
		return slowCompareSwapNBI(c, x, cond, v, pe)
	}
	t := c.path.To(pe)
	old := rma.AtomicCompareSwap(t.At(x.off), cond, v)
	t.Ring()
	return Pending[T]{c: c, v: old}, nil
}

// AtomicFetchIncNBI is AtomicFetchInc that may return before the operation was made: what the
// element held is to be had by Wait. Fence does not order when that is fetched.
//
//   - Completion: of both ends after Wait, Quiet or a barrier.
//   - Cost: as AtomicFetchInc, where the PE is on the same node.
//   - Errors: as AtomicFetch.
//   - Concurrent calls: allowed.
//   - Source: shmem_atomic_fetch_inc_nbi.
//
//go:nosplit
func AtomicFetchIncNBI[T AMO](c *Ctx, x Sym[T], pe int) (Pending[T], error) {
	if !c.ok(x.tag, pe) {
		return slowFetchNBI(c, "AtomicFetchIncNBI", x, pe, AtomicFetchInc[T])
	}
	t := c.path.To(pe)
	old := rma.AtomicAdd(t.At(x.off), T(1))
	t.Ring()
	return Pending[T]{c: c, v: old}, nil
}

// AtomicFetchAddNBI is AtomicFetchAdd that may return before the operation was made: what the
// element held is to be had by Wait. Fence does not order when that is fetched.
//
//   - Completion: of both ends after Wait, Quiet or a barrier.
//   - Cost: as AtomicFetchAdd, where the PE is on the same node.
//   - Errors: as AtomicFetch.
//   - Concurrent calls: allowed.
//   - Source: shmem_atomic_fetch_add_nbi.
//
//go:nosplit
func AtomicFetchAddNBI[T AMO](c *Ctx, x Sym[T], v T, pe int) (Pending[T], error) {
	if !c.ok(x.tag, pe) {
		return slowSwapNBI(c, "AtomicFetchAddNBI", x, v, pe, AtomicFetchAdd[T])
	}
	t := c.path.To(pe)
	old := rma.AtomicAdd(t.At(x.off), v)
	t.Ring()
	return Pending[T]{c: c, v: old}, nil
}

// AtomicFetchAndNBI is AtomicFetchAnd that may return before the operation was made: what the
// element held is to be had by Wait. Fence does not order when that is fetched.
//
//   - Completion: of both ends after Wait, Quiet or a barrier.
//   - Cost: as AtomicFetchAnd, where the PE is on the same node.
//   - Errors: as AtomicFetch.
//   - Concurrent calls: allowed.
//   - Source: shmem_atomic_fetch_and_nbi.
//
//go:nosplit
func AtomicFetchAndNBI[T AMOBits](c *Ctx, x Sym[T], v T, pe int) (Pending[T], error) {
	if !c.ok(x.tag, pe) {
		return slowSwapNBI(c, "AtomicFetchAndNBI", x, v, pe, AtomicFetchAnd[T])
	}
	t := c.path.To(pe)
	old := rma.AtomicAnd(t.At(x.off), v)
	t.Ring()
	return Pending[T]{c: c, v: old}, nil
}

// AtomicFetchOrNBI is AtomicFetchOr that may return before the operation was made: what the
// element held is to be had by Wait. Fence does not order when that is fetched.
//
//   - Completion: of both ends after Wait, Quiet or a barrier.
//   - Cost: as AtomicFetchOr, where the PE is on the same node.
//   - Errors: as AtomicFetch.
//   - Concurrent calls: allowed.
//   - Source: shmem_atomic_fetch_or_nbi.
//
//go:nosplit
func AtomicFetchOrNBI[T AMOBits](c *Ctx, x Sym[T], v T, pe int) (Pending[T], error) {
	if !c.ok(x.tag, pe) {
		return slowSwapNBI(c, "AtomicFetchOrNBI", x, v, pe, AtomicFetchOr[T])
	}
	t := c.path.To(pe)
	old := rma.AtomicOr(t.At(x.off), v)
	t.Ring()
	return Pending[T]{c: c, v: old}, nil
}

// AtomicFetchXorNBI is AtomicFetchXor that may return before the operation was made: what the
// element held is to be had by Wait. Fence does not order when that is fetched.
//
//   - Completion: of both ends after Wait, Quiet or a barrier.
//   - Cost: as AtomicFetchXor, where the PE is on the same node.
//   - Errors: as AtomicFetch.
//   - Concurrent calls: allowed.
//   - Source: shmem_atomic_fetch_xor_nbi.
//
//go:nosplit
func AtomicFetchXorNBI[T AMOBits](c *Ctx, x Sym[T], v T, pe int) (Pending[T], error) {
	if !c.ok(x.tag, pe) {
		return slowSwapNBI(c, "AtomicFetchXorNBI", x, v, pe, AtomicFetchXor[T])
	}
	t := c.path.To(pe)
	old := rma.AtomicXor(t.At(x.off), v)
	t.Ring()
	return Pending[T]{c: c, v: old}, nil
}

// pending is the end of a slow path: the result of the blocking operation.
func pending[T any](c *Ctx, v T, err error) (Pending[T], error) {
	if err != nil {
		return Pending[T]{}, err
	}
	return Pending[T]{c: c, v: v}, nil
}

//go:noinline
func slowFetchNBI[T AMOExt](c *Ctx, op string, x Sym[T], pe int, f func(*Ctx, Sym[T], int) (T, error)) (Pending[T], error) {
	v, err := slowFetch(c, op, x, pe, f)
	return pending(c, v, err)
}

//go:noinline
func slowSwapNBI[T AMOExt](c *Ctx, op string, x Sym[T], v T, pe int, f func(*Ctx, Sym[T], T, int) (T, error)) (Pending[T], error) {
	old, err := slowSwap(c, op, x, v, pe, f)
	return pending(c, old, err)
}

//go:noinline
func slowCompareSwapNBI[T AMO](c *Ctx, x Sym[T], cond, v T, pe int) (Pending[T], error) {
	again, err := c.careful("AtomicCompareSwapNBI", x.aligned(), 1, pe)
	if again == nil {
		return Pending[T]{}, err
	}
	old, err := AtomicCompareSwap(again, x, cond, v, pe)
	return pending(c, old, err)
}
