package shmem

import (
	"unsafe"

	"github.com/goshmem/goshmem/rma"
)

// Every function here works on the first element of x on PE pe, atomically
// with respect to all others of them and to WaitUntil and Test on elements of
// the same type. Fetching ones return what the element held before.
//
// Completion: fetching ones on return, the others at the target after Quiet or
// a barrier.
// Cost: one atomic instruction, where the PE is on the same node; xor: a loop.
// Errors: those of Put, and ErrMisaligned.
// Concurrent calls: allowed.

// atom is the test that every atomic operation makes of its arguments: those
// of ok, an element at least, and that it is aligned to its size.
func atom[T any](c *Ctx, x Sym[T], pe int) bool {
	var z T // sizeOf here would load its dictionary
	return c.ok(x.h, x.tag, pe) && x.n >= 1 && x.off&(uint64(unsafe.Sizeof(z))-1) == 0
}

// AtomicFetch returns the element.
//
// Source: shmem_atomic_fetch.
func AtomicFetch[T AMOExt](c *Ctx, x Sym[T], pe int) (T, error) {
	if !atom(c, x, pe) {
		return *new(T), c.check("AtomicFetch", x.aligned(), 1, pe)
	}
	return rma.AtomicLoad[T](c.path.To(pe).At(x.off)), nil
}

// AtomicSet writes v to the element.
//
// Source: shmem_atomic_set.
func AtomicSet[T AMOExt](c *Ctx, x Sym[T], v T, pe int) error {
	if !atom(c, x, pe) {
		return c.check("AtomicSet", x.aligned(), 1, pe)
	}
	t := c.path.To(pe)
	rma.AtomicStore(t.At(x.off), v)
	t.Ring()
	return nil
}

// AtomicSwap writes v to the element and returns what it held.
//
// Source: shmem_atomic_swap.
func AtomicSwap[T AMOExt](c *Ctx, x Sym[T], v T, pe int) (T, error) {
	if !atom(c, x, pe) {
		return *new(T), c.check("AtomicSwap", x.aligned(), 1, pe)
	}
	t := c.path.To(pe)
	old := rma.AtomicSwap(t.At(x.off), v)
	t.Ring()
	return old, nil
}

// AtomicCompareSwap writes v to the element if it holds cond, and returns what it held.
//
// Source: shmem_atomic_compare_swap.
func AtomicCompareSwap[T AMO](c *Ctx, x Sym[T], cond, v T, pe int) (T, error) {
	if !atom(c, x, pe) {
		return *new(T), c.check("AtomicCompareSwap", x.aligned(), 1, pe)
	}
	t := c.path.To(pe)
	old := rma.AtomicCompareSwap(t.At(x.off), cond, v)
	t.Ring()
	return old, nil
}

// AtomicFetchInc adds 1 to the element and returns what it held.
//
// Source: shmem_atomic_fetch_inc.
func AtomicFetchInc[T AMO](c *Ctx, x Sym[T], pe int) (T, error) {
	if !atom(c, x, pe) {
		return *new(T), c.check("AtomicFetchInc", x.aligned(), 1, pe)
	}
	t := c.path.To(pe)
	old := rma.AtomicAdd(t.At(x.off), T(1))
	t.Ring()
	return old, nil
}

// AtomicInc adds 1 to the element.
//
// Source: shmem_atomic_inc.
func AtomicInc[T AMO](c *Ctx, x Sym[T], pe int) error {
	if !atom(c, x, pe) {
		return c.check("AtomicInc", x.aligned(), 1, pe)
	}
	t := c.path.To(pe)
	rma.AtomicAdd(t.At(x.off), T(1))
	t.Ring()
	return nil
}

// AtomicFetchAdd adds v to the element and returns what it held.
//
// Source: shmem_atomic_fetch_add.
func AtomicFetchAdd[T AMO](c *Ctx, x Sym[T], v T, pe int) (T, error) {
	if !atom(c, x, pe) {
		return *new(T), c.check("AtomicFetchAdd", x.aligned(), 1, pe)
	}
	t := c.path.To(pe)
	old := rma.AtomicAdd(t.At(x.off), v)
	t.Ring()
	return old, nil
}

// AtomicAdd adds v to the element.
//
// Source: shmem_atomic_add.
func AtomicAdd[T AMO](c *Ctx, x Sym[T], v T, pe int) error {
	if !atom(c, x, pe) {
		return c.check("AtomicAdd", x.aligned(), 1, pe)
	}
	t := c.path.To(pe)
	rma.AtomicAdd(t.At(x.off), v)
	t.Ring()
	return nil
}

// AtomicFetchAnd combines v with the element by bitwise and and returns what it held.
//
// Source: shmem_atomic_fetch_and.
func AtomicFetchAnd[T AMOBits](c *Ctx, x Sym[T], v T, pe int) (T, error) {
	if !atom(c, x, pe) {
		return *new(T), c.check("AtomicFetchAnd", x.aligned(), 1, pe)
	}
	t := c.path.To(pe)
	old := rma.AtomicAnd(t.At(x.off), v)
	t.Ring()
	return old, nil
}

// AtomicAnd combines v with the element by bitwise and.
//
// Source: shmem_atomic_and.
func AtomicAnd[T AMOBits](c *Ctx, x Sym[T], v T, pe int) error {
	if !atom(c, x, pe) {
		return c.check("AtomicAnd", x.aligned(), 1, pe)
	}
	t := c.path.To(pe)
	rma.AtomicAnd(t.At(x.off), v)
	t.Ring()
	return nil
}

// AtomicFetchOr combines v with the element by bitwise or and returns what it held.
//
// Source: shmem_atomic_fetch_or.
func AtomicFetchOr[T AMOBits](c *Ctx, x Sym[T], v T, pe int) (T, error) {
	if !atom(c, x, pe) {
		return *new(T), c.check("AtomicFetchOr", x.aligned(), 1, pe)
	}
	t := c.path.To(pe)
	old := rma.AtomicOr(t.At(x.off), v)
	t.Ring()
	return old, nil
}

// AtomicOr combines v with the element by bitwise or.
//
// Source: shmem_atomic_or.
func AtomicOr[T AMOBits](c *Ctx, x Sym[T], v T, pe int) error {
	if !atom(c, x, pe) {
		return c.check("AtomicOr", x.aligned(), 1, pe)
	}
	t := c.path.To(pe)
	rma.AtomicOr(t.At(x.off), v)
	t.Ring()
	return nil
}

// AtomicFetchXor combines v with the element by bitwise xor and returns what it held.
//
// Source: shmem_atomic_fetch_xor.
func AtomicFetchXor[T AMOBits](c *Ctx, x Sym[T], v T, pe int) (T, error) {
	if !atom(c, x, pe) {
		return *new(T), c.check("AtomicFetchXor", x.aligned(), 1, pe)
	}
	t := c.path.To(pe)
	old := rma.AtomicXor(t.At(x.off), v)
	t.Ring()
	return old, nil
}

// AtomicXor combines v with the element by bitwise xor.
//
// Source: shmem_atomic_xor.
func AtomicXor[T AMOBits](c *Ctx, x Sym[T], v T, pe int) error {
	if !atom(c, x, pe) {
		return c.check("AtomicXor", x.aligned(), 1, pe)
	}
	t := c.path.To(pe)
	rma.AtomicXor(t.At(x.off), v)
	t.Ring()
	return nil
}
