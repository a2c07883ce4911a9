package far

import (
	"testing"
	"unsafe"

	"github.com/goshmem/goshmem/symheap/layout"
)

// TryPut does nothing in the cases that it leaves to Put, and what Put does in the others.
func TestTryPut(t *testing.T) {
	r := newRig(t, 2, 2)
	ctx := t.Context()
	var touched Touched
	data := [4]uint64{1, 2, 3, 4}
	try := func(pe layout.PE, off uint64, n int) bool {
		return TryPut(r.Port, &touched, pe, layout.HeapOffset+off, unsafe.Pointer(&data), n)
	}
	if try(2, 0, 8) || !touched.IsEmpty() {
		t.Error("TryPut goes before the first operation")
	}
	if err := r.Put(ctx, &touched, 2, layout.HeapOffset+64, unsafe.Pointer(&data), 8); err != nil {
		t.Fatal(err)
	}
	if try(3, 0, 8) {
		t.Error("TryPut goes to another PE than the put before")
	}
	if !try(2, 0, 8) || !try(2, 8, 16) || !try(2, 24, 3) {
		t.Error("TryPut refuses a put to the PE of the put before")
	}
	tries := 0
	for ; try(2, 32, 32); tries++ {
		if tries > layout.WireBlockSize {
			t.Fatal("TryPut finds room in a block without end")
		}
	}
	if tries == 0 {
		t.Error("TryPut refuses a put for which the block has room")
	}
	if err := r.Put(ctx, &touched, 2, layout.HeapOffset+72, unsafe.Pointer(&data), 8); err != nil {
		t.Fatal(err)
	}
	r.quietOf(&touched)
	got := unsafe.Slice((*uint64)(unsafe.Pointer(&r.memory(2)[0])), 10)
	for i, want := range []uint64{1, 1, 2, 1, 1, 2, 3, 4, 1, 1} {
		if got[i] != want {
			t.Errorf("word %d is %d, want %d", i, got[i], want)
		}
	}
}
