package mpi

import (
	"cmp"

	"github.com/goshmem/goshmem/internal/fold"
)

// Ordered has the element types of Min and Max.
type Ordered interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr | ~float32 | ~float64
}

// Number has the element types of Sum and Prod.
type Number interface {
	Ordered | ~complex64 | ~complex128
}

// Bits has the element types of And, Or and Xor.
type Bits interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr | ~bool
}

// Op is the operator of a reduction: a function that makes acc[i] = acc[i] op in[i] for slices of the
// same length. A predefined one is given by its name alone, as mpi.Sum. A function of the program is
// given in the same way:
//
//	mpi.Allreduce(c, dst, src, func(acc, in []point) { ... })
//
// The slices may be empty.
//
//   - Shape: acc and in do not overlap, and the operator keeps neither.
//   - Order: acc has what the contributions of lower ranks gave, and in is that of the next. So an
//     operator that is not associative gives the same in each run.
//   - Checks: with GOSHMEM_CHECK=collectives, a reduction also calls its operator with empty slices,
//     to learn which one it is. It goes on if the operator panics then.
type Op[T any] func(acc, in []T)

// Commutative declares that f commutes, so that a reduction may combine contributions in any order.
// All reductions still keep the order of the ranks. Predefined operators need no declaration.
func Commutative[T any](f Op[T]) Op[T] {
	if f == nil {
		return nil
	}
	return func(acc, in []T) {
		if len(acc) == 0 {
			fold.Declare(recover(), f, acc, in)
			return
		}
		f(acc, in)
	}
}

// The predefined operators. Each one answers fold.KindOf where it gets empty slices, which is why it
// calls recover itself: package fold says how.

// Sum adds.
//
//   - Source: MPI_SUM.
func Sum[T Number](acc, in []T) {
	if len(acc) == 0 {
		fold.Answer(recover(), fold.KindSum)
		return
	}
	fold.Sum(acc, in)
}

// Prod multiplies.
//
//   - Source: MPI_PROD.
func Prod[T Number](acc, in []T) {
	if len(acc) == 0 {
		fold.Answer(recover(), fold.KindProd)
		return
	}
	fold.Prod(acc, in)
}

// Min takes the smaller one; a NaN on either side gives NaN.
//
//   - Source: MPI_MIN.
func Min[T Ordered](acc, in []T) {
	if len(acc) == 0 {
		fold.Answer(recover(), fold.KindMin)
		return
	}
	fold.Min(acc, in)
}

// Max takes the larger one; a NaN on either side gives NaN.
//
//   - Source: MPI_MAX.
func Max[T Ordered](acc, in []T) {
	if len(acc) == 0 {
		fold.Answer(recover(), fold.KindMax)
		return
	}
	fold.Max(acc, in)
}

// And combines integers by bitwise and, bools by logical and.
//
//   - Source: MPI_BAND, MPI_LAND.
func And[T Bits](acc, in []T) {
	if len(acc) == 0 {
		fold.Answer(recover(), fold.KindAnd)
		return
	}
	fold.And(acc, in)
}

// Or combines integers by bitwise or, bools by logical or.
//
//   - Source: MPI_BOR, MPI_LOR.
func Or[T Bits](acc, in []T) {
	if len(acc) == 0 {
		fold.Answer(recover(), fold.KindOr)
		return
	}
	fold.Or(acc, in)
}

// Xor combines integers by bitwise exclusive or, bools by logical exclusive or.
//
//   - Source: MPI_BXOR, MPI_LXOR.
func Xor[T Bits](acc, in []T) {
	if len(acc) == 0 {
		fold.Answer(recover(), fold.KindXor)
		return
	}
	fold.Xor(acc, in)
}

// Loc is a value and where it is: the element type of MinLoc and MaxLoc.
type Loc[V Ordered] struct {
	Value V
	Index int
}

// MinLoc takes the smaller value with its index, and of equal ones that with the lower index. A NaN is smaller than all numbers.
//
//   - Source: MPI_MINLOC.
func MinLoc[V Ordered](acc, in []Loc[V]) {
	for i, x := range in {
		if c := cmp.Compare(x.Value, acc[i].Value); c < 0 || c == 0 && x.Index < acc[i].Index {
			acc[i] = x
		}
	}
}

// MaxLoc takes the larger value with its index, and of equal ones that with the lower index. A NaN is smaller than all numbers.
//
//   - Source: MPI_MAXLOC.
func MaxLoc[V Ordered](acc, in []Loc[V]) {
	for i, x := range in {
		if c := cmp.Compare(x.Value, acc[i].Value); c > 0 || c == 0 && x.Index < acc[i].Index {
			acc[i] = x
		}
	}
}
