package far

import (
	"context"
	"math/bits"
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

// claim gives the caller a slot, as its only waiter, and a piece if it needs one. If there is none, it waits, or
// returns false if the caller would rather not.
func (p *Port) claim(ctx context.Context, to target, piece, patient bool) (k int, ok bool, err error) {
	for {
		p.mu.Lock()
		if p.hasSlot(piece) {
			k = p.takeSlot(to, piece)
			p.mu.Unlock()
			return k, true, nil
		}
		p.mu.Unlock()
		if !patient {
			return 0, false, nil
		}
		if err := p.awaitSupply(ctx, to, func() bool { return p.hasSlot(piece) }); err != nil {
			return 0, false, err
		}
	}
}

// hasSlot says whether a slot is free, and a piece if one is needed, after a harvest if need be.
func (p *Port) hasSlot(piece bool) bool {
	if len(p.freeSlots) > 0 && (!piece || p.pieces != 0) {
		return true
	}
	p.harvest()
	return len(p.freeSlots) > 0 && (!piece || p.pieces != 0)
}

// takeSlot takes what hasSlot has found.
func (p *Port) takeSlot(to target, piece bool) int {
	k := int(p.freeSlots[len(p.freeSlots)-1])
	p.freeSlots = p.freeSlots[:len(p.freeSlots)-1]
	s := &p.slots[k]
	*s = slot{node: int32(to.node), waiters: 1, piece: -1, used: true}
	if piece {
		s.piece = int8(bits.TrailingZeros32(p.pieces))
		p.pieces &^= 1 << s.piece
	}
	rma.StoreRelease(&p.wire.Slots[k].Seq, 0)
	return k
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
		p.feed()
	}
}

// freeSlot makes a slot and its piece free.
func (p *Port) freeSlot(k int) {
	if piece := p.slots[k].piece; piece >= 0 {
		p.pieces |= 1 << piece
	}
	p.slots[k] = slot{}
	p.freeSlots = append(p.freeSlots, uint16(k)) // never grows beyond its capacity, the number of slots
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
