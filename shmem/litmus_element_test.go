package shmem_test

import (
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// An element of 1, 2, 4 or 8 bytes is never seen in part, also one of several fields,
// whatever puts it and whatever looks.
func TestElementsAreSeenWhole(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		seenWhole[uint64](t, w)
		seenWhole[float32](t, w)
		seenWhole[complex64](t, w)
		seenWhole[int16](t, w)
		seenWhole[struct{ A, B int8 }](t, w)
		seenWhole[struct{ A, B, C, D uint8 }](t, w)
		seenWhole[struct{ A, B int32 }](t, w)
		seenWhole[struct{ A, B, C, D int16 }](t, w)
		seenWhole[[2]float32](t, w)
		seenWhole[[8]uint8](t, w)
	})
}

// pattern is an element of zeros or of ones.
func pattern[T any](ones bool) (v T) {
	b := unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v))
	for i := range b {
		if ones {
			b[i] = 0xff
		}
	}
	return v
}

// partly says whether an element is neither of zeros nor of ones.
func partly[T any](v T) bool {
	for _, b := range unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v)) {
		if b != *(*byte)(unsafe.Pointer(&v)) || b != 0 && b != 0xff {
			return true
		}
	}
	return false
}

// seenWhole has PE 0 put elements of zeros and of ones in turn, and both look.
func seenWhole[T any](t *testing.T, w *shmem.World) {
	t.Helper()
	c := w.Ctx()
	x := must(shmem.Calloc[T](w, 8))(t)
	over := must(shmem.Calloc[int64](w, 1))(t)
	src := make([]T, 4)
	if w.MyPE() == 0 {
		stride := shmem.Stride{Dst: 2, Src: 2, N: 2}
		for r := range litmusRounds() / 20 {
			v := pattern[T](r%2 == 0)
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
				if partly(v) || partly(src[0]) || partly(src[1]) || partly(src[2]) {
					t.Fatalf("%T: got %v, %v in part", v, v, src)
				}
				if word := atomic.LoadUint64((*uint64)(own)); unsafe.Sizeof(v) == 8 && word != 0 && ^word != 0 {
					t.Fatalf("%T: found %#x, in part", v, word)
				}
			}
		}
	}
	ok(t, w.Barrier())
}
