package fold_test

import (
	"math"
	"testing"

	"github.com/goshmem/goshmem/internal/fold"
)

// checkLoop checks a loop element by element, for lengths around those that it unrolls, and for some that are long enough for vectors.
func checkLoop[T comparable](t *testing.T, loop func(acc, in []T), one func(a, b T) T, value func(i int) T) {
	t.Helper()
	for n := range 60 {
		if n >= 20 { // the last ones have more than a call of a function in assembly takes
			n = (n - 20) * (n - 20) * 11
		}
		acc, in, want := make([]T, n+1), make([]T, n+1), make([]T, n+1)
		for i := range acc {
			acc[i], in[i] = value(i), value(3*i+1)
			if want[i] = acc[i]; i < n {
				want[i] = one(acc[i], in[i])
			}
		}
		loop(acc[:n], in[:n])
		for i := range acc {
			if acc[i] != want[i] {
				t.Errorf("%T, element %d of %d: got %v, want %v", acc, i, n, acc[i], want[i])
			}
		}
	}
}

// integral is the set of integer types of And, Or and Xor.
type integral interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

func checkIntegerLoops[T integral](t *testing.T) {
	t.Helper()
	value := func(i int) T { return T(uint64(i+1) * 0x9e3779b97f4a7c15 >> 3) }
	checkLoop(t, fold.Sum[T], func(a, b T) T { return a + b }, value)
	checkLoop(t, fold.Prod[T], func(a, b T) T { return a * b }, value)
	checkLoop(t, fold.Min[T], func(a, b T) T { return min(a, b) }, value)
	checkLoop(t, fold.Max[T], func(a, b T) T { return max(a, b) }, value)
	checkLoop(t, fold.And[T], func(a, b T) T { return a & b }, value)
	checkLoop(t, fold.Or[T], func(a, b T) T { return a | b }, value)
	checkLoop(t, fold.Xor[T], func(a, b T) T { return a ^ b }, value)
}

func checkBoolLoops[T ~bool](t *testing.T) {
	t.Helper()
	for _, value := range []func(i int) T{
		func(i int) T { return i%2 == 0 }, func(i int) T { return i%3 == 0 }, func(int) T { return true }, func(int) T { return false },
	} {
		checkLoop(t, fold.And[T], func(a, b T) T { return a && b }, value)
		checkLoop(t, fold.Or[T], func(a, b T) T { return a || b }, value)
		checkLoop(t, fold.Xor[T], func(a, b T) T { return a != b }, value)
	}
}

func TestLoops(t *testing.T) {
	checkIntegerLoops[int](t)
	checkIntegerLoops[int8](t)
	checkIntegerLoops[int16](t)
	checkIntegerLoops[int32](t)
	checkIntegerLoops[int64](t)
	checkIntegerLoops[uint](t)
	checkIntegerLoops[uint8](t)
	checkIntegerLoops[uint16](t)
	checkIntegerLoops[uint32](t)
	checkIntegerLoops[uint64](t)
	checkIntegerLoops[uintptr](t)
	checkIntegerLoops[ownInt](t)
	checkBoolLoops[bool](t)
	type answer bool
	checkBoolLoops[answer](t)
	half := func(i int) float64 { return float64(i%7) / 2 }
	checkLoop(t, fold.Sum[float64], func(a, b float64) float64 { return a + b }, half)
	checkLoop(t, fold.Prod[float64], func(a, b float64) float64 { return a * b }, half)
	checkLoop(t, fold.Sum[complex128], func(a, b complex128) complex128 { return a + b }, func(i int) complex128 { return complex(float64(i), 0.5) })
	checkLoop(t, fold.Sum[float32], func(a, b float32) float32 { return a + b }, func(i int) float32 { return float32(i%7) / 2 })
	checkLoop(t, fold.Sum[complex64], func(a, b complex64) complex64 { return a + b }, func(i int) complex64 { return complex(float32(i), 1) })
	checkLoop(t, fold.Prod[complex128], func(a, b complex128) complex128 { return a * b }, func(i int) complex128 { return complex(float64(i), 1) })
}

// A NaN on either side gives NaN.
func TestNaN(t *testing.T) {
	nan := math.NaN()
	for name, loop := range map[string]func(acc, in []float64){"Min": fold.Min[float64], "Max": fold.Max[float64]} {
		acc := []float64{nan, 1}
		if loop(acc, []float64{1, nan}); !math.IsNaN(acc[0]) || !math.IsNaN(acc[1]) {
			t.Errorf("%s: got %v, want a NaN", name, acc)
		}
	}
}

// Slices that overlap are added element by element, from the first one on.
func TestSumOfOverlapping(t *testing.T) {
	for by := -40; by <= 40; by++ {
		got, want := make([]int64, 2100), make([]int64, 2100)
		for i := range got {
			got[i], want[i] = int64(i), int64(i)
		}
		acc, in := 50, 50+by
		fold.Sum(got[acc:acc+2000], got[in:in+2000])
		for i := range 2000 {
			want[acc+i] += want[in+i]
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("%d elements apart, element %d: got %d, want %d", by, i, got[i], want[i])
			}
		}
	}
}
