package shmem_test

import (
	"testing"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// reduceOf checks one operator with one type: into another object and in place.
func reduceOf[T comparable](t *testing.T, w *shmem.World, op shmem.Op[T], fold func(a, b T) T, value func(pe, i int) T) {
	t.Helper()
	guard := value(100, 100)
	src, dst := newHedged(t, w, mostOf[T](), guard), newHedged(t, w, mostOf[T](), guard)
	for round, n := range borders[T]() {
		mine := func(i int) T { return value(w.MyPE(), i) }
		want := func(i int) T {
			v := value(0, i)
			for pe := 1; pe < w.NPEs(); pe++ {
				v = fold(v, value(pe, i))
			}
			return v
		}
		from, to := src.filled(n, mine), dst.of(n)
		late(w, round)
		ok(t, shmem.Reduce(w.Team(), to, from, op))
		dst.holds(t, n, want)
		src.holds(t, n, mine)
		ok(t, shmem.Reduce(w.Team(), from, from, op))
		src.holds(t, n, want)
	}
	src.free(t, w)
	dst.free(t, w)
}

// integral has the types of bitwise reductions on integers.
type integral interface {
	shmem.AMOBits | ~uint8 | ~uint16 | ~int8 | ~int16 | ~uintptr
}

// integer makes values with bits all over, of which no two PEs and no two neighbors
// have the same.
func integer[T integral](pe, i int) T {
	return T((uint64(pe)*0x9e3779b97f4a7c15 + uint64(i)*0xbf58476d1ce4e5b9 + 12345) >> 13)
}

// small makes values whose sums and products are exact in floating point.
func small[T shmem.Ordered](pe, i int) T { return T(1 + (pe*2+i)%4) }

func small64(pe, i int) complex64   { return complex(float32(1+pe%3), float32(i%3-1)) }
func small128(pe, i int) complex128 { return complex(float64(1+pe%3), float64(i%3-1)) }

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
	// Most bits are set, or nothing would be left of many.
	value := func(pe, i int) T { return ^(T(1) << ((pe + i) % 8)) & (integer[T](0, i) | 0x55) }
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
	value := func(pe, i int) T { return T(1)<<((pe+i)%8) | integer[T](0, i)&^0x55 }
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

// toggle is a bool of the program.
type toggle bool

func xorOf[T integral](t *testing.T, w *shmem.World) {
	t.Helper()
	reduceOf(t, w, shmem.Xor[T], func(a, b T) T { return a ^ b }, integer[T])
}

var _ = routine("shmem_max_reduce", func(t *testing.T, w *shmem.World) {
	maxOf(t, w, integer[uint8])
	maxOf(t, w, integer[uint16])
	maxOf(t, w, integer[uint32])
	maxOf(t, w, integer[uint64])
	maxOf(t, w, integer[uint])
	maxOf(t, w, integer[uintptr])
	maxOf(t, w, integer[int8])
	maxOf(t, w, integer[int16])
	maxOf(t, w, integer[int32])
	maxOf(t, w, integer[int64])
	maxOf(t, w, func(pe, i int) float32 { return float32(integer[int16](pe, i)) / 8 })
	maxOf(t, w, func(pe, i int) float64 { return float64(integer[int32](pe, i)) / 8 })
})

func maxOf[T shmem.Ordered](t *testing.T, w *shmem.World, value func(pe, i int) T) {
	t.Helper()
	reduceOf(t, w, shmem.Max[T], func(a, b T) T { return max(a, b) }, value)
}

var _ = routine("shmem_min_reduce", func(t *testing.T, w *shmem.World) {
	minOf(t, w, integer[uint8])
	minOf(t, w, integer[uint16])
	minOf(t, w, integer[uint32])
	minOf(t, w, integer[uint64])
	minOf(t, w, integer[uint])
	minOf(t, w, integer[uintptr])
	minOf(t, w, integer[int8])
	minOf(t, w, integer[int16])
	minOf(t, w, integer[int32])
	minOf(t, w, integer[int64])
	minOf(t, w, func(pe, i int) float32 { return float32(integer[int16](pe, i)) / 8 })
	minOf(t, w, func(pe, i int) float64 { return float64(integer[int32](pe, i)) / 8 })
})

func minOf[T shmem.Ordered](t *testing.T, w *shmem.World, value func(pe, i int) T) {
	t.Helper()
	reduceOf(t, w, shmem.Min[T], func(a, b T) T { return min(a, b) }, value)
}

var _ = routine("shmem_sum_reduce", func(t *testing.T, w *shmem.World) {
	sumOf(t, w, integer[uint8])
	sumOf(t, w, integer[uint16])
	sumOf(t, w, integer[uint64])
	sumOf(t, w, integer[uintptr])
	sumOf(t, w, integer[int8])
	sumOf(t, w, integer[int32])
	sumOf(t, w, integer[int64])
	sumOf(t, w, small[float32])
	sumOf(t, w, func(pe, i int) float64 { return 1 / float64(1+pe*31+i) }) // in order, to the last bit
	sumOf(t, w, small64)
	sumOf(t, w, small128)
})

func sumOf[T shmem.Number](t *testing.T, w *shmem.World, value func(pe, i int) T) {
	t.Helper()
	reduceOf(t, w, shmem.Sum[T], func(a, b T) T { return a + b }, value)
}

var _ = routine("shmem_prod_reduce", func(t *testing.T, w *shmem.World) {
	prodOf(t, w, integer[uint8])
	prodOf(t, w, integer[uint16])
	prodOf(t, w, integer[uint64])
	prodOf(t, w, integer[uintptr])
	prodOf(t, w, integer[int8])
	prodOf(t, w, integer[int32])
	prodOf(t, w, integer[int64])
	prodOf(t, w, small[float32])
	prodOf(t, w, small[float64])
	prodOf(t, w, small64)
	prodOf(t, w, small128)
})

func prodOf[T shmem.Number](t *testing.T, w *shmem.World, value func(pe, i int) T) {
	t.Helper()
	reduceOf(t, w, shmem.Prod[T], func(a, b T) T { return a * b }, value)
}

// scanOf checks one scan with one type: into another object and in place.
func scanOf[T shmem.Number](t *testing.T, w *shmem.World, exclusive bool, value func(pe, i int) T) {
	t.Helper()
	scan, end := shmem.SumInScan[T], w.MyPE()+1
	if exclusive {
		scan, end = shmem.SumExScan[T], w.MyPE()
	}
	guard := value(100, 100)
	src, dst := newHedged(t, w, mostOf[T](), guard), newHedged(t, w, mostOf[T](), guard)
	for round, n := range borders[T]() {
		mine := func(i int) T { return value(w.MyPE(), i) }
		want := func(i int) (v T) {
			for pe := range end {
				v += value(pe, i)
			}
			return v
		}
		from, to := src.filled(n, mine), dst.of(n)
		late(w, round)
		ok(t, scan(w.Team(), to, from))
		dst.holds(t, n, want)
		src.holds(t, n, mine)
		ok(t, scan(w.Team(), from, from))
		src.holds(t, n, want)
	}
	src.free(t, w)
	dst.free(t, w)
}

func scans(t *testing.T, w *shmem.World, exclusive bool) {
	t.Helper()
	scanOf(t, w, exclusive, integer[uint8])
	scanOf(t, w, exclusive, integer[int16])
	scanOf(t, w, exclusive, integer[uint32])
	scanOf(t, w, exclusive, integer[int64])
	scanOf(t, w, exclusive, small[float32])
	scanOf(t, w, exclusive, func(pe, i int) float64 { return 1 / float64(1+pe*31+i) }) // in order, to the last bit
	scanOf(t, w, exclusive, small64)
	scanOf(t, w, exclusive, small128)
}

var _ = routine("shmem_sum_inscan", func(t *testing.T, w *shmem.World) { scans(t, w, false) })

var _ = routine("shmem_sum_exscan", func(t *testing.T, w *shmem.World) { scans(t, w, true) })

// affine is x -> A*x+B; one after the other is an operation whose order matters.
type affine struct{ A, B uint32 }

func compose(acc, in []affine) {
	for i, f := range in {
		acc[i] = affine{A: acc[i].A * f.A, B: acc[i].B*f.A + f.B}
	}
}

// An operator of a user, which does not commute, is applied in the order of PEs.
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
