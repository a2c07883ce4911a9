package layout

import (
	"strings"
	"testing"
	"unsafe"
)

// The package documentation promises these offsets.
func TestOffsets(t *testing.T) {
	var c Control
	var pages [8192]uint64 // room for the failures after the page's header
	p := (*FailurePage)(unsafe.Pointer(&pages))
	var w Wire
	var b Block
	for _, x := range []struct {
		name      string
		got, want uintptr
	}{
		{"Header", unsafe.Offsetof(c.Header), 0},
		{"Header size", unsafe.Sizeof(c.Header), HeaderBytes},
		{"Bell", unsafe.Offsetof(c.Bell), BellOffset},
		{"Progress", unsafe.Offsetof(c.Progress), 4096},
		{"Reach", unsafe.Offsetof(c.Reach), 4160},
		{"Process", unsafe.Offsetof(c.Process), 4224},
		{"Process size", unsafe.Sizeof(c.Process), 64},
		{"Voted", unsafe.Offsetof(c.Voted), 4288},
		{"Asked", unsafe.Offsetof(c.Asked), 4800},
		{"Floors", unsafe.Offsetof(c.Floors), 4928},
		{"Heap", unsafe.Offsetof(c.Heap), 8192},
		{"Teams", unsafe.Offsetof(c.Teams), 12288},
		{"Arrive", unsafe.Offsetof(c.Arrive), 16384},
		{"Slots", unsafe.Offsetof(c.Slots), 540672},
		{"Blocks", unsafe.Offsetof(c.Blocks), 1589248},
		{"Votes", unsafe.Offsetof(c.Votes), 3686400},
		{"Vote size", unsafe.Sizeof(c.Votes[0][0]), 64},
		{"Callers", unsafe.Offsetof(c.Callers), 3694592},
		{"Lanes", unsafe.Offsetof(c.Lanes), 3698688},
		{"Entries", unsafe.Offsetof(c.Entries), 5795840},
		{"Entry size", unsafe.Sizeof(Entry{}), 64},
		{"Area", unsafe.Offsetof(c.Area), 6320128},
		{"Lane size", unsafe.Sizeof(Lane{}), 64},
		{"Share size", unsafe.Sizeof(Share{}), 64},
		{"LaneHeads", unsafe.Offsetof(c.LaneHeads), 8286208},
		{"Shares", unsafe.Offsetof(c.Shares), 8351744},
		{"Cell size", unsafe.Sizeof(Cell{}), CellSize},
		{"Team size", unsafe.Sizeof(c.Teams[0]), 64},
		{"Region size", unsafe.Sizeof(c.Header.Regions[0]), 24},
		{"Wire.Ready", unsafe.Offsetof(w.Ready), 64},
		{"Wire.Done", unsafe.Offsetof(w.Done), 1088},
		{"Wire.Slots", unsafe.Offsetof(w.Slots), 17472},
		{"Wire.Rooms", unsafe.Offsetof(w.Rooms), 33856},
		{"Wire.Pieces", unsafe.Offsetof(w.Pieces), 558144},
		{"Wire.Blocks", unsafe.Offsetof(w.Blocks), 1086528},
		{"Slot size", unsafe.Sizeof(w.Slots[0]), 64},
		{"Block size", unsafe.Sizeof(b), WireBlockSize},
		{"Block.Body", unsafe.Offsetof(b.Body), 64},
		{"AgentPage.Listed", unsafe.Offsetof(AgentPage{}.Listed), 128},
		{"AgentPage.Parts", unsafe.Offsetof(AgentPage{}.Parts), 4096},
		{"AgentPage.Carried", unsafe.Offsetof(AgentPage{}.Carried), 64},
		{"AgentPage.Traffic", unsafe.Offsetof(AgentPage{}.Traffic), 12288},
		{"AgentPage size", unsafe.Sizeof(AgentPage{}), 12288 + 128*MaxLocal},
		{"Traffic.Batches", unsafe.Offsetof(Traffic{}.Batches), 64},
		{"FailureHeader size", unsafe.Sizeof(p.Header), 64},
		{"Epoch", unsafe.Offsetof(p.Epoch), 64},
		{"Failure of PE 0", uintptr(unsafe.Pointer(p.Failure(0))) - uintptr(unsafe.Pointer(p)), 128},
		{"Failure of PE 2", uintptr(unsafe.Pointer(p.Failure(2))) - uintptr(unsafe.Pointer(p)), 128 + 2*32},
		{"FailureLog of 3 PEs", uintptr(unsafe.Pointer(p.Log(3))) - uintptr(unsafe.Pointer(p)), 128 + 3*32},
		{"FailureLog size", unsafe.Sizeof(FailureLog{}), 4096},
		{"Deaths", unsafe.Offsetof(p.Log(3).Deaths), 16},
		{"LoggedDeath size", unsafe.Sizeof(LoggedDeath{}), 16},
	} {
		if x.got != x.want {
			t.Errorf("%s is %d, want %d", x.name, x.got, x.want)
		}
	}
	if s := unsafe.Sizeof(c); s > ControlSize {
		t.Errorf("Control has %d bytes, which is more than ControlSize, %d", s, ControlSize)
	}
	if s := unsafe.Sizeof(w); s > WireSize || WireSize%Align != 0 {
		t.Errorf("Wire has %d bytes, want at most WireSize, %d, which is a multiple of %d", s, WireSize, Align)
	}
}

// The lanes of all PEs fit for every job size, and their parts do not overlap.
func TestLanes(t *testing.T) {
	c := new(Control)
	for n := 1; n <= MaxLocal; n++ {
		s := ShapeOfLanes(n)
		if s.Size*n > LanesSize || s.Size > MaxLane || s.Cells < 8 || s.Cells > MaxCells || s.Cells&(s.Cells-1) != 0 || s.Data%CellSize != 0 || s.Data < s.Size/2 {
			t.Fatalf("the lanes of %d PEs have the shape %+v", n, s)
		}
		head, cells, room := c.Lane(s, Local(n-1))
		first := uintptr(unsafe.Pointer(cells))
		if at := first - uintptr(unsafe.Pointer(&c.Lanes)); at != uintptr((n-1)*s.Size) || head != &c.LaneHeads[n-1] {
			t.Fatalf("lane %d of %d is at %d with its head at %p", n-1, n, at, head)
		}
		end := uintptr(unsafe.Pointer(cells.At(s.Cells-1))) + CellSize
		if room := uintptr(room); room != end || room+uintptr(s.Data) != first+uintptr(s.Size) {
			t.Fatalf("%d PEs: cells end at %#x, and the data are %d bytes from %#x on, in a lane of %d bytes at %#x", n, end, s.Data, room, s.Size, first)
		}
	}
}

func TestSegmentSize(t *testing.T) {
	for _, x := range []struct{ heap, want uint64 }{
		{1, ControlSize + Align}, {Align, ControlSize + Align}, {Align + 1, ControlSize + 2*Align}, {1 << 30, ControlSize + 1<<30},
	} {
		got, err := SegmentSize(x.heap)
		if err != nil || got != x.want {
			t.Errorf("SegmentSize(%d) = %d, %v, want %d", x.heap, got, err, x.want)
		}
	}
	for _, heap := range []uint64{0, 1<<46 + 1, 1 << 63} {
		if _, err := SegmentSize(heap); err == nil {
			t.Errorf("SegmentSize(%d) returned no error", heap)
		}
	}
}

// A segment with a Wire has it behind the heap, and a header that lists a region beyond the end has none.
func TestRegions(t *testing.T) {
	h := NewHeader([16]byte{}, 0, 2, 1, ControlSize+Align)
	if r, ok := h.Region(RegionWire); ok {
		t.Errorf("a segment without a Wire has the region %+v", r)
	}
	h.AddWire()
	heap, hasHeap := h.Region(RegionHeap)
	wire, hasWire := h.Region(RegionWire)
	if !hasHeap || !hasWire || heap.Off != HeapOffset || heap.Size != Align || wire.Off != ControlSize+Align || wire.Size != WireSize {
		t.Errorf("regions %+v and %+v, want the heap of %d bytes and the Wire behind it", heap, wire, uint64(Align))
	}
	if want := uint64(ControlSize + Align + WireSize); h.Size != want {
		t.Errorf("size %d, want %d", h.Size, want)
	}
	h.Size--
	if _, ok := h.Region(RegionWire); ok {
		t.Error("Region returned a region beyond the end of the segment")
	}
	h.NRegions = MaxRegions + 1
	if _, ok := h.Region(77); ok {
		t.Error("Region returned a region of a kind that is not there")
	}
}

func TestHeaderCheck(t *testing.T) {
	job := [16]byte{1, 2, 3}
	good := NewHeader(job, 3, 4, 1, ControlSize+Align)
	if err := good.Check(job, 3, good.Size); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*Header){
		"magic":              func(h *Header) { h.Magic++ },
		"version":            func(h *Header) { h.Version++ },
		"belongs to job":     func(h *Header) { h.Job[0]++ },
		"the header of PE 7": func(h *Header) { h.PE = 7 },
		"bytes, want":        func(h *Header) { h.Size++ },
	} {
		h := good
		spoil(&h)
		if err := h.Check(job, 3, good.Size); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("corrupt header: error %v, want one with %q", err, want)
		}
	}
}

func TestFailureHeaderCheck(t *testing.T) {
	job := [16]byte{1, 2, 3}
	good := NewFailureHeader(job, 126)
	if good.Size != 12288 || FailurePageSize(124) != 8192 {
		t.Errorf("pages for 126 and 124 PEs have %d and %d bytes, want 12288 and 8192", good.Size, FailurePageSize(124))
	}
	if err := good.Check(job, 126, good.Size); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*FailureHeader){
		"magic":          func(h *FailureHeader) { h.Magic = Magic },
		"version":        func(h *FailureHeader) { h.Version++ },
		"belongs to job": func(h *FailureHeader) { h.Job[0]++ },
		"of 7 PEs":       func(h *FailureHeader) { h.NPEs = 7 },
		"of 16384 bytes": func(h *FailureHeader) { h.Size += 4096 },
	} {
		h := good
		spoil(&h)
		if err := h.Check(job, 126, good.Size); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("corrupt header: error %v, want one with %q", err, want)
		}
	}
	if err := good.Check(job, 126, 4096); err == nil {
		t.Error("Check accepted a page that is too short")
	}
}
