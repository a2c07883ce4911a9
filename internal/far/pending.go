package far

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Pending is a get or a fetch whose answers may not be there yet. Quiet and other operations on the Port complete it,
// too, if its answers have come.
type Pending struct {
	p     *Port
	to    target
	slot  int    // of the last request
	left  int    // answers that are not taken; while requests are still to be made, one more
	value uint64 // of a fetch, if left is 0
	err   error  // the first one, if left is 0
}

// StartGet begins to copy n bytes from offset off of the PE's segment to dst, which the caller must neither read nor
// write until Wait or Quiet has returned.
//
//   - Memory: a long get into private memory wants pieces. While the PE's node has as many as it may have, StartGet
//     waits, and takes answers that have come.
func (p *Port) StartGet(ctx context.Context, t *Touched, pe layout.PE, off uint64, dst unsafe.Pointer, n int) (*Pending, error) {
	g := &Pending{p: p, to: p.target(pe)}
	if n <= 0 {
		return g, nil
	}
	heap, direct := p.segment.heapOffset(dst, n)
	g.left = 1
	for at := 0; at < n; {
		k, err := p.claim(ctx, g.to, !direct && n-at > layout.WireRoom)
		if err != nil {
			return nil, g.abandon(fmt.Errorf("get of %d bytes at offset %d of PE %d: wait for a slot: %w", n, off, pe, err))
		}
		part, to := slot{n: min(record.MaxGet, n-at)}, heap+uint64(at)
		if !direct {
			part.n, part.dst = min(p.slots[k].roomSize(), n-at), unsafe.Add(dst, at)
			_, to = p.room(k)
		}
		s, body, err := p.begin(ctx, g.to, record.SizeGet)
		if err != nil {
			p.leave(k)
			return nil, g.abandon(fmt.Errorf("get of %d bytes at offset %d of PE %d: %w", n, off, pe, err))
		}
		if at == 0 {
			*p.begun++
		}
		if at+part.n < n {
			g.left++
		}
		g.attach(k, s, part)
		p.end(s, t, record.AppendGet(body, g.to.local, off+uint64(at), part.n, to, uint64(k)))
		at += part.n
	}
	return g, nil
}

// StartFetch is Fetch without the wait for the answer.
func (p *Port) StartFetch(ctx context.Context, t *Touched, pe layout.PE, off uint64, code record.AtomicCode, width int, operand, cond uint64) (*Pending, error) {
	g := &Pending{p: p, to: p.target(pe), left: 1}
	k, err := p.claim(ctx, g.to, false)
	if err != nil {
		return nil, fmt.Errorf("fetch at offset %d of PE %d: wait for a slot: %w", off, pe, err)
	}
	s, body, err := p.begin(ctx, g.to, record.SizeAtomicFetch)
	if err != nil {
		p.leave(k)
		return nil, fmt.Errorf("fetch at offset %d of PE %d: %w", off, pe, err)
	}
	*p.begun++
	g.attach(k, s, slot{})
	p.end(s, t, record.AppendAtomicFetch(body, g.to.local, off, record.CodeOf(code, width), operand, cond, uint64(k)))
	return g, nil
}

// attach makes slot k, which the caller has claimed, one of the Pending's. Where the data go is in part. The Port is locked.
func (g *Pending) attach(k int, s *stream, part slot) {
	x := &g.p.slots[k]
	x.pending, x.number, x.sent, x.waiters, x.dst, x.n = g, s.next, true, 0, part.dst, part.n
	g.slot = k
	g.p.pendings++
}

// abandon gives up the requests that are under way, and returns err.
func (g *Pending) abandon(err error) error {
	g.p.mu.Lock()
	g.settleAll(err)
	g.p.mu.Unlock()
	return err
}

// settle takes the answer in slot k for its Pending, or the error that comes in its place. The Port is locked.
func (p *Port) settle(k int, err error) {
	s := &p.slots[k]
	g := s.pending
	if err == nil {
		g.value = p.wire.Slots[k].Value
		if err = p.judge(k, g.to); err == nil && s.dst != nil {
			at, _ := p.room(k)
			copy(unsafe.Slice((*byte)(s.dst), s.n), unsafe.Slice((*byte)(at), s.n))
		}
	}
	if g.err == nil {
		g.err = err
	}
	g.left--
	s.pending, s.dst = nil, nil
	p.pendings--
}

// settleAll takes all answers of the Pending that are there, and err in the place of those that are not. The Port is locked.
func (g *Pending) settleAll(err error) {
	p := g.p
	for k := range p.slots {
		if p.slots[k].pending != g {
			continue
		}
		if p.answered(k) {
			p.settle(k, nil)
		} else {
			p.settle(k, err)
		}
		if p.slots[k].waiters == 0 && p.answered(k) {
			p.freeSlot(k)
		}
	}
}

// unanswered returns a slot of the Pending, which has one. The Port is locked.
func (g *Pending) unanswered() int {
	if g.p.slots[g.slot].pending == g {
		return g.slot
	}
	for k := range g.p.slots {
		if g.p.slots[k].pending == g {
			return k
		}
	}
	return g.slot
}

// Wait waits for the answers and returns the value of a fetch. A Wait that ends by ctx may be called again. Any
// goroutine may call it, and several at the same time.
//
//   - Errors: *DeadError if the PE is dead; ErrRefused; the cause of ctx; wait.ErrClosed.
func (g *Pending) Wait(ctx context.Context) (uint64, error) {
	p := g.p
	p.mu.Lock()
	defer p.mu.Unlock()
	for g.left > 0 {
		k := g.unanswered()
		p.slots[k].waiters++
		p.mu.Unlock()
		err := p.awaitAnswer(ctx, k, g.to)
		p.mu.Lock()
		switch {
		case p.slots[k].pending != g: // another goroutine has taken the answer
		case p.answered(k):
			p.settle(k, nil)
		case isDeath(err):
			g.settleAll(err)
		}
		taken := p.slots[k].pending != g
		p.leaveLocked(k)
		if err != nil && !taken {
			return 0, fmt.Errorf("wait for an answer of PE %d: %w", g.to.pe, err)
		}
	}
	return g.value, g.err
}
