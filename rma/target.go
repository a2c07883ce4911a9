package rma

import (
	"unsafe"

	"github.com/goshmem/goshmem/symheap/layout"
)

// Target is one PE's segment. An operation computes its address once, and the compiler keeps it in a register.
type Target struct{ Segment unsafe.Pointer }

// At returns the address of offset off.
func (t Target) At(off uint64) unsafe.Pointer { return unsafe.Add(t.Segment, int(off)) }

// Ring ends an operation that wrote into the segment: it wakes the owner if the owner sleeps. It is small
// enough to be inlined: one comparison of the bell with 0, at a constant offset in the segment, and one
// branch to the slow path.
func (t Target) Ring() {
	if peek((*uint32)(unsafe.Add(t.Segment, layout.BellOffset))) != 0 {
		ring((*layout.Bell)(unsafe.Add(t.Segment, layout.BellOffset)))
	}
}

// One copies one element. An element of 1, 2, 4 or 8 bytes is copied by one load and one store; the compiler
// would copy a struct field by field. Callers pass their own type argument, so that One is inlined without a
// dictionary.
func One[T any](dst, src unsafe.Pointer) {
	switch unsafe.Sizeof(*new(T)) {
	case 8:
		*(*uint64)(dst) = *(*uint64)(src)
	case 4:
		*(*uint32)(dst) = *(*uint32)(src)
	case 2:
		*(*uint16)(dst) = *(*uint16)(src)
	default:
		*(*T)(dst) = *(*T)(src)
	}
}
