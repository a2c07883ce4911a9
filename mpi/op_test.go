package mpi_test

import (
	"testing"

	"github.com/goshmem/goshmem/internal/fold"
	"github.com/goshmem/goshmem/mpi"
)

// kindOf returns the kind of an operator that is passed by its bare name, as to Allreduce.
func kindOf[T any](_ []T, op mpi.Op[T]) fold.Kind { return fold.KindOf(op) }

// Each predefined operator is recognized, with every type that it folds.
func TestOpKinds(t *testing.T) {
	f, n, b, c := []float64{}, []uint8{}, []bool{}, []complex64{}
	for name, x := range map[string][2]fold.Kind{
		"Sum": {kindOf(f, mpi.Sum), fold.KindSum}, "complex Sum": {kindOf(c, mpi.Sum), fold.KindSum},
		"Prod": {kindOf(f, mpi.Prod), fold.KindProd}, "Min": {kindOf(f, mpi.Min), fold.KindMin}, "Max": {kindOf(n, mpi.Max), fold.KindMax},
		"And": {kindOf(n, mpi.And), fold.KindAnd}, "Or": {kindOf(n, mpi.Or), fold.KindOr}, "Xor": {kindOf(n, mpi.Xor), fold.KindXor},
		"logical And": {kindOf(b, mpi.And), fold.KindAnd}, "logical Or": {kindOf(b, mpi.Or), fold.KindOr}, "logical Xor": {kindOf(b, mpi.Xor), fold.KindXor},
		"declared Sum":       {kindOf(f, mpi.Commutative(mpi.Sum[float64])), fold.KindSum},
		"a literal":          {kindOf(f, func(acc, in []float64) { mpi.Sum(acc, in) }), fold.KindUser},
		"keepFirst":          {kindOf([]int64{}, keepFirst), fold.KindUser},
		"declared keepFirst": {kindOf([]int64{}, mpi.Commutative(keepFirst)), fold.KindCommutative},
	} {
		if x[0] != x[1] {
			t.Errorf("%s is %v, want %v", name, x[0], x[1])
		}
	}
	if mpi.Commutative[int](nil) != nil {
		t.Error("Commutative of nil is not nil")
	}
}
