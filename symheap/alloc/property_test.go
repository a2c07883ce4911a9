package alloc_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/goshmem/goshmem/symheap/alloc"
)

// heapMachine drives an arena and a twin with the same calls. The model is the
// set of live blocks.
type heapMachine struct {
	h, twinH    *alloc.Header
	tab, twin   []alloc.Entry
	a, b        *alloc.Arena
	live, stale []alloc.Block
}

func newHeapMachine(t *rapid.T) *heapMachine {
	size := rapid.Uint64Range(64, 1<<16).Draw(t, "size")
	slots := rapid.IntRange(1, 40).Draw(t, "slots")
	m := &heapMachine{
		h: new(alloc.Header), twinH: new(alloc.Header),
		tab: make([]alloc.Entry, slots), twin: make([]alloc.Entry, slots),
	}
	var err, err2 error
	m.a, err = alloc.Format(m.h, m.tab, size)
	m.b, err2 = alloc.Format(m.twinH, m.twin, size)
	if err != nil || err2 != nil {
		t.Fatalf("Format: %v, %v", err, err2)
	}
	return m
}

func drawRequest(t *rapid.T) (size, align uint64) {
	return rapid.Uint64Range(1, 1<<13).Draw(t, "size"), 1 << rapid.IntRange(0, 13).Draw(t, "log2 align")
}

// wantSame fails unless both arenas returned the same.
func wantSame(t *rapid.T, b, b2 alloc.Block, err, err2 error) {
	if b != b2 || (err == nil) != (err2 == nil) {
		t.Fatalf("the same call returned %+v, %v and %+v, %v", b, err, b2, err2)
	}
}

func (m *heapMachine) checkPlaced(t *rapid.T, b alloc.Block, size, align uint64) {
	if b.Len < size || b.Off%align != 0 || b.Off%alloc.Granule != 0 || b.Gen&1 == 0 {
		t.Fatalf("got block %+v for %d bytes aligned to %d", b, size, align)
	}
	if b.Off+b.Len > m.a.Stats().Size {
		t.Fatalf("block %+v reaches beyond the heap of %d bytes", b, m.a.Stats().Size)
	}
	for _, o := range m.live {
		if b.Off < o.Off+o.Len && o.Off < b.Off+b.Len {
			t.Fatalf("block %+v overlaps %+v", b, o)
		}
	}
	for _, o := range append(m.live, m.stale...) {
		if b.Slot == o.Slot && b.Gen == o.Gen {
			t.Fatalf("block %+v has the same handle as %+v", b, o)
		}
	}
	m.live = append(m.live, b)
}

func (m *heapMachine) alloc(t *rapid.T) {
	size, align := drawRequest(t)
	before := m.a.Stats()
	b, err := m.a.Alloc(size, align)
	b2, err2 := m.b.Alloc(size, align)
	wantSame(t, b, b2, err, err2)
	var full *alloc.ExhaustedError
	switch {
	case err == nil:
		m.checkPlaced(t, b, size, align)
	case errors.As(err, &full):
		if align <= alloc.Granule && before.LargestFree >= size {
			t.Fatalf("Alloc: %v, but %d bytes are free in one piece", err, before.LargestFree)
		}
	case !errors.Is(err, alloc.ErrTableFull):
		t.Fatalf("Alloc(%d, %d): %v", size, align, err)
	}
}

// pick removes a block from the model.
func (m *heapMachine) pick(t *rapid.T) alloc.Block {
	if len(m.live) == 0 {
		t.Skip("no live block")
	}
	i := rapid.IntRange(0, len(m.live)-1).Draw(t, "block")
	b := m.live[i]
	m.live = append(m.live[:i:i], m.live[i+1:]...)
	return b
}

func (m *heapMachine) free(t *rapid.T) {
	b := m.pick(t)
	if err, err2 := m.a.Free(b.Slot, b.Gen), m.b.Free(b.Slot, b.Gen); err != nil || err2 != nil {
		t.Fatalf("Free(%+v): %v, %v", b, err, err2)
	}
	m.stale = append(m.stale, b)
}

func (m *heapMachine) resize(t *rapid.T) {
	size, align := drawRequest(t)
	old := m.pick(t)
	b, moved, err := m.a.Resize(old.Slot, old.Gen, size, align)
	b2, moved2, err2 := m.b.Resize(old.Slot, old.Gen, size, align)
	wantSame(t, b, b2, err, err2)
	switch {
	case moved != moved2:
		t.Fatalf("the same Resize moved %v and %v", moved, moved2)
	case err != nil:
		m.live = append(m.live, old)
	case moved:
		m.live = append(m.live, old)
		m.checkPlaced(t, b, size, align)
	default:
		m.stale = append(m.stale, old)
		m.checkPlaced(t, b, size, align)
		if b.Off != old.Off {
			t.Fatalf("Resize in place moved the block from %d to %d", old.Off, b.Off)
		}
	}
}

func (m *heapMachine) useStale(t *rapid.T) {
	if len(m.stale) == 0 {
		t.Skip("no stale handle")
	}
	b := rapid.SampledFrom(m.stale).Draw(t, "stale")
	if err := m.a.Free(b.Slot, b.Gen); !errors.Is(err, alloc.ErrFreed) {
		t.Fatalf("Free of the stale %+v: %v, want %v", b, err, alloc.ErrFreed)
	}
}

func (m *heapMachine) attach(t *rapid.T) {
	var err error
	if m.a, err = alloc.Attach(m.h, m.tab); err != nil {
		t.Fatalf("Attach: %v", err)
	}
}

// check runs after every step.
func (m *heapMachine) check(t *rapid.T) {
	if err := m.a.Check(); err != nil {
		t.Fatalf("Check: %v", err)
	}
	if *m.h != *m.twinH {
		t.Fatalf("the same calls left different headers:\n%s", cmp.Diff(m.h, m.twinH))
	}
	if d := cmp.Diff(m.tab, m.twin); d != "" {
		t.Fatalf("the same calls left different tables:\n%s", d)
	}
	s, sum := m.a.Stats(), uint64(0)
	for _, b := range m.live {
		sum += b.Len
	}
	if s.InUse != sum || s.Free != s.Size-sum || s.Blocks != len(m.live) {
		t.Fatalf("Stats %+v, want %d blocks of %d bytes", s, len(m.live), sum)
	}
}

// TestHeapProperties: blocks never overlap and are aligned. Two arenas that get the same calls
// agree in every word, even if one of them is attached again in between. A stale handle is always
// refused. Freeing everything leaves one free block.
func TestHeapProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newHeapMachine(t)
		t.Repeat(map[string]func(*rapid.T){
			"":       m.check,
			"alloc":  m.alloc,
			"alloc2": m.alloc, // twice as often, so that heaps fill up
			"free":   m.free,
			"resize": m.resize,
			"stale":  m.useStale,
			"attach": m.attach,
		})
		for len(m.live) > 0 {
			m.free(t)
		}
		if s := m.a.Stats(); s.LargestFree != s.Size {
			t.Fatalf("after freeing everything: %+v, want one free block", s)
		}
	})
}

// TestRoundAlwaysFits: Alloc succeeds for the largest free block that Stats reports.
func TestRoundAlwaysFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newHeapMachine(t)
		for range rapid.IntRange(0, 20).Draw(t, "blocks") {
			m.alloc(t)
		}
		largest := m.a.Stats().LargestFree
		if largest == 0 {
			t.Skip("full")
		}
		if b, err := m.a.Alloc(largest, 1); err != nil || b.Len != largest {
			t.Fatalf("Alloc of the largest free block, %d bytes: %+v, %v", largest, b, err)
		}
	})
}
