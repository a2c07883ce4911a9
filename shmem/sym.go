package shmem

import (
	"unsafe"

	"github.com/goshmem/goshmem/symheap/layout"
)

// Sym is a handle of a symmetric object: n elements of type T on every PE. It
// is a value that may be copied, compared and kept anywhere, but means nothing
// to another process. It is three words and no pointer: it is passed in registers,
// which a pointer would be stored from in case of a garbage collection.
type Sym[T any] struct {
	of  [0]*T  //nolint:unused // so that it converts to no handle of another type: its n would not be right
	off uint64 // from the start of a segment; of a poisoned handle, the bad index
	n   int    // elements; -1-n: made by At or Slice out of range of n elements; badField
	tag uint64 // world, slot and generation of the block; hollow unless n > 0
}

func (x Sym[T]) ref() ref { return ref{off: x.off, n: x.n, tag: x.tag} }

// aligned is ref for operations that need the element aligned to its size.
func (x Sym[T]) aligned() ref { return ref{off: x.off, n: x.n, tag: x.tag, size: sizeOf[T]()} }

// Len returns the number of elements, 0 for a handle that At or Slice made
// out of range.
func (x Sym[T]) Len() int { return max(x.n, 0) }

// At returns the handle of element i alone. Out of range it returns a handle
// whose use fails with ErrBounds.
func (x Sym[T]) At(i int) Sym[T] {
	if uint(i) >= uint(max(x.n, 0)) {
		return x.poisoned(i)
	}
	return Sym[T]{off: x.off + uint64(i)*sizeOf[T](), n: 1, tag: x.tag}
}

// Slice returns the handle of elements i to j-1. Out of range it returns a
// handle whose use fails with ErrBounds.
func (x Sym[T]) Slice(i, j int) Sym[T] {
	if i < 0 || i > j || j > x.n {
		if i >= 0 && i <= max(x.n, 0) {
			i = j
		}
		return x.poisoned(i)
	}
	y := Sym[T]{off: x.off + uint64(i)*sizeOf[T](), n: j - i, tag: x.tag}
	if y.n == 0 {
		y.tag |= hollow
	}
	return y
}

// poisoned marks a handle as made with a bad index; a poisoned one stays as it
// is, so that the first mistake is reported.
func (x Sym[T]) poisoned(i int) Sym[T] {
	if x.n < 0 {
		return x
	}
	return Sym[T]{off: uint64(i), n: -1 - x.n, tag: x.tag | hollow}
}

// Local returns this PE's copy of the object as a slice of the mapped heap, or
// nil for a handle that is not usable. It is valid memory as long as the
// process lives, and the object's until it is freed.
//
// Plain loads and stores of it are not ordered with what other PEs do: see the
// package documentation.
func (x Sym[T]) Local() []T {
	h := mapped.Load()
	if h == nil {
		return nil
	}
	s, _ := peer(h, x, h.me)
	return s
}

// Peer returns PE pe's copy of the object as a slice, and false if it cannot
// be reached by loads and stores (it is on another node), the PE is known to be
// dead, or the handle or PE is not usable.
//
//   - Source: shmem_ptr.
func (x Sym[T]) Peer(pe int) ([]T, bool) {
	h := mapped.Load()
	if h == nil {
		return nil, false
	}
	return peer(h, x, layout.PE(pe))
}

// peer returns the object on a PE of the world, and false for a far PE and for a number of no PE.
func peer[T any](h *heap, x Sym[T], pe layout.PE) ([]T, bool) {
	local, near := h.job.Place.Local(pe)
	if !near || !live(h.tags, x.tag) && (!h.liveNow(x.tag) || h.dead(pe)) {
		return nil, false
	}
	*h.mark = 1
	p := unsafe.Add(h.job.Map.Segment(local), int(x.off))
	return unsafe.Slice((*T)(p), x.n), true
}
