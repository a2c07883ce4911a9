package agent

import (
	"fmt"
	"sync/atomic"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/internal/agent/stream"
	"github.com/goshmem/goshmem/symheap/layout"
	"github.com/goshmem/goshmem/transport"
)

// box returns the outbox of a lane.
func (a *Agent) box(node int, lane transport.Lane) *outbox { return &a.boxes[node][lane] }

// take does what an event of the transport says.
func (a *Agent) take(e *transport.Event) {
	out := e.Lane == transport.Out
	switch e.Kind {
	case transport.Opened:
		if out {
			a.release(e.Node)
			a.retries[e.Node].err = nil
			a.sender.Opened(e.Node, e.Generation)
		} else {
			a.receiver.Opened(e.Node, e.Generation)
		}
	case transport.Received:
		a.cfg.Page.Carried.Received += uint64(len(e.Data))
		var err error
		if out {
			a.progress = false
			err = a.sender.Received(e.Node, e.Generation, e.Data, (*sink)(a))
			if a.progress {
				a.retries[e.Node].tries = 0
				a.waits.progress(e.Node)
			}
		} else {
			err = a.receiver.Received(e.Node, e.Generation, e.Data, (*executor)(a))
		}
		if err != nil {
			a.log(err)
			a.cfg.Transport.Cut(e.Node, e.Lane, err)
		}
	case transport.Sent:
		p, ok := a.box(e.Node, e.Lane).pop()
		switch {
		case !ok: // of a connection that was given up
		case out:
			a.sender.Sent(e.Node, e.Generation, p.frames, p.bytes)
		default:
			a.receiver.Sent(e.Node, e.Generation, p.frames, p.bytes)
		}
	case transport.Broken, transport.Refused:
		if e.Kind == transport.Broken && a.cfg.Broken != nil {
			a.cfg.Broken(e.Node)
		}
		a.box(e.Node, e.Lane).clear()
		if out && a.sender.IsBusy(e.Node) {
			a.log(fmt.Errorf("connection with node %d: %w", e.Node, e.Err))
		}
		if out {
			a.sender.Broken(e.Node, e.Generation)
			a.hold(e.Node, e.Err)
		} else {
			a.receiver.Broken(e.Node, e.Generation)
		}
	}
}

// sink is the agent as the streams' sender sees it: the memory of the PEs that have asked.
type sink Agent

// Done stores a count. The PE is woken when all that has come is handled.
func (s *sink) Done(local layout.Local, class, node int, count uint64) {
	s.progress = true
	if local == s.own.local {
		s.own.done(node, count)
		return
	}
	s.cfg.Page.Traffic[local].Received += stream.HeaderSize
	atomic.SwapUint64(&s.sources[local].wire.Done[class][node], count) // ordered before the bell (wait.Cond.Agent)
	s.memory.touch(local)
}

// Data copies a part of an answer to the PE's segment.
func (s *sink) Data(local layout.Local, to uint64, data []byte) {
	s.progress = true
	s.cfg.Page.Traffic[local].Received += uint64(len(data))
	put(s.memory.at(local, to), data, to)
}

// Answer completes a slot, and wakes the PE.
func (s *sink) Answer(local layout.Local, slot uint32, number uint64, status record.Status, value uint64) {
	s.progress = true
	s.cfg.Page.Traffic[local].Received += stream.HeaderSize
	w := &s.sources[local].wire.Slots[slot]
	w.Value, w.Status = value, uint32(status)
	atomic.SwapUint64(&w.Seq, number+1) // ordered before the bell (wait.Cond.Agent)
	s.memory.ringOne(local)
}

// executor is the agent as the streams' receiver sees it: the memory of the PEs that are asked.
type executor Agent

// Execute executes a record of another node.
func (x *executor) Execute(source stream.Source, r *record.Record) (record.Status, uint64) {
	switch r.Op {
	case record.OpFetchOnce:
		return x.repeat(source, r)
	case record.OpTeam:
		if message, whole := x.own.receive(source.Node, r.Data()); whole {
			x.teams.Receive(source.Node, message)
		}
		return record.StatusOK, 0
	case record.OpMessage, record.OpMessagePart:
		return x.inboxes.receive(source, r), 0
	}
	status, value := x.perform(r)
	if status == record.StatusBad {
		(*Agent)(x).log(fmt.Errorf("PE %d of node %d: %w", source.Local, source.Node, x.memory.limits.Check(r)))
	}
	return status, value
}

// PutWords executes puts of 8 bytes: see stream.Executor.
func (x *executor) PutWords(_ stream.Source, body []byte, most int) int {
	return x.memory.putWords(body, most)
}

// perform executes a record that the limits pass and whose target is alive.
func (x *executor) perform(r *record.Record) (record.Status, uint64) {
	m := x.memory
	if m.limits.IsWordPut(r) {
		if m.dead[r.Local] {
			return record.StatusDead, 0
		}
		m.putWord(r)
		return record.StatusOK, 0
	}
	switch {
	case m.limits.Check(r) != nil:
		return record.StatusBad, 0
	case m.dead[r.Local]:
		return record.StatusDead, 0
	default:
		return record.StatusOK, m.execute(r)
	}
}

// accuse drops a PE of this node whose words are not what a PE writes.
func (a *Agent) accuse(pe layout.Local, format string, args ...any) {
	a.dropSource(pe)
	if a.cfg.Fault != nil {
		a.cfg.Fault(pe, fmt.Errorf(format, args...))
	}
}
