package tcp

import (
	"errors"
	"fmt"
	"io"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/transport"
)

// laneState is where a lane is between two connections.
//
//	closed   a Post to the Out lane begins to dial; a Post to the In lane fails
//	dialing  of an Out lane: posts are kept for the connection
//	open     posts go to the connection
//	over     the connection or attempt has ended; posts are dropped when Poll reports it, and the lane is closed then
type laneState uint8

const (
	closed laneState = iota
	dialing
	open
	over
)

// lane is one of the two connections to a node.
type lane struct {
	node  int
	kind  transport.Lane
	state laneState
	peer  *peer

	dirty    bool  // the lane is in Transport.dirty
	blocked  bool  // the kernel has no room; epoll will say when it has, unless a send has failed
	failed   error // of a send; the lane ends when all that has come is received
	socket   *socket
	attempts uint32 // Out: numbers given out; In: the highest one of an open connection
	queue    transport.Queue

	generation uint32 // of the connection that is over
	refused    bool   // it was an attempt
	err        error  // why it is over
	failures   []error
	address    int // Out: index of the address to try next

	next *socket // In: a newer connection, open as soon as the end of the present one is reported
}

// event returns an event of the lane's connection.
func (l *lane) event(kind transport.Kind) transport.Event {
	return transport.Event{Kind: kind, Node: l.node, Lane: l.kind, Generation: l.attempts}
}

// end ends the connection of a lane, or the attempt to open it.
func (t *Transport) end(l *lane, err error) {
	if l.state != dialing && l.state != open {
		return
	}
	l.refused = l.state == dialing
	l.state, l.err, l.generation = over, err, l.attempts
	l.blocked, l.failed = false, nil
	if l.socket != nil {
		t.drop(l.socket)
	}
	t.ends.push(l)
}

// reportEnd appends the event of the lane that has waited longest for it.
func (t *Transport) reportEnd() {
	if t.ends.len() == 0 {
		return
	}
	l := t.ends.pop()
	e := l.event(transport.Broken)
	e.Generation, e.Err = l.generation, fmt.Errorf("connection with node %d, %s lane: %w", l.node, l.kind, l.err)
	if l.refused {
		e.Kind = transport.Refused
	}
	l.state, l.err = closed, nil
	l.queue.Clear()
	t.events = append(t.events, e)
	if s := l.next; s != nil {
		l.next = nil
		t.admit(l, s)
	}
}

// markDirty notes that a lane has something to send. It does nothing if the lane cannot send.
func (t *Transport) markDirty(l *lane) {
	if l.state == open && !l.dirty && !l.blocked {
		l.dirty = true
		t.dirty.push(l)
	}
}

// Flush sends what was posted: see transport.Flusher.
func (t *Transport) Flush(events []transport.Event) []transport.Event {
	if t.closed {
		return events
	}
	t.events = events
	defer func() { t.events = nil }()
	t.flush()
	return t.events
}

// flush sends what lanes have, each in its turn.
func (t *Transport) flush() {
	left := flushBytes
	for n := t.dirty.len(); n > 0 && left > 0; n-- {
		l := t.dirty.pop()
		l.dirty = false
		if l.state == open {
			left -= t.send(l)
		}
	}
}

// send sends the first posts of a lane and returns the number of bytes.
func (t *Transport) send(l *lane) int {
	for i := range l.queue.Len() {
		p := l.queue.Piece(i)
		p = p[:min(len(p), sendBytes-t.vector.Bytes())]
		if len(p) > 0 && !t.vector.Add(p) || t.vector.Bytes() == sendBytes {
			break
		}
	}
	sent, all := 0, t.vector.Bytes()
	if all > 0 {
		var err error
		sent, err = t.vector.Send(l.socket.fd)
		if err != nil && !errors.Is(err, xunix.ErrAgain) {
			l.blocked, l.failed = true, err
			t.queueInput(l.socket)
			return 0
		}
	}
	t.events = l.queue.Take(sent, t.events, l.event(transport.Sent))
	switch {
	case sent < all:
		l.blocked = true
		t.watchRoom(l, true)
	case l.queue.Len() > 0:
		t.markDirty(l)
	default:
		t.watchRoom(l, false)
	}
	return sent
}

// watchRoom makes epoll say when the kernel has room for a lane's output, or stops it. While a lane has output epoll
// goes on to say it, so that a long transfer does not change the watch for each of its parts.
func (t *Transport) watchRoom(l *lane, on bool) {
	if l.socket.watched == on {
		return
	}
	if err := t.epoll.Change(l.socket.fd, l.socket.id, on); err != nil {
		t.end(l, err)
		return
	}
	l.socket.watched = on
}

// receive reads from connections that have input into the room that is left, each in its turn.
func (t *Transport) receive() {
	for t.input.len() > 0 && len(t.room)-t.used >= leastRoom {
		s := t.input.pop()
		s.queued = false
		if s.phase != phaseOpen {
			continue
		}
		b := t.room[t.used:min(len(t.room), t.used+receiveBytes)]
		n, err := xunix.ReceiveSocket(s.fd, b)
		switch {
		case err == nil:
			e := s.lane.event(transport.Received)
			e.Data = b[:n:n]
			t.events = append(t.events, e)
			t.used = min(len(t.room), (t.used+n+dataAlign-1)&^(dataAlign-1))
			if s.lane.failed != nil {
				t.queueInput(s)
			}
		case s.lane.failed != nil:
			t.end(s.lane, s.lane.failed)
		case errors.Is(err, io.EOF):
			t.end(s.lane, errEnd)
		case !errors.Is(err, xunix.ErrAgain):
			t.end(s.lane, err)
		}
	}
}

var errEnd = fmt.Errorf("the other end has closed it: %w", io.EOF)

// queueInput makes receive read from a connection.
func (t *Transport) queueInput(s *socket) {
	if !s.queued {
		s.queued = true
		t.input.push(s)
	}
}
