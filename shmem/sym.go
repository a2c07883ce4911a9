package shmem

import (
	"unsafe"

	"github.com/goshmem/goshmem/symheap/layout"
)

// Sym is a handle of a symmetric object: n elements of type T on every PE. It is a value that may be copied, compared
// and kept anywhere, but it means nothing to another process. It is three words without a pointer, so it is passed in
// registers. A pointer in it would be stored to memory, for the garbage collector.
type Sym[T any] struct {
	of  [0]*T  //nolint:unused // prevents conversion to a handle of another type, for which n would be wrong
	off uint64 // offset in every segment; in a poisoned handle, the bad index
	n   int    // number of elements; -1-n if poisoned by a bad index into n elements; badField
	tag uint64 // see heap.go: world, slot and generation of the block; hollow unless n > 0
}

// ref returns the handle without its type.
func (x Sym[T]) ref() ref { return ref{off: x.off, n: x.n, tag: x.tag} }

// alignedRef is ref for operations that need the element aligned to its size.
func (x Sym[T]) alignedRef() ref { return ref{off: x.off, n: x.n, tag: x.tag, size: sizeOf[T]()} }

// Len returns the number of elements, or 0 for a handle that At or Slice made out of range.
func (x Sym[T]) Len() int { return max(x.n, 0) }

// At returns the handle of element i alone. If i is out of range, use of the handle fails with ErrBounds.
func (x Sym[T]) At(i int) Sym[T] {
	if uint(i) >= uint(max(x.n, 0)) {
		return x.poison(i)
	}
	return Sym[T]{off: x.off + uint64(i)*sizeOf[T](), n: 1, tag: x.tag}
}

// Slice returns the handle of elements i to j-1. If these are out of range, use of the handle fails with ErrBounds.
func (x Sym[T]) Slice(i, j int) Sym[T] {
	if i < 0 || i > j || j > x.n {
		if i >= 0 && i <= max(x.n, 0) {
			i = j
		}
		return x.poison(i)
	}
	y := Sym[T]{off: x.off + uint64(i)*sizeOf[T](), n: j - i, tag: x.tag}
	if y.n == 0 {
		y.tag |= hollow
	}
	return y
}

// poison returns the handle marked as made with a bad index i. A handle that is poisoned already stays as it is, so
// that the first mistake is reported.
func (x Sym[T]) poison(i int) Sym[T] {
	if x.n < 0 {
		return x
	}
	return Sym[T]{off: uint64(i), n: -1 - x.n, tag: x.tag | hollow}
}

// Bits64 returns the handle of the same elements as unsigned integers of 64 bits, for atomic operations that T does not
// have. So a compare-and-swap changes a floating-point number (math.Float64bits). These operations and those on x are
// atomic with respect to each other. If an element of x does not have 8 bytes, Bits64 returns the zero handle.
func Bits64[T AMOExt](x Sym[T]) Sym[uint64] {
	if sizeOf[T]() != 8 {
		return Sym[uint64]{}
	}
	return Sym[uint64]{off: x.off, n: x.n, tag: x.tag}
}

// Bits32 is Bits64 for elements of 4 bytes.
func Bits32[T AMOExt](x Sym[T]) Sym[uint32] {
	if sizeOf[T]() != 4 {
		return Sym[uint32]{}
	}
	return Sym[uint32]{off: x.off, n: x.n, tag: x.tag}
}

// Local returns this PE's copy of the object as a slice of mapped memory, or nil for a handle that is not usable. The
// slice belongs to the object until that is freed. The memory stays valid as long as the process lives.
//
// Plain loads and stores of it are not ordered with respect to other PEs' operations: see Ordering in the package
// documentation.
func (x Sym[T]) Local() []T {
	h := currentHeap.Load()
	if h == nil {
		return nil
	}
	s, _ := peerSlice(h, x, h.me)
	return s
}

// Peer returns PE pe's copy of the object as a slice. It returns false if the PE is known to be dead or cannot be
// reached by loads and stores (it is on another node), and if the handle or pe is not usable.
//
//   - Source: shmem_ptr.
func (x Sym[T]) Peer(pe int) ([]T, bool) {
	h := currentHeap.Load()
	if h == nil {
		return nil, false
	}
	return peerSlice(h, x, layout.PE(pe))
}

// peerSlice is Peer, for a PE of the world. pe may be out of range.
func peerSlice[T any](h *heap, x Sym[T], pe layout.PE) ([]T, bool) {
	local, near := h.job.Place.Local(pe)
	if !near || !tagIsLive(h.tags, x.tag) && (!h.isLive(x.tag) || h.isDead(pe)) {
		return nil, false
	}
	*h.mark = 1
	p := unsafe.Add(h.job.Map.Segment(local), int(x.off))
	return unsafe.Slice((*T)(p), x.n), true
}
