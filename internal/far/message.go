package far

import (
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Messages go by streams of a class of their own, with their own numbers, counts and blocks. So a message that waits for its
// receiver holds up no one-sided operation, and no Quiet.

// Message is a cell for the inbox of a PE of another node (package lane).
type Message struct {
	Kind        uint8
	Match, Size uint64
	Body        *[layout.CellBody]byte // nil: the data take its place
	Data        unsafe.Pointer
	N           int // bytes of data, record.MaxMessage at most
}

// TrySend gives a message to the agent, all of it or nothing. It returns false if there is no room, and never waits. Room comes
// when the node has taken earlier messages: the agent rings this PE's bell then.
//
//   - last: the message is the last one to the PE for some time, and may go beyond the quota of the node.
func TrySend(p *Port, pe layout.PE, m *Message, last bool) bool {
	to := p.target(pe)
	s := &p.streams[layout.ClassMessage*p.nodes+to.node]
	p.mu.Lock()
	if !reserve(p, s, m, last) {
		p.mu.Unlock()
		return false
	}
	*p.begun++
	s.peer = pe
	queued := sendMessage(p, s, to.local, m)
	p.mu.Unlock()
	if queued {
		rma.RingEvent(p.agent, p.event)
	}
	return true
}

// messageSize returns at least the bytes that the records of a message take in blocks, those left free at the ends included.
func messageSize(m *Message) int {
	head := record.SizeMessage(record.MessageBody, 0)
	return head + m.N + (m.N/(layout.WireBody-leastPut)+2)*record.SizeMessagePart(8)
}

// reserve reports whether the stream has room for a message, with blocks that it may open now. The Port is locked.
func reserve(p *Port, s *stream, m *Message, last bool) bool {
	size := messageSize(m)
	if s.open != nil && layout.WireBody-int(s.fill) >= size {
		return true
	}
	need := size/(layout.WireBody-leastPut) + 1
	p.pool.reclaim(s)
	return p.pool.mayOpenMore(s, need, last) || p.pool.sweepFor(s, need, last)
}

// sendMessage writes the records of a message for which there is room. It returns whether a block was put into Ready. The Port is locked.
func sendMessage(p *Port, s *stream, to layout.Local, m *Message) (queued bool) {
	var body []byte
	if m.Body != nil {
		body = m.Body[:]
	}
	head := record.SizeMessage(m.Kind, 0)
	if body != nil {
		head = record.SizeMessage(record.MessageBody, 0)
	}
	for at, first := 0, true; first || at < m.N; first = false {
		if !first {
			head = record.SizeMessagePart(0)
		}
		if s.open == nil || layout.WireBody-int(s.fill) < head+min(pad8(m.N-at), leastPut) {
			p.pool.close(s)
			p.pool.take(s) // reserve has seen that there is one
		}
		n := min(m.N-at, layout.WireBody-int(s.fill)-head)
		code := uint8(0)
		if at+n < m.N {
			code = record.MessageCut
		}
		b := s.open.Body[:s.fill]
		var data []byte
		if first {
			b, data = record.ReserveMessage(b, to, code|m.Kind, m.Match, m.Size, body, n)
		} else {
			b, data = record.ReserveMessagePart(b, to, code, n)
		}
		copy(data, unsafe.Slice((*byte)(unsafe.Add(m.Data, at)), n))
		at += n
		queued = commit(p, s, len(b)) || queued
	}
	return queued
}

// pad8 rounds n up to a multiple of 8.
func pad8(n int) int { return (n + 7) &^ 7 }

// commit gives a record that was appended to the open block to the agent, as end does. It returns whether the block was put into
// Ready. The Port stays locked, and the caller rings.
func commit(p *Port, s *stream, fill int) bool {
	b := s.open
	s.fill = uint32(fill)
	s.next++
	rma.StoreRelease32(&b.Fill, s.fill)
	if p.locked {
		atomic.AddUint32(&b.State, 0)
	}
	return enqueue(p, s)
}

// mayOpenMore says whether a stream of messages may open so many blocks now. A node that has none may have any that are free. Further ones
// it may have as long as the class keeps as many free as the node has. So nodes that take nothing leave some to the others.
func (p *pool) mayOpenMore(s *stream, need int, last bool) bool {
	free := min(len(p.free), maxClass-p.used[s.class])
	switch held := s.held(); {
	case last:
		return need <= len(p.free)
	case held == 0 || held == 1 && s.open != nil:
		return need <= free
	default:
		return held+need <= min(free+1, maxStream)
	}
}

// sweepFor is mayOpenMore after a sweep.
func (p *pool) sweepFor(s *stream, need int, last bool) bool {
	p.sweep()
	return p.mayOpenMore(s, need, last)
}

// Taken reports whether other nodes have taken all messages that were sent, or are lost.
func Taken(p *Port) bool {
	for node := range p.nodes {
		s := &p.streams[layout.ClassMessage*p.nodes+node]
		p.mu.Lock()
		next := s.next
		p.mu.Unlock()
		if s.executed() < next && p.deaths.lostNode(node) == nil {
			return false
		}
	}
	return true
}

// RingAgent wakes the agent if it sleeps and *want is not 0. The caller has stored what the agent waits for.
func RingAgent(p *Port, want *uint32) { rma.RingWantedEvent(p.agent, want, p.event) }
