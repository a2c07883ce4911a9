package far

import (
	"context"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// stream is the records of this PE to one node in one class.
type stream struct {
	done   *uint64 // its word in Wire.Done
	node   int32
	class  uint32
	open   *layout.Block // takes the next record; nil: none
	fill   uint32        // bytes in use of the open block
	index  uint16        // of the open block
	first  uint16        // the oldest closed block, if closed > 0
	last   uint16        // the newest closed block
	closed uint16        // closed blocks
	next   uint64        // number of the next record
	peer   layout.PE     // of the newest record: reports of a Quiet say that it waits for this PE; -1: none
}

// held returns how many blocks the stream has.
func (s *stream) held() int {
	if s.open != nil {
		return int(s.closed) + 1
	}
	return int(s.closed)
}

// executed returns how many records of the stream are executed.
func (s *stream) executed() uint64 { return atomic.LoadUint64(s.done) }

// begin locks the Port and returns the body of the stream's open block up to its fill, with room for a record of size
// bytes. The caller appends one record and calls end. If begin returns an error, the Port is not locked.
func (p *Port) begin(ctx context.Context, to target, size int) (s *stream, body []byte, err error) {
	s = &p.streams[to.node]
	p.mu.Lock()
	for s.open == nil || layout.WireBody-int(s.fill) < size {
		p.mu.Unlock()
		if err := p.makeRoom(ctx, s, to, size); err != nil {
			return nil, nil, err
		}
		p.mu.Lock()
	}
	p.recent, s.peer = to, to.pe
	return s, s.open.Body[:s.fill], nil
}

// end gives the record that was appended to body to the agent, and unlocks the Port.
func (p *Port) end(s *stream, t *Touched, body []byte) {
	b := s.open
	s.fill = uint32(len(body))
	s.next++
	t.add(int(s.node), p.nodes, s.next)
	rma.StoreRelease32(&b.Fill, s.fill)
	if p.locked {
		atomic.AddUint32(&b.State, 0)
	}
	if atomic.LoadUint32(&b.State) == layout.BlockQueued {
		p.mu.Unlock()
		return
	}
	p.queue(s)
}

// queue gives the stream's open block to the agent, unless the agent still has it, and unlocks the Port. It is not inlined, as
// most records find their block with the agent.
//
//go:noinline
func (p *Port) queue(s *stream) {
	queued := enqueue(p, s)
	p.mu.Unlock()
	if queued {
		rma.RingEvent(p.agent, p.event)
	}
}

// enqueue puts the stream's open block into Ready, unless the agent still has it, and reports whether it has. The Port is locked.
func enqueue(p *Port, s *stream) (queued bool) {
	b := s.open
	for state := atomic.LoadUint32(&b.State); state != layout.BlockQueued && !queued; state = atomic.LoadUint32(&b.State) {
		queued = atomic.CompareAndSwapUint32(&b.State, state, layout.BlockQueued)
	}
	if queued {
		atomic.StoreUint32(&p.wire.Ready[p.tail%layout.WireBlocks], uint32(s.index))
		p.tail++
		atomic.SwapUint64(&p.wire.Tail, p.tail) // not Store (wait.Cond.Agent): the agent's bell is read after it
	}
	return queued
}

// AnnounceTeam tells the agent that the words of a team of the PE have changed (layout.Upper).
func AnnounceTeam(p *Port, id int) {
	atomic.OrUint64(&p.wire.Teams, 1<<id)
	rma.RingEvent(p.agent, p.event)
}

// makeRoom returns when the stream may have an open block with room for a record of size bytes. Other goroutines may
// use the room before the caller does.
func (p *Port) makeRoom(ctx context.Context, s *stream, to target, size int) error {
	for {
		if err := p.deaths.gone(to); err != nil {
			return err
		}
		p.mu.Lock()
		if s.open != nil && layout.WireBody-int(s.fill) >= size {
			p.mu.Unlock()
			return nil
		}
		p.pool.close(s)
		p.pool.reclaim(s)
		full := s.held() >= maxStream
		ok := !full && p.pool.open(s)
		oldest, enough := p.pool.blocks[s.first].end, p.pool.endOf(s, maxStream/2) // of use if full: all blocks are closed
		p.mu.Unlock()
		if ok {
			return nil
		}
		var err error
		switch {
		case !full:
			err = p.awaitSupply(ctx, to, func() bool { return p.pool.has(s) })
		case s.executed() < oldest:
			// One block would do, but a sleep for each takes longer than to fill it.
			err = p.await(ctx, &wait.Cond{Addr: unsafe.Pointer(s.done), Val: enough, Width: 8, Cmp: wait.GE}, to)
		default: // the agent has found nothing new in the block, and is about to leave it
			err = p.awaitSupply(ctx, to, func() bool { p.pool.reclaim(s); return s.held() < maxStream })
		}
		if err != nil {
			return fmt.Errorf("wait for a free block to send to node %d: %w", to.node, err)
		}
	}
}
