package far

import (
	"sync/atomic"

	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// maxStream is the number of blocks that a stream may have.
const maxStream = layout.WireBlocks / 4

// maxClass is the number of blocks that all streams of a class but the first may have, so that one-sided operations go on
// while messages wait for their receivers.
const maxClass = layout.WireBlocks / 2

// block is what the Port knows of a block.
type block struct {
	end  uint64  // number after the last record, of a closed block
	of   *stream // nil: free
	next uint16  // the next closed block of the stream
}

// pool is the blocks of a Port, whose lock guards it.
type pool struct {
	wire   *layout.Wire
	deaths *deaths
	blocks [layout.WireBlocks]block
	used   [layout.WireClasses]int
	free   []uint16 // blocks without a stream, the one used last at the end
}

// close closes the stream's open block, if there is one.
func (p *pool) close(s *stream) {
	if s.open == nil {
		return
	}
	rma.StoreRelease32(&s.open.Closed, 1)
	b := &p.blocks[s.index]
	b.end = s.next
	if s.closed == 0 {
		s.first = s.index
	} else {
		p.blocks[s.last].next = s.index
	}
	s.last = s.index
	s.closed++
	s.open = nil
}

// reclaim frees the closed blocks of a stream whose records are all executed, and which the agent does not look at.
func (p *pool) reclaim(s *stream) {
	for executed := s.executed(); s.closed > 0 && p.blocks[s.first].end <= executed && p.idle(s.first); {
		p.dropFirst(s)
	}
}

// idle says whether the agent does not look at a block.
func (p *pool) idle(block uint16) bool {
	return atomic.LoadUint32(&p.wire.Blocks[block].State) == layout.BlockIdle
}

// endOf returns the number after the last record of the first n closed blocks of a stream, or of all if there are fewer. It is
// 0 if there is none.
func (p *pool) endOf(s *stream, n int) (end uint64) {
	for i, left := s.first, min(n, int(s.closed)); left > 0; left-- {
		end = p.blocks[i].end
		i = p.blocks[i].next
	}
	return end
}

// dropFirst frees the oldest closed block of a stream.
func (p *pool) dropFirst(s *stream) {
	i := s.first
	p.blocks[i].of = nil
	p.free = append(p.free, i) // never grows beyond its capacity, the number of blocks
	p.used[s.class]--
	s.first = p.blocks[i].next
	s.closed--
}

// open opens a block for a stream that has no open one. It returns false if none is free.
func (p *pool) open(s *stream) bool {
	if !p.has(s) {
		return false
	}
	p.take(s)
	return true
}

// take opens a free block for a stream that has no open one.
func (p *pool) take(s *stream) {
	i := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.used[s.class]++
	p.blocks[i].of = s
	b := &p.wire.Blocks[i]
	b.Node, b.Class, b.First = uint32(s.node), s.class, s.next
	rma.StoreRelease32(&b.Closed, 0)
	rma.StoreRelease32(&b.Fill, 0)
	s.open, s.index, s.fill = b, i, 0
}

// has says whether there is a block for a stream, after a sweep if need be.
func (p *pool) has(s *stream) bool {
	if p.mayOpen(s) {
		return true
	}
	p.sweep()
	return p.mayOpen(s)
}

// mayOpen says whether a block is free that the class of the stream may have.
func (p *pool) mayOpen(s *stream) bool {
	return len(p.free) > 0 && (s.class == layout.ClassOneSided || p.used[s.class] < maxClass)
}

// sweep frees what it can of all streams: closed blocks, open ones whose records are all executed, and those of lost
// nodes that the agent does not look at any more.
func (p *pool) sweep() {
	for i := range p.blocks {
		s := p.blocks[i].of
		if s == nil {
			continue
		}
		lost := p.deaths.lostNode(int(s.node)) != nil
		if s.open != nil && (lost || s.executed() >= s.next) {
			p.close(s)
		}
		p.reclaim(s)
		for lost && s.closed > 0 && p.idle(s.first) {
			p.dropFirst(s)
		}
	}
}
