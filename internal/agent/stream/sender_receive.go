package stream

import (
	"fmt"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Sink is what the driver does with the replies to a Sender.
type Sink interface {
	// Done stores a count in the PE's Done[class][node], with release order. The count may be the same as before.
	Done(local layout.Local, class, node int, count uint64)
	// Data copies a part of the data of an answer to offset to of the PE's segment.
	Data(local layout.Local, to uint64, data []byte)
	// Answer completes a slot of the PE: value and status, then Seq = number+1 with release order. All data
	// of the answer was given to Data before.
	Answer(local layout.Local, slot uint32, number uint64, status record.Status, value uint64)
}

// Received takes bytes that have come on the connection that this node opened. After an error, all that comes
// on this connection is ignored: the node does not keep to the protocol.
func (s *Sender) Received(node int, generation uint32, data []byte, sink Sink) error {
	n := &s.nodes[node]
	if !n.opened || generation != n.generation || n.state < greeting || n.state > running {
		return nil
	}
	if err := n.parser.each(data, func(p *piece) error { return s.handle(node, p, sink) }); err != nil {
		n.state = failed
		n.turns.clear()
		return fmt.Errorf("node %d: %w", node, err)
	}
	return nil
}

// handle handles a piece.
func (s *Sender) handle(node int, p *piece, sink Sink) error {
	n := &s.nodes[node]
	if p.Kind == KindExecuted || p.Kind == KindWelcome {
		if n.state != waiting {
			return p.bad("kind", uint64(p.Kind), "none before a hello and none after the welcome")
		}
	} else if n.state != running {
		return p.bad("kind", uint64(p.Kind), "executed or welcome before all else")
	}
	if p.Kind == KindWelcome {
		return s.resume(node, sink)
	}
	if int(p.Local) >= s.c.Near {
		return p.bad("local PE", uint64(p.Local), "less than %d", s.c.Near)
	}
	pe := &s.pes[p.Local]
	switch {
	case !pe.dropped && p.Incarnation > pe.incarnation:
		return p.bad("incarnation", uint64(p.Incarnation), "at most %d", pe.incarnation)
	case pe.hasDropped(int(p.Class)) || p.Incarnation < pe.incarnation || n.streams == nil:
		return nil // of a PE that is no more
	}
	at := streamIndex(layout.Local(p.Local), int(p.Class))
	st := &n.streams[at]
	switch p.Kind {
	case KindExecuted:
		if p.Number > st.next || p.Word > p.Number {
			return p.bad("executed", p.Number, "%d to %d", p.Word, st.next)
		}
		st.resume = p.Number
		return s.setDone(node, at, p.Word, sink)
	case KindDone:
		if p.Number > st.sent {
			return p.bad("done", p.Number, "at most the %d records that were sent", st.sent)
		}
		if p.Number == st.done { // a reminder: the records above wait for a PE there, and its node lives
			sink.Done(layout.Local(p.Local), int(p.Class), node, p.Number)
			return nil
		}
		return s.setDone(node, at, p.Number, sink)
	default:
		return s.handleAnswer(n, st, p, sink)
	}
}

// setDone raises the number of records that are done.
func (s *Sender) setDone(node, at int, done uint64, sink Sink) error {
	n := &s.nodes[node]
	st := &n.streams[at]
	if done <= st.done {
		return nil
	}
	st.done = done
	st.answered = max(st.answered, done)
	if done == st.next && st.busy {
		st.busy = false
		n.busy--
	}
	s.release(n, at)
	sink.Done(localOf(at), at%layout.WireClasses, node, done)
	return nil
}

// handleAnswer handles a value or a part of the data of an answer.
func (s *Sender) handleAnswer(n *outNode, st *outStream, p *piece, sink Sink) error {
	if p.at == 0 {
		if p.Number >= st.sent {
			return p.bad("number", p.Number, "less than the %d records that were sent", st.sent)
		}
		n.skip = p.Number < st.answered // the answer has come already
		if p.Kind == KindData && !n.skip {
			if err := s.c.Limits.CheckAnswer(p.Word, uint64(p.Bytes)); err != nil {
				return fmt.Errorf("%w: answer to request %d of local PE %d: %w", ErrFrame, p.Number, p.Local, err)
			}
		}
	}
	if n.skip {
		return nil
	}
	value := p.Word
	if p.Kind == KindData {
		sink.Data(layout.Local(p.Local), p.Word+uint64(p.at), p.body)
		value = 0
	}
	if p.whole {
		slot, status := p.slotAndStatus()
		st.answered = p.Number + 1
		sink.Answer(layout.Local(p.Local), slot, p.Number, status, value)
	}
	return nil
}

// resume begins to send records, from the first one that is not executed.
func (s *Sender) resume(node int, sink Sink) error {
	n := &s.nodes[node]
	for at := range n.streams {
		st := &n.streams[at]
		if st.resume < st.done {
			return fmt.Errorf("%w: welcome: %d records of local PE %d, class %d are executed, want at least the %d that were done before",
				ErrFrame, st.resume, localOf(at), at%layout.WireClasses, st.done)
		}
		if err := s.rewind(n, at); err != nil {
			return err
		}
	}
	n.state = running
	s.turns.add(node)
	return nil
}

// rewind makes the first record that is not executed the next one to be sent.
func (s *Sender) rewind(n *outNode, at int) error {
	st, blocks := &n.streams[at], s.pes[localOf(at)].blocks
	st.sent, st.unsent = st.resume, 0
	for i := st.first; i != 0; {
		b := &blocks[i-1]
		b.sent, b.sentBytes = 0, 0
		if st.resume > b.first {
			b.sent = int(min(st.resume-b.first, uint64(b.records)))
			rest, err := record.Skip(b.body, b.sent)
			if err != nil {
				return fmt.Errorf("block %d of local PE %d: %w", i-1, localOf(at), err)
			}
			b.sentBytes = len(b.body) - len(rest)
		}
		if st.unsent == 0 && b.sent < b.records {
			st.unsent = i
		}
		i = b.next
	}
	if st.unsent != 0 {
		n.turns.add(at)
	}
	return nil
}
