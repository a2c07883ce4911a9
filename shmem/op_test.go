package shmem_test

import (
	"testing"

	"github.com/goshmem/goshmem/internal/fold"
	"github.com/goshmem/goshmem/shmem"
)

// kindOf returns the kind of an operator that is passed by its bare name, as to Reduce.
func kindOf[T any](_ []T, op shmem.Op[T]) fold.Kind { return fold.KindOf(op) }

// Each predefined operator is recognized, with every type that it folds.
func TestOpKinds(t *testing.T) {
	f, n, b, c := []float64{}, []uint8{}, []toggle{}, []complex64{}
	for name, x := range map[string][2]fold.Kind{
		"Sum": {kindOf(f, shmem.Sum), fold.KindSum}, "Sum of bytes": {kindOf(n, shmem.Sum), fold.KindSum}, "complex Sum": {kindOf(c, shmem.Sum), fold.KindSum},
		"Prod": {kindOf(f, shmem.Prod), fold.KindProd}, "complex Prod": {kindOf(c, shmem.Prod), fold.KindProd},
		"Min": {kindOf(f, shmem.Min), fold.KindMin}, "Max": {kindOf(n, shmem.Max), fold.KindMax},
		"And": {kindOf(n, shmem.And), fold.KindAnd}, "Or": {kindOf(n, shmem.Or), fold.KindOr}, "Xor": {kindOf(n, shmem.Xor), fold.KindXor},
		"logical And": {kindOf(b, shmem.And), fold.KindAnd}, "logical Or": {kindOf(b, shmem.Or), fold.KindOr}, "logical Xor": {kindOf(b, shmem.Xor), fold.KindXor},
		"declared Sum": {kindOf(f, shmem.Commutative(shmem.Sum[float64])), fold.KindSum},
		"a literal":    {kindOf(f, func(acc, in []float64) { shmem.Sum(acc, in) }), fold.KindUser},
		"compose":      {kindOf([]affine{}, compose), fold.KindUser},
		"declared":     {kindOf([]affine{}, shmem.Commutative(compose)), fold.KindCommutative},
	} {
		if x[0] != x[1] {
			t.Errorf("%s is %v, want %v", name, x[0], x[1])
		}
	}
	if shmem.Commutative[int](nil) != nil {
		t.Error("Commutative of nil is not nil")
	}
	acc := []affine{{2, 3}}
	if shmem.Commutative(compose)(acc, []affine{{5, 7}}); acc[0] != (affine{10, 22}) {
		t.Errorf("a declared operator computes %v, want {10 22}", acc[0])
	}
}

// Operators do nothing on empty slices.
func TestOpEmpty(t *testing.T) {
	for _, op := range []shmem.Op[int]{shmem.Sum[int], shmem.Prod[int], shmem.Min[int], shmem.Max[int], shmem.And[int], shmem.Or[int], shmem.Xor[int]} {
		acc := []int{7}
		if op(acc[:0], nil); acc[0] != 7 {
			t.Errorf("%v of no elements wrote %d, want no change", fold.KindOf(op), acc[0])
		}
	}
}
