package shmem

import "github.com/goshmem/goshmem/coll"

// Operator combines contributions of a reduction, element by element.
type Operator[T any] interface {
	// Fold makes acc[i] = acc[i] op in[i]; both have the same length.
	Fold(acc, in []T)
	// Traits describes the operator.
	Traits() Traits
}

// Traits is what a collective may assume of an operator.
type Traits struct {
	Name        string
	Idempotent  bool // x op x == x
	Commutative bool
}

type (
	sumOp[T Number]  struct{}
	prodOp[T Number] struct{}
	minOp[T Ordered] struct{}
	maxOp[T Ordered] struct{}
	bitAndOp[T Bits] struct{}
	bitOrOp[T Bits]  struct{}
	bitXorOp[T Bits] struct{}
)

// Sum adds.
//
//   - Source: shmem_sum_reduce.
func Sum[T Number]() Operator[T] { return sumOp[T]{} }

// Prod multiplies.
//
//   - Source: shmem_prod_reduce.
func Prod[T Number]() Operator[T] { return prodOp[T]{} }

// Min takes the smaller one; a NaN on either side gives NaN.
//
//   - Source: shmem_min_reduce.
func Min[T Ordered]() Operator[T] { return minOp[T]{} }

// Max takes the larger one; a NaN on either side gives NaN.
//
//   - Source: shmem_max_reduce.
func Max[T Ordered]() Operator[T] { return maxOp[T]{} }

// BitAnd combines by bitwise and.
//
//   - Source: shmem_and_reduce.
func BitAnd[T Bits]() Operator[T] { return bitAndOp[T]{} }

// BitOr combines by bitwise or.
//
//   - Source: shmem_or_reduce.
func BitOr[T Bits]() Operator[T] { return bitOrOp[T]{} }

// BitXor combines by bitwise exclusive or.
//
//   - Source: shmem_xor_reduce.
func BitXor[T Bits]() Operator[T] { return bitXorOp[T]{} }

func (sumOp[T]) Fold(acc, in []T) { coll.Add(acc, in) }

func (prodOp[T]) Fold(acc, in []T) {
	in = in[:len(acc)]
	for i := range acc {
		acc[i] *= in[i]
	}
}

func (minOp[T]) Fold(acc, in []T) {
	in = in[:len(acc)]
	for i := range acc {
		acc[i] = min(acc[i], in[i])
	}
}

func (maxOp[T]) Fold(acc, in []T) {
	in = in[:len(acc)]
	for i := range acc {
		acc[i] = max(acc[i], in[i])
	}
}

func (bitAndOp[T]) Fold(acc, in []T) {
	in = in[:len(acc)]
	for i := range acc {
		acc[i] &= in[i]
	}
}

func (bitOrOp[T]) Fold(acc, in []T) {
	in = in[:len(acc)]
	for i := range acc {
		acc[i] |= in[i]
	}
}

func (bitXorOp[T]) Fold(acc, in []T) {
	in = in[:len(acc)]
	for i := range acc {
		acc[i] ^= in[i]
	}
}

func (sumOp[T]) Traits() Traits  { return Traits{Name: "sum", Commutative: true} }
func (prodOp[T]) Traits() Traits { return Traits{Name: "prod", Commutative: true} }
func (minOp[T]) Traits() Traits  { return Traits{Name: "min", Commutative: true, Idempotent: true} }

func (maxOp[T]) Traits() Traits { return Traits{Name: "max", Commutative: true, Idempotent: true} }

func (bitAndOp[T]) Traits() Traits { return Traits{Name: "and", Commutative: true, Idempotent: true} }

func (bitOrOp[T]) Traits() Traits  { return Traits{Name: "or", Commutative: true, Idempotent: true} }
func (bitXorOp[T]) Traits() Traits { return Traits{Name: "xor", Commutative: true} }
