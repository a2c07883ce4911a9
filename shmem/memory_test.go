package shmem_test

import (
	"math"
	"testing"
	"unsafe"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// Free and Realloc accept only handles of whole objects, wherever a part begins and however little
// it lacks. A refused call changes nothing.
func TestPartsAreRefused(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		before := w.Heap()
		x := must(shmem.Alloc[int32](w, 1000))(t)
		for i := range x.Local() {
			x.Local()[i] = int32(i)
		}
		wantPartsRefused(t, w, x)
		y := must(shmem.Realloc(w, x, 500))(t) // shrinks in place
		wantPartsRefused(t, w, y)
		wantError(t, shmem.Free(w, x), shmem.ErrFreed)
		guard := must(shmem.Alloc[byte](w, 1))(t)
		z := must(shmem.Realloc(w, y, 100_000))(t) // moves
		wantPartsRefused(t, w, z)
		for i, v := range z.Slice(0, 500).Local() {
			if v != int32(i) {
				t.Fatalf("element %d is %d after Realloc, want %d", i, v, i)
			}
		}
		again := must(shmem.Alloc[int32](w, 10))(t) // at the place where x was
		wantPartsRefused(t, w, again)
		ok(t, shmem.Free(w, again.Slice(0, 10))) // the whole object
		ok(t, shmem.Free(w, guard.At(0)))
		z = must(shmem.Realloc(w, z.Slice(0, z.Len()), 7))(t)
		ok(t, shmem.Free(w, z))
		if after := w.Heap(); after.Free != before.Free {
			t.Errorf("%d bytes free at the start, %d at the end", before.Free, after.Free)
		}
		none := must(shmem.Alloc[int32](w, 0))(t)
		ok(t, shmem.Free(w, none.Slice(0, 0)))
	})
}

// wantPartsRefused checks that Free and Realloc refuse all kinds of parts of x.
func wantPartsRefused(t *testing.T, w *shmem.World, x shmem.Sym[int32]) {
	t.Helper()
	n := x.Len()
	before := w.Heap()
	for _, part := range []shmem.Sym[int32]{
		x.At(0), x.At(n - 1), x.Slice(0, 0), x.Slice(n, n), x.Slice(0, 5), x.Slice(0, n-1), x.Slice(1, n),
	} {
		wantError(t, shmem.Free(w, part), shmem.ErrArgument, "shmem.Free", "part of an object")
		for _, m := range []int{0, 1, 2000} {
			if _, err := shmem.Realloc(w, part, m); err == nil {
				t.Errorf("Realloc of a part from %d to %d elements succeeded", part.Len(), m)
			} else {
				wantError(t, err, shmem.ErrArgument, "shmem.Realloc", "part of an object")
			}
		}
	}
	wantError(t, shmem.Free(w, x.At(n)), shmem.ErrBounds)
	if after := w.Heap(); after != before || x.Local() == nil {
		t.Errorf("heap %+v after refused calls, want %+v", after, before)
	}
}

// If no heap would be large enough, the error recommends no value.
func TestExhaustionBeyondAnyHeap(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		_, err := shmem.Alloc[uint64](w, 1<<58)
		wantError(t, err, shmem.ErrExhausted, "2305843009213693952 bytes asked", "no heap can be that large", "1 to 70368744177664")
		wantNoHint(t, err)
		_, err = shmem.Alloc[byte](w, 1<<46) // the largest heap, with nothing else in it
		wantNoHint(t, err)
		_, err = shmem.Alloc[byte](w, 1<<62, shmem.Align(2<<20))
		wantError(t, err, shmem.ErrExhausted)
		wantNoHint(t, err)
		_, err = shmem.Alloc[byte](w, 1<<45, shmem.Align(2<<20))
		wantError(t, err, shmem.ErrExhausted, "SHMEM_SYMMETRIC_SIZE=33554438M", "would do")
		x := must(shmem.Alloc[byte](w, 1))(t)
		_, err = shmem.Realloc(w, x, math.MaxInt>>2)
		wantError(t, err, shmem.ErrExhausted, "shmem.Realloc")
		wantNoHint(t, err)
		_, err = shmem.Alloc[uint64](w, math.MaxInt)
		wantError(t, err, shmem.ErrArgument)
	}, shmemtest.HeapSize(4<<20))
}

// wantNoHint checks that err recommends no heap size.
func wantNoHint(t *testing.T, err error) {
	t.Helper()
	wantError(t, err, shmem.ErrExhausted, "no heap can be that large")
	if u := err.Error(); len(u) > 400 {
		t.Errorf("error of %d bytes is too long: %s", len(u), u)
	}
}

// Align aligns addresses. PEs refuse alike what Align cannot do.
func TestAlign(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		must(shmem.Alloc[byte](w, 1))(t)
		for _, to := range []uint64{0, 3, 100, 4 << 20, 1 << 40, 1 << 63, math.MaxUint64} {
			_, err := shmem.Alloc[byte](w, 1, shmem.Align(to))
			wantError(t, err, shmem.ErrArgument, "shmem.Alloc: Align(", "power of two up to 2097152")
		}
		for to := uint64(1); to <= 2<<20; to *= 2 {
			x := must(shmem.Alloc[byte](w, 3, shmem.Align(to)))(t)
			for pe := range w.NPEs() {
				s, near := x.Peer(pe)
				if !near {
					continue
				}
				if at := uintptr(unsafe.Pointer(&s[0])); uint64(at)%to != 0 {
					t.Errorf("Align(%d): address %#x on PE %d, want a multiple of %d", to, at, pe, to)
				}
			}
		}
		_, err := shmem.Alloc[byte](w, 1, shmem.Align(uint64(2+w.MyPE())))
		wantError(t, err, shmem.ErrMismatch, "PE 0 called Alloc of 1 bytes with Align(2)", "PE 1 called Alloc of 1 bytes with Align(3)")
	}, shmemtest.HeapSize(64<<20))
}

// An error about an element type names the function that was called.
func TestElementTypeErrorNamesItsCall(t *testing.T) {
	shmemtest.Run(t, 1, func(t *testing.T, w *shmem.World) {
		_, err := shmem.Alloc[map[int]int](w, 1)
		wantError(t, err, shmem.ErrElementType, "shmem.Alloc: ")
		_, err = shmem.Calloc[map[int]int](w, 1)
		wantError(t, err, shmem.ErrElementType, "shmem.Calloc: ")
	})
}
