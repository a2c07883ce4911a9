package shmem_test

import (
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// A reader never sees a torn element of 1, 2, 4 or 8 bytes, even if it has several fields,
// whichever operation writes it and whichever reads it.
func TestElementsAreSeenWhole(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		testSeenWhole[uint64](t, w)
		testSeenWhole[float32](t, w)
		testSeenWhole[complex64](t, w)
		testSeenWhole[int16](t, w)
		testSeenWhole[struct{ A, B int8 }](t, w)
		testSeenWhole[struct{ A, B, C, D uint8 }](t, w)
		testSeenWhole[struct{ A, B int32 }](t, w)
		testSeenWhole[struct{ A, B, C, D int16 }](t, w)
		testSeenWhole[[2]float32](t, w)
		testSeenWhole[[8]uint8](t, w)
	})
}

// uniformElement returns an element whose bits are all ones, or all zeros.
func uniformElement[T any](ones bool) (v T) {
	b := unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v))
	for i := range b {
		if ones {
			b[i] = 0xff
		}
	}
	return v
}

// isTorn reports whether the bits of an element are neither all zeros nor all ones.
func isTorn[T any](v T) bool {
	for _, b := range unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v)) {
		if b != *(*byte)(unsafe.Pointer(&v)) || b != 0 && b != 0xff {
			return true
		}
	}
	return false
}

// testSeenWhole makes PE 0 put elements of all zeros and of all ones by turns, while both PEs
// read.
func testSeenWhole[T any](t *testing.T, w *shmem.World) {
	t.Helper()
	c := w.Ctx()
	x := must(shmem.Calloc[T](w, 8))(t)
	over := must(shmem.Calloc[int64](w, 1))(t)
	src := make([]T, 4)
	if w.MyPE() == 0 {
		stride := shmem.Stride{Dst: 2, Src: 2, N: 2}
		for r := range litmusRounds() / 20 {
			v := uniformElement[T](r%2 == 0)
			src[0], src[2] = v, v
			switch r % 6 / 2 {
			case 0:
				ok(t, shmem.P(c, x, v, 1))
			case 1:
				ok(t, shmem.Put(c, x, src[:1], 1))
			default:
				ok(t, shmem.IPut(c, x, src, stride, 1))
			}
		}
		ok(t, c.Quiet())
		ok(t, shmem.AtomicSet(c, over, 1, 1))
	} else {
		own := unsafe.Pointer(&x.Local()[0])
		for !must(shmem.Test(c, over, shmem.EQ, 1))(t) {
			for range 100 {
				v := must(shmem.G(c, x, 1))(t)
				ok(t, shmem.Get(c, src[:1], x, 1))
				ok(t, shmem.IGet(c, src[1:], x, shmem.Stride{Dst: 1, Src: 2, N: 2}, 1))
				if isTorn(v) || isTorn(src[0]) || isTorn(src[1]) || isTorn(src[2]) {
					t.Fatalf("%T: torn read: %v, %v", v, v, src)
				}
				if word := atomic.LoadUint64((*uint64)(own)); unsafe.Sizeof(v) == 8 && word != 0 && ^word != 0 {
					t.Fatalf("%T: torn read: %#x", v, word)
				}
			}
		}
	}
	ok(t, w.Barrier())
}
