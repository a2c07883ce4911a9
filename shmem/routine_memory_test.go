package shmem_test

import (
	"testing"
	"unsafe"

	"github.com/goshmem/goshmem/shmem"
)

// everywhere has each PE fill its neighbour's copy of an object with values that tell
// both, and checks what has come.
func everywhere[T ~int64](t *testing.T, w *shmem.World, x shmem.Sym[T]) {
	t.Helper()
	me, n := w.MyPE(), w.NPEs()
	values := make([]T, x.Len())
	for i := range values {
		values[i] = T(1_000_000*(me+1) + i)
	}
	ok(t, shmem.Put(w.Ctx(), x, values, (me+1)%n))
	ok(t, w.Barrier())
	for i, v := range x.Local() {
		if want := T(1_000_000*((me+n-1)%n+1) + i); v != want {
			t.Fatalf("element %d is %d, want %d", i, v, want)
		}
	}
	ok(t, w.Barrier())
}

// unchanged checks that the heap is as it was.
func unchanged(t *testing.T, w *shmem.World, before shmem.HeapStats) {
	t.Helper()
	if after := w.Heap(); after.Free != before.Free || after.LargestFree != before.LargestFree {
		t.Errorf("heap is %+v, want %+v as before", after, before)
	}
}

var _ = routine("shmem_malloc", func(t *testing.T, w *shmem.World) {
	before := w.Heap()
	x, y := must(shmem.Alloc[int64](w, 1001))(t), must(shmem.Alloc[int64](w, 7))(t)
	index(t, "elements", x.Len(), 1001)
	everywhere(t, w, x)
	clear(y.Local()) // is another one
	index(t, "an element", int(x.Local()[0]), 1_000_000*((w.MyPE()+w.NPEs()-1)%w.NPEs()+1))
	ok(t, w.Barrier())
	everywhere(t, w, y)
	if used := before.Free - w.Heap().Free; used < 8*1008 {
		t.Errorf("%d bytes less in the heap, want 8064 or more", used)
	}
	none := must(shmem.Alloc[int64](w, 0))(t)
	index(t, "elements of none", none.Len(), 0)
	ok(t, shmem.Free(w, none))
	refused(t, fails(shmem.Alloc[int64](w, -1)), shmem.ErrArgument)
	released(t, w, x, y)
	unchanged(t, w, before)
})

var _ = routine("shmem_free", func(t *testing.T, w *shmem.World) {
	before := w.Heap()
	for range 20 {
		x := must(shmem.Alloc[int64](w, int(before.Size/32)))(t) // so that few would fit
		ok(t, shmem.P(w.Ctx(), x, 1, 0))
		ok(t, shmem.Free(w, x))
		refused(t, shmem.P(w.Ctx(), x, 1, 0), shmem.ErrFreed)
		refused(t, shmem.Free(w, x), shmem.ErrFreed)
	}
	unchanged(t, w, before)
})

var _ = routine("shmem_realloc", func(t *testing.T, w *shmem.World) {
	before := w.Heap()
	x := must(shmem.Alloc[int64](w, 100))(t)
	y := must(shmem.Alloc[int64](w, 1))(t) // behind it, so that it has to move
	everywhere(t, w, x)
	z := must(shmem.Realloc(w, x, 5000))(t)
	index(t, "elements", z.Len(), 5000)
	refused(t, shmem.P(w.Ctx(), x, 1, 0), shmem.ErrFreed)
	from := (w.MyPE() + w.NPEs() - 1) % w.NPEs()
	for i, v := range z.Local()[:100] {
		if int(v) != 1_000_000*(from+1)+i {
			t.Fatalf("element %d is %d after the move", i, v)
		}
	}
	ok(t, w.Barrier())
	everywhere(t, w, z)
	z = must(shmem.Realloc(w, z, 10))(t)
	index(t, "elements", z.Len(), 10)
	index(t, "the last", int(z.Local()[9]), 1_000_000*(from+1)+9)
	z = must(shmem.Realloc(w, z, 0))(t)
	index(t, "elements", z.Len(), 0)
	released(t, w, y)
	unchanged(t, w, before)
	z = must(shmem.Realloc(w, z, 3))(t) // of none: a new one
	everywhere(t, w, z)
	released(t, w, z)
	unchanged(t, w, before)
})

var _ = routine("shmem_align", func(t *testing.T, w *shmem.World) {
	before := w.Heap()
	for align := uint64(8); align <= 1<<20; align *= 8 {
		small := must(shmem.Alloc[byte](w, 1))(t) // so that the next would not be aligned by chance
		x := must(shmem.Alloc[int64](w, 33, shmem.Align(align)))(t)
		for pe := range w.NPEs() {
			p, _ := x.Peer(pe)
			if at := uintptr(unsafe.Pointer(unsafe.SliceData(p))); uint64(at)%align != 0 {
				t.Errorf("on PE %d at %#x, want a multiple of %#x", pe, at, align)
			}
		}
		everywhere(t, w, x)
		released(t, w, x)
		released(t, w, small)
	}
	refused(t, fails(shmem.Alloc[int64](w, 1, shmem.Align(48))), shmem.ErrArgument, "Align(48)")
	unchanged(t, w, before)
})

var _ = routine("shmem_calloc", func(t *testing.T, w *shmem.World) {
	before := w.Heap()
	x := must(shmem.Alloc[int64](w, 3000))(t)
	everywhere(t, w, x)
	released(t, w, x)
	y := must(shmem.Calloc[int64](w, 3000))(t) // the same memory
	for i, v := range y.Local() {
		if v != 0 {
			t.Fatalf("element %d is %d, want 0", i, v)
		}
	}
	ok(t, w.Barrier())
	everywhere(t, w, y)
	released(t, w, y)
	unchanged(t, w, before)
})

var _ = routine("shmem_malloc_with_hints", func(t *testing.T, w *shmem.World) {
	before := w.Heap()
	for _, h := range []shmem.Hint{0, shmem.HintAtomicsRemote, shmem.HintSignalRemote, shmem.HintAtomicsRemote | shmem.HintSignalRemote} {
		x := must(shmem.Alloc[int64](w, 10, shmem.Hints(h)))(t)
		everywhere(t, w, x)
		released(t, w, x)
	}
	for _, h := range []shmem.Hint{4, 1 << 31, shmem.HintSignalRemote | 8} {
		refused(t, fails(shmem.Alloc[int64](w, 10, shmem.Hints(h))), shmem.ErrArgument, "Hints(0x", "HintAtomicsRemote")
	}
	unchanged(t, w, before)
})
