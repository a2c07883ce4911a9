// Package symheap makes and maps the segments of a job: one sealed memfd per
// PE, all of a node's segments in one address range of every process.
package symheap

import (
	"fmt"
	"os"
	"unsafe"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap/alloc"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Identity names a PE of a job and its incarnation.
type Identity struct {
	Job         [16]byte
	PE, NPEs    uint32
	Incarnation uint32
}

// Option changes what Create makes.
type Option func(h *layout.Header)

// WithWire adds a layout.Wire: the PE's node has an agent.
func WithWire() Option { return (*layout.Header).AddWire }

// Create makes the segment of one PE with a symmetric heap of at least heap
// bytes, writes its header and seals its size.
//
//   - Cost: some 20 us, and the memory of the header's page; other pages are allocated
//     at the first access. The caller owns the file.
func Create(id Identity, heap uint64, options ...Option) (*os.File, error) {
	size, err := layout.SegmentSize(heap)
	if err != nil {
		return nil, err
	}
	h := layout.NewHeader(id.Job, id.PE, id.NPEs, id.Incarnation, size)
	for _, o := range options {
		o(&h)
	}
	f, err := xunix.Memfd(fmt.Sprintf("goshmem-pe%d", id.PE), int64(h.Size))
	if err != nil {
		return nil, fmt.Errorf("segment of PE %d: %w", id.PE, err)
	}
	if _, err := f.WriteAt(unsafe.Slice((*byte)(unsafe.Pointer(&h)), unsafe.Sizeof(h)), 0); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("segment of PE %d: write header: %w", id.PE, err)
	}
	if err := xunix.SealSize(f); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("segment of PE %d: %w", id.PE, err)
	}
	return f, nil
}

// Map is one process's view of the segments of its node. Segment i begins at
// Base + i*Stride. All segments must be attached before any is used. From then on a
// Map is read-only, and any goroutine may call its methods.
type Map struct {
	base   unsafe.Pointer
	stride uintptr
	size   uint64 // bytes of one segment
	heap   uint64 // bytes of the heap of one segment; 0: no segment is attached
	wire   uint64 // offset of the Wire; 0: segments have none
	job    [16]byte
	n      int

	reserved unsafe.Pointer // the start of the address range; base lies in its first part
	length   uintptr        // of the range
}

// NewMap reserves the address range for n segments of size bytes each: the segments of one
// node, however many PEs the job has. No segment is mapped yet.
func NewMap(job [16]byte, n int, size uint64) (*Map, error) {
	if n < 1 || n > layout.MaxLocal {
		return nil, fmt.Errorf("map of %d segments, want 1 to %d on a node", n, layout.MaxLocal)
	}
	// Each segment is followed by a gap, so that an index beyond its end faults
	// instead of changing a neighbor's header. The gap is mapped with the segment,
	// beyond the end of the file: a mapping of its own would double the cost.
	stride := uintptr(size+layout.Align-1)/layout.Align*layout.Align + layout.Align
	length := stride*uintptr(n) + layout.Align
	base, err := xunix.Reserve(length)
	if err != nil {
		return nil, fmt.Errorf("%d segments of %d bytes: %w", n, size, err)
	}
	up := -uintptr(base) & (layout.Align - 1)
	return &Map{base: unsafe.Add(base, up), stride: stride, size: size, job: job, n: n, reserved: base, length: length}, nil
}

// Unmap gives the address range back, with all segments. The map must not be used afterwards.
func (m *Map) Unmap() error { return xunix.Unmap(m.reserved, m.length) }

// Attach maps the segment of the PE with index i on the node and number pe in
// the job, whose memfd is fd, and checks that it is that segment. The
// descriptor may be closed afterwards.
func (m *Map) Attach(i layout.Local, pe layout.PE, fd int) error {
	if i < 0 || int(i) >= m.n {
		return fmt.Errorf("attach segment %d, want 0 to %d", i, m.n-1)
	}
	if err := xunix.MapShared(fd, m.Segment(i), m.stride); err != nil {
		return fmt.Errorf("segment of PE %d: %w", pe, err)
	}
	_ = xunix.AdviseHuge(m.Segment(i), m.stride) // a kernel without huge pages refuses it
	// The header is read by a system call. Reading it in the mapping would cost every
	// PE page tables for every segment, most of which it never uses.
	var h layout.Header
	if err := xunix.ReadAt(fd, unsafe.Slice((*byte)(unsafe.Pointer(&h)), unsafe.Sizeof(h)), 0); err != nil {
		return fmt.Errorf("segment of PE %d: header: %w", pe, err)
	}
	if err := h.Check(m.job, uint32(pe), m.size); err != nil {
		return err
	}
	return m.setRegions(&h)
}

// setRegions takes the places of the regions from the header of a segment. They are the same in all segments.
func (m *Map) setRegions(h *layout.Header) error {
	heap, ok := h.Region(layout.RegionHeap)
	if !ok || heap.Off != layout.HeapOffset || heap.Size == 0 {
		return fmt.Errorf("segment of PE %d: heap of %d bytes at %d, want one at %d", h.PE, heap.Size, heap.Off, uint64(layout.HeapOffset))
	}
	wire, ok := h.Region(layout.RegionWire)
	if ok && (wire.Size < layout.WireSize || wire.Off < heap.Off+heap.Size || wire.Off%layout.Align != 0) {
		return fmt.Errorf("segment of PE %d: wire region of %d bytes at %d, want %d bytes behind the heap, at a multiple of %d",
			h.PE, wire.Size, wire.Off, layout.WireSize, layout.Align)
	}
	if m.heap != 0 && (m.heap != heap.Size || m.wire != wire.Off) {
		return fmt.Errorf("segment of PE %d: heap of %d bytes and wire region at %d, want %d and %d as in the other segments (0: none)",
			h.PE, heap.Size, wire.Off, m.heap, m.wire)
	}
	m.heap, m.wire = heap.Size, wire.Off
	return nil
}

// Segment returns the start of segment i.
func (m *Map) Segment(i layout.Local) unsafe.Pointer { return unsafe.Add(m.base, uintptr(i)*m.stride) }

// Control returns the control region of segment i.
func (m *Map) Control(i layout.Local) *layout.Control { return (*layout.Control)(m.Segment(i)) }

// Wire returns the region by which the PE with segment i and the node's agent talk to each other, or nil if the
// segments have none.
func (m *Map) Wire(i layout.Local) *layout.Wire {
	if m.wire == 0 {
		return nil
	}
	return (*layout.Wire)(unsafe.Add(m.Segment(i), int(m.wire)))
}

// HeapSize returns the size of the symmetric heap of one segment in bytes, once a segment is attached.
func (m *Map) HeapSize() uint64 { return m.heap }

// Stride returns the distance between segments in bytes.
func (m *Map) Stride() int { return int(m.stride) }

// Size returns the size of one segment in bytes.
func (m *Map) Size() uint64 { return m.size }

// Len returns the number of segments.
func (m *Map) Len() int { return m.n }

// FormatHeap makes the heap of segment i empty and returns its allocator. Only
// the owner of the segment may call it.
func (m *Map) FormatHeap(i layout.Local) (*alloc.Arena, error) {
	c := m.Control(i)
	return alloc.Format(&c.Heap, c.Blocks[:], m.heap)
}
