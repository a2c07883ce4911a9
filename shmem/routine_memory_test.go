package shmem_test

import (
	"testing"
	"unsafe"

	"github.com/goshmem/goshmem/shmem"
)

// checkPutEverywhere has each PE fill its right neighbor's copy of an object with values that name
// both PEs, and checks what arrives.
func checkPutEverywhere[T ~int64](t *testing.T, w *shmem.World, x shmem.Sym[T]) {
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

// checkHeapUnchanged checks that the heap is as before.
func checkHeapUnchanged(t *testing.T, w *shmem.World, before shmem.HeapStats) {
	t.Helper()
	if after := w.Heap(); after.Free != before.Free || after.LargestFree != before.LargestFree {
		t.Errorf("heap %+v, want it unchanged: %+v", after, before)
	}
}

var _ = routine("shmem_malloc", func(t *testing.T, w *shmem.World) {
	before := w.Heap()
	x, y := must(shmem.Alloc[int64](w, 1001))(t), must(shmem.Alloc[int64](w, 7))(t)
	checkInt(t, "elements", x.Len(), 1001)
	checkPutEverywhere(t, w, x)
	clear(y.Local()) // a different object
	checkInt(t, "an element", int(x.Local()[0]), 1_000_000*((w.MyPE()+w.NPEs()-1)%w.NPEs()+1))
	ok(t, w.Barrier())
	checkPutEverywhere(t, w, y)
	if used := before.Free - w.Heap().Free; used < 8*1008 {
		t.Errorf("Alloc used %d bytes of the heap, want at least 8064", used)
	}
	none := must(shmem.Alloc[int64](w, 0))(t)
	checkInt(t, "elements of an empty object", none.Len(), 0)
	ok(t, shmem.Free(w, none))
	wantError(t, errOf(shmem.Alloc[int64](w, -1)), shmem.ErrArgument)
	freeWhenDone(t, w, x, y)
	checkHeapUnchanged(t, w, before)
})

var _ = routine("shmem_free", func(t *testing.T, w *shmem.World) {
	before := w.Heap()
	for range 20 {
		x := must(shmem.Alloc[int64](w, int(before.Size/32)))(t) // so that only a few would fit
		ok(t, shmem.P(w.Ctx(), x, 1, 0))
		ok(t, shmem.Free(w, x))
		wantError(t, shmem.P(w.Ctx(), x, 1, 0), shmem.ErrFreed)
		wantError(t, shmem.Free(w, x), shmem.ErrFreed)
	}
	checkHeapUnchanged(t, w, before)
})

var _ = routine("shmem_realloc", func(t *testing.T, w *shmem.World) {
	before := w.Heap()
	x := must(shmem.Alloc[int64](w, 100))(t)
	y := must(shmem.Alloc[int64](w, 1))(t) // lies behind x, so that x has to move
	checkPutEverywhere(t, w, x)
	z := must(shmem.Realloc(w, x, 5000))(t)
	checkInt(t, "elements", z.Len(), 5000)
	wantError(t, shmem.P(w.Ctx(), x, 1, 0), shmem.ErrFreed)
	from := (w.MyPE() + w.NPEs() - 1) % w.NPEs()
	for i, v := range z.Local()[:100] {
		if int(v) != 1_000_000*(from+1)+i {
			t.Fatalf("element %d is %d after Realloc moved it", i, v)
		}
	}
	ok(t, w.Barrier())
	checkPutEverywhere(t, w, z)
	z = must(shmem.Realloc(w, z, 10))(t)
	checkInt(t, "elements", z.Len(), 10)
	checkInt(t, "the last element", int(z.Local()[9]), 1_000_000*(from+1)+9)
	z = must(shmem.Realloc(w, z, 0))(t)
	checkInt(t, "elements", z.Len(), 0)
	freeWhenDone(t, w, y)
	checkHeapUnchanged(t, w, before)
	z = must(shmem.Realloc(w, z, 3))(t) // of an empty handle: a new object
	checkPutEverywhere(t, w, z)
	freeWhenDone(t, w, z)
	checkHeapUnchanged(t, w, before)
})

var _ = routine("shmem_align", func(t *testing.T, w *shmem.World) {
	before := w.Heap()
	for align := uint64(8); align <= 1<<20; align *= 8 {
		small := must(shmem.Alloc[byte](w, 1))(t) // so that the next block is not aligned by chance
		x := must(shmem.Alloc[int64](w, 33, shmem.Align(align)))(t)
		for pe := range w.NPEs() {
			p, near := x.Peer(pe)
			checkBool(t, "on this node", near, isNear(w, pe))
			if at := uintptr(unsafe.Pointer(unsafe.SliceData(p))); uint64(at)%align != 0 {
				t.Errorf("on PE %d at %#x, want a multiple of %#x", pe, at, align)
			}
		}
		checkPutEverywhere(t, w, x)
		freeWhenDone(t, w, x)
		freeWhenDone(t, w, small)
	}
	wantError(t, errOf(shmem.Alloc[int64](w, 1, shmem.Align(48))), shmem.ErrArgument, "Align(48)")
	checkHeapUnchanged(t, w, before)
})

var _ = routine("shmem_calloc", func(t *testing.T, w *shmem.World) {
	before := w.Heap()
	x := must(shmem.Alloc[int64](w, 3000))(t)
	checkPutEverywhere(t, w, x)
	freeWhenDone(t, w, x)
	y := must(shmem.Calloc[int64](w, 3000))(t) // the same memory as before
	for i, v := range y.Local() {
		if v != 0 {
			t.Fatalf("element %d is %d, want 0", i, v)
		}
	}
	ok(t, w.Barrier())
	checkPutEverywhere(t, w, y)
	freeWhenDone(t, w, y)
	checkHeapUnchanged(t, w, before)
})

var _ = routine("shmem_malloc_with_hints", func(t *testing.T, w *shmem.World) {
	before := w.Heap()
	for _, h := range []shmem.Hint{0, shmem.HintAtomicsRemote, shmem.HintSignalRemote, shmem.HintAtomicsRemote | shmem.HintSignalRemote} {
		x := must(shmem.Alloc[int64](w, 10, shmem.Hints(h)))(t)
		checkPutEverywhere(t, w, x)
		freeWhenDone(t, w, x)
	}
	for _, h := range []shmem.Hint{4, 1 << 31, shmem.HintSignalRemote | 8} {
		wantError(t, errOf(shmem.Alloc[int64](w, 10, shmem.Hints(h))), shmem.ErrArgument, "Hints(0x", "HintAtomicsRemote")
	}
	checkHeapUnchanged(t, w, before)
})
