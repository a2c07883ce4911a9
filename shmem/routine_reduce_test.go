package shmem_test

import (
	"testing"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// reduceOf checks one operator with one type, into another object and in place.
func reduceOf[T comparable](t *testing.T, w *shmem.World, op shmem.Op[T], fold func(a, b T) T, value func(pe, i int) T) {
	t.Helper()
	guard := value(100, 100)
	src, dst := newGuarded(t, w, maxElements[T](), guard), newGuarded(t, w, maxElements[T](), guard)
	for round, n := range borderSizes[T]() {
		mine := func(i int) T { return value(w.MyPE(), i) }
		want := func(i int) T {
			v := value(0, i)
			for pe := 1; pe < w.NPEs(); pe++ {
				v = fold(v, value(pe, i))
			}
			return v
		}
		from, to := src.fill(n, mine), dst.reset(n)
		delayInTurn(w, round)
		ok(t, shmem.Reduce(w.Team(), to, from, op))
		dst.check(t, n, want)
		src.check(t, n, mine)
		ok(t, shmem.Reduce(w.Team(), from, from, op))
		src.check(t, n, want)
	}
	src.free(t, w)
	dst.free(t, w)
}

// integral is the set of integer types of the bitwise reductions.
type integral interface {
	shmem.AMOBits | ~uint8 | ~uint16 | ~int8 | ~int16 | ~uintptr
}

// integerValue makes values with random-looking bits. No two PEs and no two neighbors have the
// same value.
func integerValue[T integral](pe, i int) T {
	return T((uint64(pe)*0x9e3779b97f4a7c15 + uint64(i)*0xbf58476d1ce4e5b9 + 12345) >> 13)
}

// smallValue makes values whose sums and products are exact in floating point.
func smallValue[T shmem.Ordered](pe, i int) T { return T(1 + (pe*2+i)%4) }

func smallComplex64(pe, i int) complex64   { return complex(float32(1+pe%3), float32(i%3-1)) }
func smallComplex128(pe, i int) complex128 { return complex(float64(1+pe%3), float64(i%3-1)) }

var _ = routine("shmem_and_reduce", func(t *testing.T, w *shmem.World) {
	andOf[uint8](t, w)
	andOf[uint16](t, w)
	andOf[uint32](t, w)
	andOf[uint64](t, w)
	andOf[uint](t, w)
	andOf[int](t, w)
	andOf[uintptr](t, w)
	andOf[int8](t, w)
	andOf[int16](t, w)
	andOf[int32](t, w)
	andOf[int64](t, w)
	reduceOf(t, w, shmem.And[bool], func(a, b bool) bool { return a && b }, func(pe, i int) bool { return (pe+i)%5 != 0 })
})

func andOf[T integral](t *testing.T, w *shmem.World) {
	t.Helper()
	// Most bits are set; otherwise nothing would be left after many ANDs.
	value := func(pe, i int) T { return ^(T(1) << ((pe + i) % 8)) & (integerValue[T](0, i) | 0x55) }
	reduceOf(t, w, shmem.And[T], func(a, b T) T { return a & b }, value)
}

var _ = routine("shmem_or_reduce", func(t *testing.T, w *shmem.World) {
	orOf[uint8](t, w)
	orOf[uint16](t, w)
	orOf[uint32](t, w)
	orOf[uint64](t, w)
	orOf[uint](t, w)
	orOf[int](t, w)
	orOf[uintptr](t, w)
	orOf[int8](t, w)
	orOf[int16](t, w)
	orOf[int32](t, w)
	orOf[int64](t, w)
	reduceOf(t, w, shmem.Or[bool], func(a, b bool) bool { return a || b }, func(pe, i int) bool { return (pe+i)%5 == 0 })
})

func orOf[T integral](t *testing.T, w *shmem.World) {
	t.Helper()
	value := func(pe, i int) T { return T(1)<<((pe+i)%8) | integerValue[T](0, i)&^0x55 }
	reduceOf(t, w, shmem.Or[T], func(a, b T) T { return a | b }, value)
}

var _ = routine("shmem_xor_reduce", func(t *testing.T, w *shmem.World) {
	xorOf[uint8](t, w)
	xorOf[uint16](t, w)
	xorOf[uint32](t, w)
	xorOf[uint64](t, w)
	xorOf[uint](t, w)
	xorOf[int](t, w)
	xorOf[uintptr](t, w)
	xorOf[int8](t, w)
	xorOf[int16](t, w)
	xorOf[int32](t, w)
	xorOf[int64](t, w)
	reduceOf(t, w, shmem.Xor[toggle], func(a, b toggle) toggle { return a != b }, func(pe, i int) toggle { return (pe+i)%3 == 0 })
})

// toggle is a bool type that the test declares.
type toggle bool

func xorOf[T integral](t *testing.T, w *shmem.World) {
	t.Helper()
	reduceOf(t, w, shmem.Xor[T], func(a, b T) T { return a ^ b }, integerValue[T])
}

var _ = routine("shmem_max_reduce", func(t *testing.T, w *shmem.World) {
	maxOf(t, w, integerValue[uint8])
	maxOf(t, w, integerValue[uint16])
	maxOf(t, w, integerValue[uint32])
	maxOf(t, w, integerValue[uint64])
	maxOf(t, w, integerValue[uint])
	maxOf(t, w, integerValue[uintptr])
	maxOf(t, w, integerValue[int8])
	maxOf(t, w, integerValue[int16])
	maxOf(t, w, integerValue[int32])
	maxOf(t, w, integerValue[int64])
	maxOf(t, w, func(pe, i int) float32 { return float32(integerValue[int16](pe, i)) / 8 })
	maxOf(t, w, func(pe, i int) float64 { return float64(integerValue[int32](pe, i)) / 8 })
})

func maxOf[T shmem.Ordered](t *testing.T, w *shmem.World, value func(pe, i int) T) {
	t.Helper()
	reduceOf(t, w, shmem.Max[T], func(a, b T) T { return max(a, b) }, value)
}

var _ = routine("shmem_min_reduce", func(t *testing.T, w *shmem.World) {
	minOf(t, w, integerValue[uint8])
	minOf(t, w, integerValue[uint16])
	minOf(t, w, integerValue[uint32])
	minOf(t, w, integerValue[uint64])
	minOf(t, w, integerValue[uint])
	minOf(t, w, integerValue[uintptr])
	minOf(t, w, integerValue[int8])
	minOf(t, w, integerValue[int16])
	minOf(t, w, integerValue[int32])
	minOf(t, w, integerValue[int64])
	minOf(t, w, func(pe, i int) float32 { return float32(integerValue[int16](pe, i)) / 8 })
	minOf(t, w, func(pe, i int) float64 { return float64(integerValue[int32](pe, i)) / 8 })
})

func minOf[T shmem.Ordered](t *testing.T, w *shmem.World, value func(pe, i int) T) {
	t.Helper()
	reduceOf(t, w, shmem.Min[T], func(a, b T) T { return min(a, b) }, value)
}

var _ = routine("shmem_sum_reduce", func(t *testing.T, w *shmem.World) {
	sumOf(t, w, integerValue[uint8])
	sumOf(t, w, integerValue[uint16])
	sumOf(t, w, integerValue[uint64])
	sumOf(t, w, integerValue[uintptr])
	sumOf(t, w, integerValue[int8])
	sumOf(t, w, integerValue[int32])
	sumOf(t, w, integerValue[int64])
	sumOf(t, w, smallValue[float32])
	if w.Shared().NPEs() == w.NPEs() { // agents fold few elements in another order
		sumOf(t, w, func(pe, i int) float64 { return 1 / float64(1+pe*31+i) }) // the order of PEs, to the last bit
	}
	sumOf(t, w, smallValue[float64])
	sumOf(t, w, smallComplex64)
	sumOf(t, w, smallComplex128)
})

func sumOf[T shmem.Number](t *testing.T, w *shmem.World, value func(pe, i int) T) {
	t.Helper()
	reduceOf(t, w, shmem.Sum[T], func(a, b T) T { return a + b }, value)
}

var _ = routine("shmem_prod_reduce", func(t *testing.T, w *shmem.World) {
	prodOf(t, w, integerValue[uint8])
	prodOf(t, w, integerValue[uint16])
	prodOf(t, w, integerValue[uint64])
	prodOf(t, w, integerValue[uintptr])
	prodOf(t, w, integerValue[int8])
	prodOf(t, w, integerValue[int32])
	prodOf(t, w, integerValue[int64])
	prodOf(t, w, smallValue[float32])
	prodOf(t, w, smallValue[float64])
	prodOf(t, w, smallComplex64)
	prodOf(t, w, smallComplex128)
})

func prodOf[T shmem.Number](t *testing.T, w *shmem.World, value func(pe, i int) T) {
	t.Helper()
	reduceOf(t, w, shmem.Prod[T], func(a, b T) T { return a * b }, value)
}

// scanOf checks one scan with one type, into another object and in place.
func scanOf[T shmem.Number](t *testing.T, w *shmem.World, exclusive bool, value func(pe, i int) T) {
	t.Helper()
	scan, end := shmem.SumInScan[T], w.MyPE()+1
	if exclusive {
		scan, end = shmem.SumExScan[T], w.MyPE()
	}
	guard := value(100, 100)
	src, dst := newGuarded(t, w, maxElements[T](), guard), newGuarded(t, w, maxElements[T](), guard)
	for round, n := range borderSizes[T]() {
		mine := func(i int) T { return value(w.MyPE(), i) }
		want := func(i int) (v T) {
			for pe := range end {
				v += value(pe, i)
			}
			return v
		}
		from, to := src.fill(n, mine), dst.reset(n)
		delayInTurn(w, round)
		ok(t, scan(w.Team(), to, from))
		dst.check(t, n, want)
		src.check(t, n, mine)
		ok(t, scan(w.Team(), from, from))
		src.check(t, n, want)
	}
	src.free(t, w)
	dst.free(t, w)
}

func testScans(t *testing.T, w *shmem.World, exclusive bool) {
	t.Helper()
	scanOf(t, w, exclusive, integerValue[uint8])
	scanOf(t, w, exclusive, integerValue[int16])
	scanOf(t, w, exclusive, integerValue[uint32])
	scanOf(t, w, exclusive, integerValue[int64])
	scanOf(t, w, exclusive, smallValue[float32])
	scanOf(t, w, exclusive, func(pe, i int) float64 { return 1 / float64(1+pe*31+i) }) // the order of PEs, to the last bit
	scanOf(t, w, exclusive, smallComplex64)
	scanOf(t, w, exclusive, smallComplex128)
}

var _ = routine("shmem_sum_inscan", func(t *testing.T, w *shmem.World) { testScans(t, w, false) })

var _ = routine("shmem_sum_exscan", func(t *testing.T, w *shmem.World) { testScans(t, w, true) })

// affine is x -> A*x+B. Composition does not commute.
type affine struct{ A, B uint32 }

func compose(acc, in []affine) {
	for i, f := range in {
		acc[i] = affine{A: acc[i].A * f.A, B: acc[i].B*f.A + f.B}
	}
}

// A user's operator that does not commute is applied in the order of the PEs.
func TestReduceUserOperator(t *testing.T) {
	shmemtest.Run(t, 5, func(t *testing.T, w *shmem.World) {
		value := func(pe, i int) affine { return affine{A: uint32(3 + pe), B: uint32(i + pe*7)} }
		reduceOf(t, w, compose, func(a, b affine) affine {
			acc := []affine{a}
			compose(acc, []affine{b})
			return acc[0]
		}, value)
	})
}
