package fold_test

import (
	"bytes"
	"math"
	"testing"
	"unsafe"

	"github.com/goshmem/goshmem/internal/fold"
)

// checkBytes checks that Bytes folds elements of a type as a loop does, at any address. The loops have tests of their own.
func checkBytes[T any](t *testing.T, elem fold.Elem, value func(i int) T, loops map[fold.Kind]func(acc, in []T)) {
	t.Helper()
	if got := fold.ElemOf[T](); got != elem || elem.Size() != int(unsafe.Sizeof(*new(T))) {
		t.Errorf("%T is %v of %d bytes, want %v", *new(T), got, elem.Size(), elem)
	}
	for op := range fold.Kind(255) {
		if elem.Has(op) != (loops[op] != nil) {
			t.Errorf("%v has %v: %t", elem, op, elem.Has(op))
		}
	}
	for op, loop := range loops {
		for n := range 7 {
			var a, b []T
			for i := range n {
				a, b = append(a, value(i)), append(b, value(3*i+1))
			}
			raw := func(x []T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), n*elem.Size()) }
			for shift := range 9 {
				acc, in := append(make([]byte, shift, 200), raw(a)...), append(make([]byte, shift/2, 200), raw(b)...)
				whole := append(acc, "behind"...)
				fold.Bytes(op, elem, acc[shift:], in[shift/2:])
				want := append([]T{}, a...)
				loop(want, b)
				if !bytes.Equal(acc[shift:], raw(want)) || !bytes.Equal(in[shift/2:], raw(b)) || string(whole[len(acc):]) != "behind" {
					t.Errorf("%d elements of %v by %v, %d bytes on: got %x, want %x", n, elem, op, shift, acc[shift:], raw(want))
				}
			}
		}
	}
}

func checkIntegerBytes[T integral](t *testing.T, elem fold.Elem) {
	t.Helper()
	checkBytes(t, elem, func(i int) T { return T(uint64(i+1) * 0x9e3779b97f4a7c15 >> 3) }, map[fold.Kind]func(acc, in []T){
		fold.KindSum: fold.Sum[T], fold.KindProd: fold.Prod[T], fold.KindMin: fold.Min[T], fold.KindMax: fold.Max[T],
		fold.KindAnd: fold.And[T], fold.KindOr: fold.Or[T], fold.KindXor: fold.Xor[T],
	})
}

func TestBytes(t *testing.T) {
	word := fold.Int64 // of an int
	if math.MaxInt == math.MaxInt32 {
		word = fold.Int32
	}
	checkIntegerBytes[int](t, word)
	checkIntegerBytes[int8](t, fold.Int8)
	checkIntegerBytes[int16](t, fold.Int16)
	checkIntegerBytes[int32](t, fold.Int32)
	checkIntegerBytes[int64](t, fold.Int64)
	checkIntegerBytes[uint](t, word+fold.Uint64-fold.Int64)
	checkIntegerBytes[uint8](t, fold.Uint8)
	checkIntegerBytes[uint16](t, fold.Uint16)
	checkIntegerBytes[uint32](t, fold.Uint32)
	checkIntegerBytes[uint64](t, fold.Uint64)
	checkIntegerBytes[uintptr](t, word+fold.Uint64-fold.Int64)
	checkIntegerBytes[ownInt](t, fold.Int32)
	checkFloatBytes[float32](t, fold.Float32)
	checkFloatBytes[float64](t, fold.Float64)
	checkComplexBytes[complex64](t, fold.Complex64)
	checkComplexBytes[complex128](t, fold.Complex128)
	checkBytes(t, fold.Bool, func(i int) bool { return i%3 == 0 }, map[fold.Kind]func(acc, in []bool){
		fold.KindAnd: fold.And[bool], fold.KindOr: fold.Or[bool], fold.KindXor: fold.Xor[bool],
	})
}

func checkFloatBytes[T ~float32 | ~float64](t *testing.T, elem fold.Elem) {
	t.Helper()
	checkBytes(t, elem, func(i int) T { return T(math.Sin(float64(i))) }, map[fold.Kind]func(acc, in []T){
		fold.KindSum: fold.Sum[T], fold.KindProd: fold.Prod[T], fold.KindMin: fold.Min[T], fold.KindMax: fold.Max[T],
	})
}

func checkComplexBytes[T ~complex64 | ~complex128](t *testing.T, elem fold.Elem) {
	t.Helper()
	checkBytes(t, elem, func(i int) T { return T(complex(math.Sin(float64(i)), float64(i))) }, map[fold.Kind]func(acc, in []T){
		fold.KindSum: fold.Sum[T], fold.KindProd: fold.Prod[T],
	})
}

// What is no element has no operators, no size, and a name.
func TestNoElem(t *testing.T) {
	for _, got := range []fold.Elem{fold.ElemOf[string](), fold.ElemOf[[2]int](), fold.ElemOf[struct{ X int }](), fold.ElemOf[*int](), fold.ElemOf[any]()} {
		if got != fold.NoElem {
			t.Errorf("got %v, want %v", got, fold.NoElem)
		}
	}
	for _, e := range []fold.Elem{fold.NoElem, fold.Bool + 1, 255} {
		if e.Size() != 0 || e.Has(fold.KindSum) || e.Has(fold.KindAnd) || e.String() == "" {
			t.Errorf("%v has operators or %d bytes", e, e.Size())
		}
	}
	seen := map[string]bool{}
	for e := fold.NoElem; e <= fold.Bool; e++ {
		if seen[e.String()] {
			t.Errorf("two types are named %v", e)
		}
		seen[e.String()] = true
	}
}
