package alloc_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goshmem/goshmem/symheap/alloc"
)

// newArena returns an empty heap of size bytes with room for slots blocks.
func newArena(t *testing.T, size uint64, slots int) *alloc.Arena {
	t.Helper()
	a, err := alloc.Format(new(alloc.Header), make([]alloc.Entry, slots), size)
	if err != nil {
		t.Fatalf("Format(%d bytes, %d slots): %v", size, slots, err)
	}
	return a
}

func mustAlloc(t *testing.T, a *alloc.Arena, size, align uint64) alloc.Block {
	t.Helper()
	b, err := a.Alloc(size, align)
	if err != nil {
		t.Fatalf("Alloc(%d, %d): %v", size, align, err)
	}
	return b
}

func mustFree(t *testing.T, a *alloc.Arena, b alloc.Block) {
	t.Helper()
	if err := a.Free(b.Slot, b.Gen); err != nil {
		t.Fatalf("Free(%+v): %v", b, err)
	}
}

func check(t *testing.T, a *alloc.Arena) {
	t.Helper()
	if err := a.Check(); err != nil {
		t.Fatalf("Check: %v", err)
	}
}

// TestLayout checks the documented sizes: other processes map these structures.
func TestLayout(t *testing.T) {
	for _, c := range []struct {
		v    any
		size uintptr
		last string
		off  uintptr
	}{
		{alloc.Entry{}, 32, "NextFree", 28},
		{alloc.Header{}, 64, "Live", 60},
	} {
		typ := reflect.TypeOf(c.v)
		f, _ := typ.FieldByName(c.last)
		if typ.Size() != c.size || f.Offset != c.off {
			t.Errorf("%v: size %d with %s at %d, want %d and %d", typ, typ.Size(), c.last, f.Offset, c.size, c.off)
		}
	}
}

func TestAllocFillsTheHeapExactly(t *testing.T) {
	a := newArena(t, 1024, 16)
	var got []uint64
	for range 16 {
		got = append(got, mustAlloc(t, a, 1, 1).Off)
	}
	var want []uint64
	for i := range uint64(16) {
		want = append(want, i*64)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("offsets (-want +got):\n%s", d)
	}
	var full *alloc.ExhaustedError
	if _, err := a.Alloc(1, 1); !errors.As(err, &full) {
		t.Fatalf("Alloc on a full heap: %v, want *ExhaustedError", err)
	}
	if d := cmp.Diff(&alloc.ExhaustedError{Asked: 1, Align: 1, Size: 1024}, full); d != "" {
		t.Errorf("ExhaustedError (-want +got):\n%s", d)
	}
	check(t, a)
}

func TestAllocTakesTheTightestHole(t *testing.T) {
	a := newArena(t, 4096, 32)
	var b [6]alloc.Block
	for i, size := range []uint64{256, 64, 128, 64, 128, 64} {
		b[i] = mustAlloc(t, a, size, 1)
	}
	mustFree(t, a, b[0])
	mustFree(t, a, b[4])
	mustFree(t, a, b[2])
	if got := mustAlloc(t, a, 100, 1); got.Off != b[2].Off {
		t.Errorf("100 bytes at %d, want the lower of the two holes of 128 bytes at %d", got.Off, b[2].Off)
	}
	check(t, a)
}

func TestAlignment(t *testing.T) {
	a := newArena(t, 1<<20, 32)
	mustAlloc(t, a, 8, 1)
	b := mustAlloc(t, a, 8, 4096)
	if b.Off != 4096 {
		t.Errorf("offset %d, want 4096", b.Off)
	}
	if c := mustAlloc(t, a, 64, 1); c.Off != 64 {
		t.Errorf("the gap below an aligned block is lost: next block at %d, want 64", c.Off)
	}
	check(t, a)
}

func TestBadArguments(t *testing.T) {
	a := newArena(t, 4096, 8)
	for _, c := range []struct {
		size, align uint64
		want        error
	}{
		{0, 8, alloc.ErrBadSize},
		{1<<64 - 1, 8, alloc.ErrBadSize},
		{8, 0, alloc.ErrBadAlign},
		{8, 24, alloc.ErrBadAlign},
	} {
		if _, err := a.Alloc(c.size, c.align); !errors.Is(err, c.want) {
			t.Errorf("Alloc(%d, %d): %v, want %v", c.size, c.align, err, c.want)
		}
	}
	var full *alloc.ExhaustedError
	mustAlloc(t, a, 8, 1<<63) // offset 0 is a multiple of every alignment
	for _, r := range [][2]uint64{{8, 1 << 63}, {8, 8192}, {1 << 63, 8}, {1<<64 - 64, 1}} {
		if b, err := a.Alloc(r[0], r[1]); !errors.As(err, &full) {
			t.Errorf("Alloc(%d, %d): %+v, %v, want *ExhaustedError", r[0], r[1], b, err)
		}
	}
	check(t, a)
	if _, err := alloc.Format(new(alloc.Header), make([]alloc.Entry, 1), 63); !errors.Is(err, alloc.ErrBadSize) {
		t.Errorf("Format of 63 bytes: %v, want %v", err, alloc.ErrBadSize)
	}
	if _, err := alloc.Format(new(alloc.Header), nil, 4096); err == nil {
		t.Error("Format with an empty table: no error")
	}
}

func TestStaleHandles(t *testing.T) {
	a := newArena(t, 4096, 8)
	b := mustAlloc(t, a, 64, 1)
	mustFree(t, a, b)
	again := mustAlloc(t, a, 64, 1)
	if again.Slot != b.Slot {
		t.Fatalf("slot %d, want %d again: the test needs a slot used twice", again.Slot, b.Slot)
	}
	for _, c := range []struct {
		slot, gen uint32
		want      error
	}{
		{b.Slot, b.Gen, alloc.ErrFreed},
		{b.Slot, 0, alloc.ErrFreed},
		{b.Slot, again.Gen + 1, alloc.ErrFreed},
		{7, 1, alloc.ErrBadSlot},
		{8, 1, alloc.ErrBadSlot},
		{1<<32 - 1, 1, alloc.ErrBadSlot},
	} {
		if err := a.Free(c.slot, c.gen); !errors.Is(err, c.want) {
			t.Errorf("Free(%d, %d): %v, want %v", c.slot, c.gen, err, c.want)
		}
		if _, _, err := a.Resize(c.slot, c.gen, 64, 1); !errors.Is(err, c.want) {
			t.Errorf("Resize(%d, %d): %v, want %v", c.slot, c.gen, err, c.want)
		}
	}
	mustFree(t, a, again)
}

func TestTableFull(t *testing.T) {
	a := newArena(t, 1<<20, 3)
	b := []alloc.Block{mustAlloc(t, a, 64, 1), mustAlloc(t, a, 64, 1)}
	if _, err := a.Alloc(64, 1); !errors.Is(err, alloc.ErrTableFull) {
		t.Fatalf("third block with three slots: %v, want %v", err, alloc.ErrTableFull)
	}
	check(t, a)
	rest := a.Stats().LargestFree
	last := mustAlloc(t, a, rest, 1)
	if got, moved, err := a.Resize(last.Slot, last.Gen, 64, 1); err != nil || moved || got.Len != rest {
		t.Errorf("shrink without a free slot: %+v, %v, %v, want the block as it was", got, moved, err)
	}
	mustFree(t, a, b[1])
	check(t, a)
}

func TestResizeInPlace(t *testing.T) {
	a := newArena(t, 4096, 16)
	b := mustAlloc(t, a, 512, 1)
	resize := func(want alloc.Block, size, align uint64) {
		t.Helper()
		old := b
		var moved bool
		var err error
		if b, moved, err = a.Resize(old.Slot, old.Gen, size, align); err != nil || moved {
			t.Fatalf("Resize to %d: moved %v, %v", size, moved, err)
		}
		want.Slot, want.Gen = old.Slot, old.Gen+2
		if d := cmp.Diff(want, b); d != "" {
			t.Errorf("Resize to %d (-want +got):\n%s", size, d)
		}
		if err := a.Free(old.Slot, old.Gen); !errors.Is(err, alloc.ErrFreed) {
			t.Errorf("Free of the handle from before the resize: %v, want %v", err, alloc.ErrFreed)
		}
		check(t, a)
	}
	resize(alloc.Block{Len: 128}, 100, 1)
	resize(alloc.Block{Len: 128}, 128, 64)
	resize(alloc.Block{Len: 4096}, 4096, 4096)
	resize(alloc.Block{Len: 64}, 1, 1)
	guard := mustAlloc(t, a, 64, 1)
	resize(alloc.Block{Len: 64}, 64, 1)
	mustFree(t, a, guard)
	resize(alloc.Block{Len: 192}, 129, 1)
}

func TestResizeMoves(t *testing.T) {
	a := newArena(t, 4096, 16)
	b := mustAlloc(t, a, 64, 1)
	mustAlloc(t, a, 64, 1)
	moved, did, err := a.Resize(b.Slot, b.Gen, 128, 1)
	if err != nil || !did || moved.Off != 128 || moved.Len != 128 {
		t.Fatalf("Resize: %+v, moved %v, %v, want 128 bytes at 128", moved, did, err)
	}
	mustFree(t, a, b) // the old block is still allocated
	var full *alloc.ExhaustedError
	if _, did, err := a.Resize(moved.Slot, moved.Gen, 8192, 1); !errors.As(err, &full) || did {
		t.Errorf("Resize beyond the heap: moved %v, %v, want *ExhaustedError", did, err)
	}
	again, did, err := a.Resize(moved.Slot, moved.Gen, 128, 1024)
	if err != nil || !did || again.Off != 1024 {
		t.Errorf("Resize to a larger alignment: %+v, moved %v, %v, want a block at 1024", again, did, err)
	}
	check(t, a)
}

func TestStats(t *testing.T) {
	a := newArena(t, 1000, 8) // rounded down to 960
	b := mustAlloc(t, a, 65, 1)
	c := mustAlloc(t, a, 256, 1)
	mustFree(t, a, b)
	want := alloc.Stats{Size: 960, InUse: 256, Free: 704, LargestFree: 576, HighWater: 384, Blocks: 1}
	if d := cmp.Diff(want, a.Stats()); d != "" {
		t.Errorf("Stats (-want +got):\n%s", d)
	}
	mustFree(t, a, c)
	want = alloc.Stats{Size: 960, Free: 960, LargestFree: 960, HighWater: 384}
	if d := cmp.Diff(want, a.Stats()); d != "" {
		t.Errorf("Stats when empty (-want +got):\n%s", d)
	}
}
