package shmem

import (
	"math"
	"unsafe"
)

// Field names one field of structs of type S that are the elements of symmetric objects. F is the type of the field.
// A Field is a value without a pointer. Programs declare one per field as a package variable:
//
//	type vertex struct {
//		Degree  int64
//		Visited uint64
//	}
//
//	var visited = shmem.FieldOf(func(v *vertex) *uint64 { return &v.Visited })
//
//	old, err := shmem.AtomicFetchOr(c, visited.At(vertices, i), bit, pe)
//
// The zero Field names no field. Handles made by it fail at their first use with ErrArgument.
type Field[S, F any] struct {
	at  uintptr // bytes from the start of an S
	set bool    // FieldOf made this, and its function returned an address within its argument
}

// badField is the length n of a handle made by a Field that names no field.
const badField = math.MinInt

// FieldOf returns the field whose address at returns. It calls at once, with a zero S of its own, so using the Field
// costs no call. at may name a field of a field, or an element of an array at a constant index. If at returns an
// address outside its argument, handles of the Field fail at their first use with ErrArgument.
func FieldOf[S, F any](at func(s *S) *F) Field[S, F] {
	s := new(S)
	offset := uintptr(unsafe.Pointer(at(s))) - uintptr(unsafe.Pointer(s))
	within := offset <= unsafe.Sizeof(*s) && unsafe.Sizeof(*new(F)) <= unsafe.Sizeof(*s)-offset
	return Field[S, F]{at: offset, set: within}
}

// At returns the handle of the field in element i of x: one element of type F, for atomics, waits, signals, P and G.
// If i is out of range, use of the handle fails with ErrBounds.
//
//   - Cost: two additions and a multiplication.
func (f Field[S, F]) At(x Sym[S], i int) Sym[F] {
	if !f.set {
		return Sym[F]{n: badField, tag: x.tag | hollow}
	}
	element := x.At(i)
	if element.n < 0 {
		return Sym[F]{off: element.off, n: element.n, tag: element.tag}
	}
	return Sym[F]{off: element.off + uint64(f.at), n: 1, tag: x.tag}
}
