package alloc_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/goshmem/goshmem/symheap/alloc"
)

// usedHeap returns the state of a heap with live blocks, holes and unused entries.
func usedHeap(t interface{ Fatalf(string, ...any) }) (alloc.Header, []alloc.Entry) {
	var h alloc.Header
	tab := make([]alloc.Entry, 12)
	a, err := alloc.Format(&h, tab, 1<<14)
	if err != nil {
		t.Fatalf("Format: %v", err)
	}
	var b [6]alloc.Block
	for i := range b {
		if b[i], err = a.Alloc(200, 1<<(4+i)); err != nil {
			t.Fatalf("Alloc: %v", err)
		}
	}
	for _, i := range []int{1, 3, 4} {
		if err := a.Free(b[i].Slot, b[i].Gen); err != nil {
			t.Fatalf("Free: %v", err)
		}
	}
	if h.FirstUnused == ^uint32(0) || h.Live != 3 {
		t.Fatalf("the heap has no unused entry: %+v", h)
	}
	return h, tab
}

func TestAttachRefuses(t *testing.T) {
	for name, spoil := range map[string]func(h *alloc.Header, tab []alloc.Entry){
		"zero header":         func(h *alloc.Header, _ []alloc.Entry) { *h = alloc.Header{} },
		"other version":       func(h *alloc.Header, _ []alloc.Entry) { h.Version++ },
		"interrupted call":    func(h *alloc.Header, _ []alloc.Entry) { h.Ops++ },
		"size":                func(h *alloc.Header, _ []alloc.Entry) { h.Size += 64 },
		"odd size":            func(h *alloc.Header, _ []alloc.Entry) { h.Size++ },
		"in use":              func(h *alloc.Header, _ []alloc.Entry) { h.InUse -= 64 },
		"high water":          func(h *alloc.Header, _ []alloc.Entry) { h.HighWater = h.Size + 64 },
		"low water":           func(h *alloc.Header, _ []alloc.Entry) { h.HighWater = h.InUse - 64 },
		"live":                func(h *alloc.Header, _ []alloc.Entry) { h.Live++ },
		"slots":               func(h *alloc.Header, _ []alloc.Entry) { h.Slots++ },
		"fresh":               func(h *alloc.Header, _ []alloc.Entry) { h.Fresh++ },
		"fresh beyond table":  func(h *alloc.Header, _ []alloc.Entry) { h.Fresh = h.Slots + 1 },
		"first block":         func(h *alloc.Header, _ []alloc.Entry) { h.FirstBlock = 99 },
		"no free block":       func(h *alloc.Header, _ []alloc.Entry) { h.FirstFree = ^uint32(0) },
		"no unused entry":     func(h *alloc.Header, _ []alloc.Entry) { h.FirstUnused = ^uint32(0) },
		"unused is a block":   func(h *alloc.Header, _ []alloc.Entry) { h.FirstUnused = h.FirstBlock },
		"unused in a circle":  func(h *alloc.Header, tab []alloc.Entry) { tab[h.FirstUnused].NextFree = h.FirstUnused },
		"blocks in a circle":  func(h *alloc.Header, tab []alloc.Entry) { tab[tab[h.FirstBlock].Next].Next = h.FirstBlock },
		"free in a circle":    func(h *alloc.Header, tab []alloc.Entry) { tab[h.FirstFree].NextFree = h.FirstFree },
		"length zero":         func(h *alloc.Header, tab []alloc.Entry) { tab[h.FirstBlock].Len = 0 },
		"length too large":    func(h *alloc.Header, tab []alloc.Entry) { tab[h.FirstBlock].Len = 1<<64 - 64 },
		"generation":          func(h *alloc.Header, tab []alloc.Entry) { tab[h.FirstBlock].Gen++ },
		"live block is free":  func(h *alloc.Header, tab []alloc.Entry) { tab[h.FirstBlock].NextFree = h.FirstFree },
		"previous block":      func(h *alloc.Header, tab []alloc.Entry) { tab[h.FirstFree].Prev = h.FirstFree },
		"offset":              func(h *alloc.Header, tab []alloc.Entry) { tab[h.FirstFree].Off += 64 },
		"neighboring free":    func(h *alloc.Header, tab []alloc.Entry) { tab[tab[h.FirstFree].Next].Gen++ },
		"free list runs over": func(h *alloc.Header, tab []alloc.Entry) { tab[h.FirstFree].NextFree = 1 << 30 },
	} {
		t.Run(name, func(t *testing.T) {
			h, tab := usedHeap(t)
			if _, err := alloc.Attach(&h, tab); err != nil {
				t.Fatalf("Attach to the sound heap: %v", err)
			}
			spoil(&h, tab)
			if _, err := alloc.Attach(&h, tab); !errors.Is(err, alloc.ErrCorrupt) {
				t.Errorf("Attach: %v, want %v", err, alloc.ErrCorrupt)
			}
		})
	}
}

// TestStrayStores overwrites words of a heap in use and continues to call it. Any result is
// accepted, but no panic and no endless loop.
func TestStrayStores(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, tab := usedHeap(t)
		a, err := alloc.Attach(&h, tab)
		if err != nil {
			t.Fatalf("Attach: %v", err)
		}
		word := rapid.OneOf(rapid.Uint32(), rapid.Uint32Range(0, 16), rapid.Just(^uint32(0)))
		for range rapid.IntRange(1, 3).Draw(t, "stores") {
			e := &tab[rapid.IntRange(0, len(tab)-1).Draw(t, "slot")]
			for i, p := range []*uint32{
				&e.Prev, &e.Next, &e.NextFree, &e.Gen,
				&h.Fresh, &h.FirstBlock, &h.FirstFree, &h.FirstUnused, &h.Live, &h.Slots,
			} {
				if i == rapid.IntRange(0, 9).Draw(t, "field") {
					*p = word.Draw(t, "value")
				}
			}
			if rapid.Bool().Draw(t, "wide") {
				e.Len, e.Off = uint64(word.Draw(t, "len"))<<6, uint64(word.Draw(t, "off"))<<6
			}
		}
		_, _ = alloc.Attach(&h, tab)
		for range 20 {
			slot := rapid.Uint32Range(0, 12).Draw(t, "slot")
			gen := rapid.Uint32Range(0, 5).Draw(t, "gen")
			size, align := drawRequest(t)
			_, _ = a.Alloc(size, align)
			_ = a.Free(slot, gen)
			_, _, _ = a.Resize(slot, gen, size, align)
			_ = a.Stats()
		}
	})
}
