package far

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/symheap/layout"
)

// resume reads what an earlier Port has left in the region: the next number of each stream, the blocks that are not
// free yet, and the slots whose answers have not come. A new region has none of these.
func (p *Port) resume() error {
	p.tail = atomic.LoadUint64(&p.wire.Tail)
	for i := range p.streams {
		p.streams[i].next = p.streams[i].executed()
	}
	p.pool.free = make([]uint16, 0, layout.WireBlocks)
	p.freeSlots = make([]uint16, 0, layout.WireSlots)
	var kept []uint16
	for i := layout.WireBlocks - 1; i >= 0; i-- {
		keep, err := false, error(nil)
		if p.tail > 0 { // otherwise no block was ever used, and a look at all of them would allocate their memory
			keep, err = p.resumeBlock(i)
		}
		if err != nil {
			return fmt.Errorf("far: block %d of the wire region: %w", i, err)
		}
		if keep {
			kept = append(kept, uint16(i))
		} else {
			p.pool.free = append(p.pool.free, uint16(i))
		}
	}
	// The streams' lists have their blocks in the order of their numbers.
	slices.SortFunc(kept, func(a, b uint16) int { return cmp.Compare(p.pool.blocks[a].end, p.pool.blocks[b].end) })
	for _, i := range kept {
		s := p.pool.blocks[i].of
		s.open, s.index, s.next = &p.wire.Blocks[i], i, max(s.next, p.pool.blocks[i].end)
		p.pool.used[s.class]++
		p.pool.close(s)
	}
	for k := layout.WireSlots - 1; k >= 0; k-- {
		s := &p.slots[k]
		if !s.used {
			p.freeSlots = append(p.freeSlots, uint16(k))
			continue
		}
		p.quotas.slots.take(int(s.node))
		if s.piece >= 0 {
			p.quotas.pieces.take(int(s.node))
		}
	}
	return nil
}

// Settle returns when all records that a Port and earlier ones of its region have sent are executed, and what they have asked
// for has come. It comes before a new world: an old one's records would write into the new one, and the answers to its gets
// into the heap here.
//
//   - Errors: as Quiet, except that records to lost nodes are no error.
func Settle(ctx context.Context, p *Port) error {
	for i := range p.streams {
		s := &p.streams[i]
		p.mu.Lock()
		next, peer := s.next, s.peer
		p.mu.Unlock()
		if s.executed() >= next {
			continue
		}
		if err := p.awaitNode(ctx, s, next, peer); err != nil && !isDeath(err) {
			return fmt.Errorf("wait for the operations of an earlier world: %d of %d records to node %d are executed: %w", s.executed(), next, s.node, err)
		}
	}
	return nil
}

// resumeBlock says whether block i holds records that are not executed, or the agent still looks at it.
func (p *Port) resumeBlock(i int) (keep bool, err error) {
	b := &p.wire.Blocks[i]
	fill := atomic.LoadUint32(&b.Fill)
	if fill == 0 {
		return false, nil
	}
	if int(b.Node) >= p.nodes || b.Class >= layout.WireClasses || fill > layout.WireBody {
		return false, fmt.Errorf("node %d, class %d, %d bytes, want less than %d nodes and %d classes, and at most %d bytes",
			b.Node, b.Class, fill, p.nodes, layout.WireClasses, layout.WireBody)
	}
	s := &p.streams[int(b.Class)*p.nodes+int(b.Node)]
	executed, number := s.executed(), b.First
	for body := b.Body[:fill]; len(body) > 0; number++ {
		var r record.Record
		if body, err = record.Parse(body, &r); err != nil {
			return false, err
		}
		if number >= executed && r.Op.Answers() && r.Slot() < layout.WireSlots {
			p.slots[r.Slot()] = slot{number: number, node: s.node, piece: pieceAt(p, r.To()), used: true, sent: true}
		}
	}
	if number <= executed && p.pool.idle(uint16(i)) {
		return false, nil
	}
	p.pool.blocks[i] = block{of: s, end: number}
	return true, nil
}

// pieceAt takes a Port's piece at an offset of the segment, if it is one.
func pieceAt(p *Port, off uint64) int8 {
	for i := range p.wire.Pieces {
		if p.segment.offset(unsafe.Pointer(&p.wire.Pieces[i])) == off {
			p.pieces &^= 1 << i
			return int8(i)
		}
	}
	return -1
}
