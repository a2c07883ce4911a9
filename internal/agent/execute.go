package agent

import (
	"math/bits"
	"unsafe"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/internal/agent/stream"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// memory is the segments of the node's PEs. The agent executes the records of other nodes on it, by the same functions as
// a near PE, so atomic operations of both on one word agree.
type memory struct {
	segments *symheap.Map
	near     int            // PEs of the first job, which segments has
	guests   []*symheap.Map // by index behind these: that of each guest (guest.go); nil: it is dead
	limits   record.Limits
	dead     []bool   // by local index
	touched  []uint64 // bit i: PE i has got data since its bell was rung
}

// newMemory returns the memory of segments, all of which are attached and have a layout.Wire.
func newMemory(segments *symheap.Map) *memory {
	n := segments.Len()
	var w layout.Wire
	at := uint64(uintptr(unsafe.Pointer(segments.Wire(0))) - uintptr(segments.Segment(0)))
	from, to := layout.UpperRange(at)
	return &memory{
		segments: segments, near: n,
		limits: record.Limits{
			Near: n, SegmentSize: segments.Size(), Words: record.Range{From: from, To: to},
			Rooms: record.Range{From: at + uint64(unsafe.Offsetof(w.Rooms)), To: at + uint64(unsafe.Offsetof(w.Pieces)+unsafe.Sizeof(w.Pieces))},
		},
		dead:    make([]bool, n),
		touched: make([]uint64, (n+63)/64),
	}
}

// segment returns the segment of a PE.
func (m *memory) segment(pe layout.Local) unsafe.Pointer {
	if int(pe) < m.near {
		return m.segments.Segment(pe)
	}
	return m.guests[int(pe)-m.near].Segment(0)
}

// at returns the address of an offset in the segment of a PE.
func (m *memory) at(pe layout.Local, off uint64) unsafe.Pointer {
	return unsafe.Add(m.segment(pe), int(off))
}

// bytes returns n bytes of the segment of a PE, which are within it.
func (m *memory) bytes(pe layout.Local, off uint64, n int) []byte {
	return unsafe.Slice((*byte)(m.at(pe, off)), n)
}

// touch notes that a PE has got data: ring wakes it.
func (m *memory) touch(pe layout.Local) { m.touched[pe/64] |= 1 << (pe % 64) }

// ring wakes all PEs that sleep and have got data.
func (m *memory) ring() {
	for i, word := range m.touched {
		for ; word != 0; word &= word - 1 {
			m.ringOne(layout.Local(i*64 + bits.TrailingZeros64(word)))
		}
		m.touched[i] = 0
	}
}

// ringOne wakes a PE if it sleeps.
func (m *memory) ringOne(pe layout.Local) { rma.RingBell(&(*layout.Control)(m.segment(pe)).Bell) }

// # Order
//
// The records of a stream become visible in their order: a PE that sees the effect of one sees those of the earlier ones.
// The agent does not know where the source PE has called Fence, so each record orders itself behind what was executed
// before it. Where plain stores may overtake each other, as on arm64, that takes an instruction:
//
//   - a put of one word is a release store (putWord, putWords);
//   - before other puts there is a fence (execute);
//   - atomic operations and signals have release order themselves.

// execute executes a record without an answer, or the part of one with an answer that changes memory. The limits have
// passed the record. Value is the old value of a fetch.
func (m *memory) execute(r *record.Record) (value uint64) {
	pe := layout.Local(r.Local)
	switch r.Op {
	case record.OpPut:
		rma.Fence()
		put(m.at(pe, r.Offset), r.Data(), r.Offset)
		m.touch(pe)
	case record.OpPutStrided:
		rma.Fence()
		m.scatter(pe, r)
		m.touch(pe)
	case record.OpAtomic, record.OpAtomicFetch, record.OpFetchOnce:
		value = update(m.at(pe, r.Offset), r)
		m.ringOne(pe)
	case record.OpSignal:
		if p := m.at(pe, r.Offset); r.Code == record.SignalAdd {
			rma.AtomicAdd(p, r.Operand())
		} else {
			rma.AtomicStore(p, r.Operand())
		}
		m.ringOne(pe)
	}
	return value
}

// put copies data to an offset. One element, aligned as its type is, is written by one store.
func put(to unsafe.Pointer, data []byte, off uint64) {
	from := unsafe.Pointer(unsafe.SliceData(data))
	if n := uint64(len(data)); n <= 8 && n&(n-1) == 0 && off%n == 0 {
		rma.CopyElements(to, from, uintptr(n), 1)
		return
	}
	rma.Move(to, data)
}

// putWord executes a put for which Limits.IsWordPut is true: by one store, as put does, behind the fence that execute has.
func (m *memory) putWord(r *record.Record) {
	pe := layout.Local(r.Local)
	rma.StoreRelease((*uint64)(m.at(pe, r.Offset)), r.Word())
	m.touch(pe)
}

// putWords executes puts of 8 bytes at the start of body, at most most, up to the first one that needs a closer look. It
// returns how many.
func (m *memory) putWords(body []byte, most int) (n int) {
	words := m.limits.HeapWords()
	segment, pe := unsafe.Pointer(nil), uint16(0) // of the put before
	for n < most {
		local, off, word, ok := record.PutWordAt(body)
		if !ok || !words.HasWord(off) {
			break
		}
		if segment == nil || local != pe {
			if int(local) >= m.limits.Near || m.dead[local] {
				break
			}
			segment, pe = m.segment(layout.Local(local)), local
			m.touch(layout.Local(local))
		}
		rma.StoreRelease((*uint64)(unsafe.Add(segment, int(off))), word) // see Order
		body = body[record.SizePutWord:]
		n++
	}
	return n
}

// scatter copies the data of a strided put to its blocks.
func (m *memory) scatter(pe layout.Local, r *record.Record) {
	s := r.Shape()
	size := elementSize(r.Offset | s.Step | s.Block)
	rma.CopyStrided(m.at(pe, r.Offset), unsafe.Pointer(unsafe.SliceData(r.Data())), uintptr(size),
		int(s.Step/size), int(s.Block/size), int(s.Block/size), int(s.N))
}

// gather copies the blocks of a strided get to data, one after the other.
func (m *memory) gather(data []byte, r *stream.Read) {
	s := r.Shape
	size := elementSize(r.Offset | s.Step | s.Block)
	rma.CopyStrided(unsafe.Pointer(unsafe.SliceData(data)), m.at(r.Local, r.Offset), uintptr(size),
		int(s.Block/size), int(s.Step/size), int(s.Block/size), int(s.N))
}

// fetch copies the data of a get to data. One element is read by one load.
func (m *memory) fetch(data []byte, r *stream.Read) {
	from := m.at(r.Local, r.Offset)
	if n := uint64(len(data)); n <= 8 && n&(n-1) == 0 && r.Offset%n == 0 {
		rma.CopyElements(unsafe.Pointer(unsafe.SliceData(data)), from, uintptr(n), 1)
		return
	}
	rma.MoveOut(data, from)
}

// elementSize returns the size of the largest elements that numbers with these bits are multiples of: up to 8.
func elementSize(numbers uint64) uint64 { return 1 << bits.TrailingZeros64(numbers|8) }

// update executes an atomic operation, and returns what the word held before.
func update(p unsafe.Pointer, r *record.Record) (old uint64) {
	code, width := r.Atomic()
	if width == 4 {
		return uint64(updateWord(p, code, uint32(r.Operand()), uint32(r.Cond())))
	}
	return updateWord(p, code, r.Operand(), r.Cond())
}

// updateWord is update for one type.
func updateWord[T uint32 | uint64](p unsafe.Pointer, code record.AtomicCode, operand, cond T) (old T) {
	switch code {
	case record.AtomicLoad:
		return rma.AtomicLoad[T](p)
	case record.AtomicSet, record.AtomicSwap:
		return rma.AtomicSwap(p, operand)
	case record.AtomicCompareSwap:
		return rma.AtomicCompareSwap(p, cond, operand)
	case record.AtomicAdd:
		return rma.AtomicAdd(p, operand)
	case record.AtomicAnd:
		return rma.AtomicAnd(p, operand)
	case record.AtomicOr:
		return rma.AtomicOr(p, operand)
	case record.AtomicXor:
		return rma.AtomicXor(p, operand)
	}
	return 0
}
