package sim

import (
	"fmt"
	"time"

	"github.com/goshmem/goshmem/transport"
)

// Transport is the transport of a node. See transport.Transport for its methods.
type Transport struct {
	net    *Network
	self   int
	lanes  [][2]lane // by node
	ends   []*lane   // whose Broken or Refused is to be reported
	closed bool
	woken  bool
	signal chan struct{} // holds one token after something has changed for this node

	events []transport.Event // of the current Poll
	steps  []step
	room   []byte // of received data
	used   int
}

var _ transport.Transport = (*Transport)(nil)

// roomSize bounds the received bytes of a Poll.
const roomSize = 128 << 10

// stir ends the wait of a Poll.
func (t *Transport) stir() {
	select {
	case t.signal <- struct{}{}:
	default:
	}
}

// check returns an error unless the transport is open and has the lane of another node.
func (t *Transport) check(node int, kind transport.Lane) error {
	if t.closed {
		return transport.ErrClosed
	}
	return transport.CheckLane(node, t.self, len(t.lanes), kind)
}

// Post queues parts: see transport.Transport.
func (t *Transport) Post(node int, kind transport.Lane, token uint64, parts ...[]byte) error {
	t.net.mu.Lock()
	defer t.net.mu.Unlock()
	if err := t.check(node, kind); err != nil {
		return fmt.Errorf("post to node %d, lane %s: %w", node, kind, err)
	}
	l := &t.lanes[node][kind]
	if l.state == closed {
		if kind == transport.In {
			return transport.ErrNotOpen
		}
		l.state = dialing
		l.generation++
	}
	l.queue.Push(token, parts)
	return nil
}

// Cut ends a connection: see transport.Transport.
func (t *Transport) Cut(node int, kind transport.Lane, cause error) {
	t.net.mu.Lock()
	defer t.net.mu.Unlock()
	if t.check(node, kind) == nil {
		t.lanes[node][kind].end(fmt.Errorf("cut: %w", cause))
	}
}

// Poll makes steps and reports what has happened: see transport.Transport.
func (t *Transport) Poll(events []transport.Event, timeout time.Duration) ([]transport.Event, error) {
	var over <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		over = timer.C
	}
	t.net.mu.Lock()
	defer t.net.mu.Unlock()
	if t.room == nil {
		t.room = make([]byte, roomSize)
	}
	for i := range t.room[:t.used] {
		t.room[i] = 0xdb
	}
	t.used = 0
	began := len(events)
	t.events = events
	for {
		if t.closed {
			return t.events, transport.ErrClosed
		}
		t.reportEnd() // there is no event before it: with one Poll has returned
		moved := t.run()
		if len(t.events) > began || t.woken {
			t.woken = false
			return t.events, nil
		}
		switch {
		case len(t.ends) > 0: // it is the first event of the next round
		case timeout == 0:
			return t.events, nil
		case moved:
		case t.wait(over):
			return t.events, nil
		}
	}
}

// wait waits until something has changed for this node, and returns whether the time was over before.
func (t *Transport) wait(over <-chan time.Time) bool {
	t.net.mu.Unlock()
	defer t.net.mu.Lock()
	select {
	case <-t.signal:
		return false
	case <-over:
		return true
	}
}

// run makes some of the steps that are possible, and returns whether there was one.
func (t *Transport) run() bool {
	choose := t.net.cfg.Choose
	for made := range 1 + choose(t.net.cfg.Steps) {
		t.steps = t.steps[:0]
		for node := range t.lanes {
			for kind := range t.lanes[node] {
				t.steps = t.lanes[node][kind].possible(t.steps)
			}
		}
		if len(t.steps) == 0 {
			return made > 0
		}
		s := t.steps[choose(len(t.steps))]
		if cuts := t.net.cfg.Cuts; cuts > 0 && s.lane.conn != nil && choose(cuts) == 0 {
			s.lane.end(errChance)
			continue
		}
		s.do()
	}
	return true
}

// reportEnd appends the event of the lane that has waited longest for it.
func (t *Transport) reportEnd() {
	if len(t.ends) == 0 {
		return
	}
	l := t.ends[0]
	t.ends = t.ends[:copy(t.ends, t.ends[1:])]
	e := l.event(transport.Broken)
	if l.refused {
		e.Kind = transport.Refused
	}
	e.Err = fmt.Errorf("connection with node %d, %s lane: %w", l.node, l.kind, l.err)
	l.state, l.err = closed, nil
	l.queue.Clear()
	t.events = append(t.events, e)
}

// Wake makes Poll return: see transport.Transport.
func (t *Transport) Wake() {
	t.net.mu.Lock()
	defer t.net.mu.Unlock()
	t.woken = true
	t.stir()
}

// WakeFD returns -1: other processes cannot wake a simulation.
func (t *Transport) WakeFD() int { return -1 }

// Close ends all connections: see transport.Transport.
func (t *Transport) Close() error {
	t.net.mu.Lock()
	defer t.net.mu.Unlock()
	if t.closed {
		return nil
	}
	t.closed = true
	for node := range t.lanes {
		for kind := range t.lanes[node] {
			l := &t.lanes[node][kind]
			l.end(transport.ErrClosed)
			l.queue.Clear()
			if l.arrived != nil {
				l.arrived.over = true
				t.net.nodes[node].stir()
			}
		}
	}
	t.ends = nil
	t.stir()
	return nil
}
