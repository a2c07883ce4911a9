package agent

import (
	"sync/atomic"
	"time"

	"github.com/goshmem/goshmem/symheap/layout"
)

// # Blocks that were left with a record in them
//
// The second look at a block (settle) relies on membarrier: a PE's store to Fill comes before the barrier, or its load of State after it.
// Linux does not always execute that barrier (xunix.Membarrier). Then a PE may take a block for queued that the agent has just left, and
// its last records would lie there for ever. So the agent remembers the blocks that it has left, and looks back at them:
//
//   - when a block of a PE does not begin with the stream's next record: the missing ones lie in a block that was left;
//   - some time after it has left a block, when the PE's store is visible without any barrier.
//
// A block that has got more and is still idle is held again, as if the PE had put it into Ready: both claim it by compare-and-swap.

// lookBackEvery is the least time between two looks at the blocks that were left. Each is looked at once at least that long after the
// agent has left it. A store becomes visible within microseconds.
const lookBackEvery = 10 * time.Millisecond

// leftBlock is a use of a block that the agent has left.
type leftBlock struct {
	block, node, class uint32
	taken              uint32 // the Fill that the agent had seen
	first              uint64
	old                bool // it had been left at the last look back already
}

// leftBlocks is the blocks of a PE that the agent has left and may look back at.
type leftBlocks struct {
	all   []leftBlock
	where [layout.WireBlocks]uint16 // by block: 1 + its place in all; 0: it is not there
}

// note remembers a block that the agent is about to leave. Its PE does not use it again before the agent has left it.
func (l *leftBlocks) note(h *holding, b *layout.Block) {
	at := l.where[h.block]
	if at == 0 {
		l.all = append(l.all, leftBlock{})
		at = uint16(len(l.all))
		l.where[h.block] = at
	}
	l.all[at-1] = leftBlock{block: h.block, node: b.Node, class: b.Class, taken: h.taken, first: b.First}
}

// noteLeft remembers that the agent leaves a block.
func noteLeft(a *Agent, h *holding, b *layout.Block) {
	s := &a.sources[h.pe]
	if s.left == nil {
		s.left = new(leftBlocks)
	}
	s.left.note(h, b)
}

// forget drops the block at a place in all.
func (l *leftBlocks) forget(i int) {
	last := len(l.all) - 1
	l.where[l.all[i].block] = 0
	if i != last {
		l.all[i] = l.all[last]
		l.where[l.all[i].block] = uint16(i) + 1
	}
	l.all = l.all[:last]
}

// claim makes a block the agent's again if its PE has added to it and takes it for queued. Fill is loaded first: the PE stores what names
// a use before the first Fill of that use.
func (l *leftBlock) claim(b *layout.Block) bool {
	return atomic.LoadUint32(&b.Fill) > l.taken && atomic.LoadUint64(&b.First) == l.first &&
		atomic.LoadUint32(&b.Node) == l.node && atomic.LoadUint32(&b.Class) == l.class &&
		atomic.CompareAndSwapUint32(&b.State, layout.BlockIdle, layout.BlockQueued)
}

// findLost appends to found the blocks of a PE that were left and that have got more since. The agent holds them again.
func findLost(a *Agent, found []holding, pe layout.Local) []holding {
	s := &a.sources[pe]
	if s.left == nil {
		return found
	}
	for i := len(s.left.all) - 1; i >= 0; i-- {
		l := &s.left.all[i]
		if l.claim(&s.wire.Blocks[l.block]) {
			found = append(found, holding{pe: pe, block: l.block})
			s.left.forget(i)
		}
	}
	return found
}

// lookBack looks back at the blocks of all PEs, if it is time, and holds those again that have got more.
func lookBack(a *Agent, now time.Time) (some bool) {
	if now.Sub(a.lookedBack) < lookBackEvery {
		return false
	}
	a.lookedBack = now
	before := len(a.held)
	for pe := range a.sources {
		s := &a.sources[pe]
		if s.dead || s.left == nil {
			continue
		}
		a.held = findLost(a, a.held, layout.Local(pe))
		for i := len(s.left.all) - 1; i >= 0; i-- {
			if l := &s.left.all[i]; l.old {
				s.left.forget(i)
			} else {
				l.old = true
			}
		}
	}
	return len(a.held) > before
}
