package shmem

import "github.com/goshmem/goshmem/internal/fold"

// Op is the operator of a reduction: a function that sets acc[i] = acc[i] op in[i] for all elements of two slices of
// the same length. A predefined operator is passed by its name alone, as in shmem.Sum. A function of the program is
// passed in the same way:
//
//	shmem.Reduce(t, dst, src, func(acc, in []point) { ... })
//
// The slices may be empty.
//
//   - Shape: acc and in do not overlap, and the operator keeps neither.
//   - Order: acc holds the combined contributions of lower PEs, and in the contribution of the next PE. So an
//     operator that is not associative gives the same result in each run. Reduce says when predefined operators differ.
//   - Checks: with GOSHMEM_CHECK=collectives, and on a team whose PEs are on several nodes, a reduction also calls its
//     operator with empty slices, to learn which one it is. It goes on if the operator panics then.
type Op[T any] func(acc, in []T)

// Commutative declares that f commutes, so that a reduction may combine contributions in any order. Today all
// reductions keep the order of the PEs nevertheless. Predefined operators need no declaration.
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

// The predefined operators. Each one answers fold.KindOf when it gets empty slices. Package fold says why the
// operator itself must call recover.

// Sum adds.
//
//   - Source: shmem_sum_reduce.
func Sum[T Number](acc, in []T) {
	if len(acc) == 0 {
		fold.Answer(recover(), fold.KindSum)
		return
	}
	fold.Sum(acc, in)
}

// Prod multiplies.
//
//   - Source: shmem_prod_reduce.
func Prod[T Number](acc, in []T) {
	if len(acc) == 0 {
		fold.Answer(recover(), fold.KindProd)
		return
	}
	fold.Prod(acc, in)
}

// Min takes the smaller value. A NaN on either side gives NaN.
//
//   - Source: shmem_min_reduce.
func Min[T Ordered](acc, in []T) {
	if len(acc) == 0 {
		fold.Answer(recover(), fold.KindMin)
		return
	}
	fold.Min(acc, in)
}

// Max takes the larger value. A NaN on either side gives NaN.
//
//   - Source: shmem_max_reduce.
func Max[T Ordered](acc, in []T) {
	if len(acc) == 0 {
		fold.Answer(recover(), fold.KindMax)
		return
	}
	fold.Max(acc, in)
}

// And combines integers by bitwise AND, bools by logical AND.
//
//   - Source: shmem_and_reduce.
func And[T Bits](acc, in []T) {
	if len(acc) == 0 {
		fold.Answer(recover(), fold.KindAnd)
		return
	}
	fold.And(acc, in)
}

// Or combines integers by bitwise OR, bools by logical OR.
//
//   - Source: shmem_or_reduce.
func Or[T Bits](acc, in []T) {
	if len(acc) == 0 {
		fold.Answer(recover(), fold.KindOr)
		return
	}
	fold.Or(acc, in)
}

// Xor combines integers by bitwise exclusive OR, bools by logical exclusive OR.
//
//   - Source: shmem_xor_reduce.
func Xor[T Bits](acc, in []T) {
	if len(acc) == 0 {
		fold.Answer(recover(), fold.KindXor)
		return
	}
	fold.Xor(acc, in)
}
