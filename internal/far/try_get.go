package far

import (
	"unsafe"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/symheap/layout"
)

// TryGet begins to copy up to n bytes from offset off of the PE's segment to dst, and never waits. It returns how many they are: 0 if there
// is no slot or no block now. The caller must neither read nor write them until Poll has returned true.
func TryGet(p *Port, pe layout.PE, off uint64, dst unsafe.Pointer, n int) (g *Pending, got int) {
	g = &Pending{p: p, to: p.target(pe), left: 1}
	heap, direct := p.segment.heapOffset(dst, n)
	k, ok := p.claimMore(g.to, !direct && n > layout.WireRoom)
	if !ok {
		return nil, 0
	}
	p.mu.Lock()
	s := &p.streams[g.to.node]
	if s.open == nil || layout.WireBody-int(s.fill) < record.SizeGet {
		p.pool.close(s)
		p.pool.reclaim(s)
		if s.held() >= maxStream || !p.pool.open(s) {
			p.leaveLocked(k)
			p.mu.Unlock()
			return nil, 0
		}
	}
	part, to := slot{n: min(record.MaxGet, n)}, heap
	if !direct {
		part.n, part.dst = min(p.slots[k].roomSize(), n), dst
		_, to = p.room(k)
	}
	s.peer = pe
	*p.begun++
	g.attach(k, s, part)
	p.end(s, nil, record.AppendGet(s.open.Body[:s.fill], g.to.local, off, part.n, to, uint64(k)))
	return g, part.n
}

// Poll reports whether a Pending has ended, and with which error. It never waits. A Pending of a PE that dies on a living node ends with an
// answer, after which nothing is written any more.
//
//   - Errors: *DeadError if the PE is dead; ErrRefused.
func (g *Pending) Poll() (over bool, err error) {
	p := g.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if g.left == 0 {
		return true, g.err
	}
	if k := g.unanswered(); p.slots[k].pending == g && p.answered(k) {
		p.settle(k, nil)
		if p.slots[k].waiters == 0 {
			p.freeSlot(k)
		}
	}
	if err := p.deaths.lostNode(g.to.node); g.left > 0 && err != nil {
		g.settleAll(&DeadError{g.to.pe, p.deaths.dead(g.to.pe)})
	}
	return g.left == 0, g.err
}
