package symheap_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

func newSegment(t *testing.T, id symheap.Identity) (*os.File, uint64) {
	t.Helper()
	f, err := symheap.Create(id, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return f, uint64(st.Size())
}

// Two maps of the same segments show the same memory. The descriptor is not needed after Attach,
// and its size cannot be changed.
func TestMapsShareMemory(t *testing.T) {
	job := [16]byte{7}
	var maps [2]*symheap.Map
	for pe := range uint32(2) {
		f, size := newSegment(t, symheap.Identity{Job: job, PE: pe, NPEs: 2, Incarnation: 1})
		for k := range maps {
			if maps[k] == nil {
				m, err := symheap.NewMap(job, 2, size)
				if err != nil {
					t.Fatal(err)
				}
				maps[k] = m
			}
			if err := maps[k].Attach(layout.Local(pe), layout.PE(pe), int(f.Fd())); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Truncate(0); err == nil {
			t.Error("truncating a sealed segment succeeded")
		}
		if err := f.Truncate(int64(size) * 2); err == nil {
			t.Error("growing a sealed segment succeeded")
		}
		_ = f.Close()
	}
	for pe := range layout.Local(2) {
		maps[0].Control(pe).Progress.Count = uint64(40 + pe)
		if got := maps[1].Control(pe).Progress.Count; got != uint64(40+pe) {
			t.Errorf("PE %d: the other map reads %d", pe, got)
		}
	}
	a, err := maps[0].FormatHeap(0)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := a.Stats().Size, maps[0].Size()-layout.HeapOffset; got != want {
		t.Errorf("heap of %d bytes, want %d", got, want)
	}
}

// A segment with a Wire has it behind the heap, which keeps its size. A map takes segments with it or without it,
// but not both.
func TestWire(t *testing.T) {
	job := [16]byte{3}
	f, err := symheap.Create(symheap.Identity{Job: job, NPEs: 2, Incarnation: 1}, 2*layout.Align, symheap.WithWire())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size = layout.HeapOffset + 2*layout.Align + layout.WireSize
	m, err := symheap.NewMap(job, 2, size)
	if err != nil {
		t.Fatal(err)
	}
	if m.Wire(0) != nil {
		t.Error("a map without segments has a Wire")
	}
	if err := m.Attach(0, 0, int(f.Fd())); err != nil {
		t.Fatal(err)
	}
	at := uintptr(unsafe.Pointer(m.Wire(0))) - uintptr(m.Segment(0))
	if at != layout.HeapOffset+2*layout.Align || m.HeapSize() != 2*layout.Align {
		t.Errorf("Wire at %d behind a heap of %d bytes, want it behind %d bytes", at, m.HeapSize(), 2*layout.Align)
	}
	m.Wire(0).Blocks[layout.WireBlocks-1].Body[layout.WireBody-1] = 1
	if a, err := m.FormatHeap(0); err != nil || a.Stats().Size != 2*layout.Align {
		t.Errorf("heap of %d bytes, %v, want %d", a.Stats().Size, err, 2*layout.Align)
	}
	plain, err := symheap.Create(symheap.Identity{Job: job, PE: 1, NPEs: 2, Incarnation: 1}, 2*layout.Align+layout.WireSize)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if err := m.Attach(1, 1, int(plain.Fd())); err == nil || !strings.Contains(err.Error(), "as in the other segments") {
		t.Errorf("got error %v for a segment of the same size without a Wire", err)
	}
}

// Attach refuses a segment of another job, PE or size.
func TestAttachChecks(t *testing.T) {
	job := [16]byte{1}
	f, size := newSegment(t, symheap.Identity{Job: job, PE: 1, NPEs: 2, Incarnation: 1})
	m, err := symheap.NewMap(job, 2, size)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Attach(1, 1, int(f.Fd())); err != nil {
		t.Error(err)
	}
	for want, attach := range map[string]func() error{
		"has the header of PE 1": func() error { return m.Attach(0, 0, int(f.Fd())) },
		"want 0 to 1":            func() error { return m.Attach(2, 1, int(f.Fd())) },
		"belongs to job": func() error {
			o, err := symheap.NewMap([16]byte{2}, 1, size)
			if err != nil {
				return err
			}
			return o.Attach(0, 1, int(f.Fd()))
		},
	} {
		if err := attach(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one with %q", err, want)
		}
	}
	if _, err := symheap.NewMap(job, layout.MaxLocal+1, size); err == nil {
		t.Error("a map with too many segments returned no error")
	}
}

// Segments ask for huge pages, where the kernel has them.
func TestSegmentsAdviseHugePages(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage/shmem_enabled"); err != nil {
		t.Skip("the kernel has no huge pages in shared memory")
	}
	job := [16]byte{7}
	f, size := newSegment(t, symheap.Identity{Job: job, NPEs: 1, Incarnation: 1})
	m, err := symheap.NewMap(job, 1, size)
	if err == nil {
		err = m.Attach(0, 0, int(f.Fd()))
	}
	if err != nil {
		t.Fatal(err)
	}
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(maps), fmt.Sprintf("\n%x-", uintptr(m.Segment(0))))
	_, rest, ok := strings.Cut(rest, "\nVmFlags: ")
	flags, _, _ := strings.Cut(rest, "\n")
	if !found || !ok || !slices.Contains(strings.Fields(flags), "hg") {
		t.Errorf("flags of the segment's mapping are %q, want hg among them", flags)
	}
}
