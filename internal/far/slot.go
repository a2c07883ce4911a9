package far

import (
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// slot is what the Port knows of a slot in use. A slot is free again when its answer is there or will never come, no
// goroutine waits for it, and no Pending needs what is in it.
type slot struct {
	pending *Pending       // who gets the answer; nil: the goroutine that waits, or nobody
	dst     unsafe.Pointer // of a Pending: where the data in the room or piece goes; nil: they are in place, or there are none
	n       int            // bytes at dst
	number  uint64         // of the request, if sent
	node    int32
	waiters int32 // goroutines that wait for the answer
	piece   int8  // -1: none
	used    bool
	sent    bool // there is a request
}

// answered says whether the answer to the request of slot k is there.
func (p *Port) answered(k int) bool {
	return atomic.LoadUint64(&p.wire.Slots[k].Seq) == p.slots[k].number+1
}

// leave ends a goroutine's wait for slot k, which becomes free if nobody needs it any more.
func (p *Port) leave(k int) {
	p.mu.Lock()
	p.leaveLocked(k)
	p.mu.Unlock()
}

func (p *Port) leaveLocked(k int) {
	p.slots[k].waiters--
	if s := &p.slots[k]; s.waiters == 0 && s.pending == nil && (!s.sent || p.answered(k)) {
		p.freeSlot(k)
	}
}

// freeSlot makes a slot and its piece free, and wakes the goroutines that it may be for.
func (p *Port) freeSlot(k int) {
	s := &p.slots[k]
	node, last := int(s.node), p.quotas.slots.free == 0
	if s.piece >= 0 {
		p.pieces |= 1 << s.piece
		p.quotas.pieces.give(node)
	}
	p.slots[k] = slot{}
	p.freeSlots = append(p.freeSlots, uint16(k)) // never grows beyond its capacity, the number of slots
	p.quotas.slots.give(node)
	w := &p.waits
	rma.StoreRelease32(&w.freed[node], w.freed[node]+1)
	if w.of[node] > 0 || last && w.all > 0 {
		rma.Target{Segment: p.segment.base}.Ring()
	}
}

// harvest gives answers that are there to their Pendings, and frees the slots that nobody waits for: those with an
// answer, and those whose node is lost.
func (p *Port) harvest() {
	for k := range p.slots {
		s := &p.slots[k]
		if !s.used || !s.sent {
			continue
		}
		there := p.answered(k)
		if s.pending != nil {
			if there {
				p.settle(k, nil)
			} else if err := p.deaths.lostNode(int(s.node)); err != nil {
				p.settle(k, &DeadError{s.pending.to.pe, err})
			}
		}
		if s.waiters == 0 && s.pending == nil && (there || p.deaths.lostNode(int(s.node)) != nil) {
			p.freeSlot(k)
		}
	}
}

// room returns where the data of slot k goes: its place in memory and in the segment.
func (p *Port) room(k int) (at unsafe.Pointer, off uint64) {
	if piece := p.slots[k].piece; piece >= 0 {
		at = unsafe.Pointer(&p.wire.Pieces[piece])
	} else {
		at = unsafe.Pointer(&p.wire.Rooms[k])
	}
	return at, p.segment.offset(at)
}

// roomSize returns how many bytes of data fit into what room returns.
func (s *slot) roomSize() int {
	if s.piece >= 0 {
		return layout.WirePiece
	}
	return layout.WireRoom
}

// segment is this PE's segment.
type segment struct {
	base unsafe.Pointer
	size uint64
}

// offset returns the offset of a place in the segment.
func (m segment) offset(at unsafe.Pointer) uint64 { return uint64(uintptr(at) - uintptr(m.base)) }

// heapOffset returns the offset of n bytes of the heap, and whether they are there.
func (m segment) heapOffset(at unsafe.Pointer, n int) (off uint64, ok bool) {
	off = m.offset(at) // of private memory: beyond the segment, or wrapped around and huge
	return off, off >= layout.HeapOffset && off < m.size && m.size-off >= uint64(n)
}
