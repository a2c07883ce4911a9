package rma

import (
	"unsafe"

	"github.com/goshmem/goshmem/symheap/layout"
)

// Target is one PE's segment as an operation sees it: the address is computed once, and the
// compiler keeps it in a register.
type Target struct{ Segment unsafe.Pointer }

// At returns the address of offset off.
func (t Target) At(off uint64) unsafe.Pointer { return unsafe.Add(t.Segment, int(off)) }

// Ring ends an operation that wrote into the segment: it wakes the owner if it
// sleeps. It has one slow path and one branch, so that it is put in line: a
// comparison of the bell with 0, at a distance from the segment's start that is a
// constant.
func (t Target) Ring() {
	if peek((*uint32)(unsafe.Add(t.Segment, layout.BellOffset))) != 0 {
		ring((*layout.Bell)(unsafe.Add(t.Segment, layout.BellOffset)))
	}
}

// One copies one element, of 1, 2, 4 or 8 bytes by one load and one store: of a structure,
// the compiler would copy field by field. It is called where its type is an argument of
// the caller, so that it is put in line without a look at a dictionary.
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
