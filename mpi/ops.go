package mpi

import "github.com/goshmem/goshmem/coll"

// Ordered has the element types of Min and Max.
type Ordered interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr | ~float32 | ~float64
}

// Number has the element types of Sum and Prod.
type Number interface {
	Ordered | ~complex64 | ~complex128
}

// Bits has the element types of bitwise operators.
type Bits interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

// Operators of reductions: functions that make acc[i] = acc[i] op in[i], of slices of
// the same length. Any other such function will do as well.

// Sum adds.
//
//   - Source: MPI_SUM.
func Sum[T Number](acc, in []T) { coll.Add(acc, in) }

// Prod multiplies.
//
//   - Source: MPI_PROD.
func Prod[T Number](acc, in []T) {
	for i, v := range in {
		acc[i] *= v
	}
}

// Min takes the smaller one; a NaN on either side gives NaN.
//
//   - Source: MPI_MIN.
func Min[T Ordered](acc, in []T) {
	for i, v := range in {
		acc[i] = min(acc[i], v)
	}
}

// Max takes the larger one; a NaN on either side gives NaN.
//
//   - Source: MPI_MAX.
func Max[T Ordered](acc, in []T) {
	for i, v := range in {
		acc[i] = max(acc[i], v)
	}
}

// BitAnd combines by bitwise and.
//
//   - Source: MPI_BAND.
func BitAnd[T Bits](acc, in []T) {
	for i, v := range in {
		acc[i] &= v
	}
}

// BitOr combines by bitwise or.
//
//   - Source: MPI_BOR.
func BitOr[T Bits](acc, in []T) {
	for i, v := range in {
		acc[i] |= v
	}
}

// BitXor combines by bitwise exclusive or.
//
//   - Source: MPI_BXOR.
func BitXor[T Bits](acc, in []T) {
	for i, v := range in {
		acc[i] ^= v
	}
}
