package tcp

import (
	"fmt"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/transport"
)

// Poll moves bytes and reports what has happened: see transport.Transport.
func (t *Transport) Poll(events []transport.Event, timeout time.Duration) ([]transport.Event, error) {
	if t.closed {
		return events, transport.ErrClosed
	}
	began := len(events)
	t.events, t.used = events, 0
	defer func() { t.events = nil }()
	var until time.Time // the end of the timeout, if that is positive; zero in the first round, which so needs no clock
	t.reportEnd()
	for {
		t.connect()
		t.flush()
		left := timeout
		if !until.IsZero() {
			left = max(time.Until(until), 0)
		}
		woken, err := t.wait(t.patience(len(t.events) > began, left))
		if err != nil {
			return t.events, fmt.Errorf("tcp transport: %w", err)
		}
		t.receive()
		if len(t.events) == began {
			t.reportEnd()
		}
		if woken || len(t.events) > began || left == 0 {
			return t.events, nil
		}
		if timeout > 0 && until.IsZero() {
			if len(t.ready) == 0 { // the timeout is over, or this is early
				return t.events, nil
			}
			until = time.Now().Add(timeout)
		}
	}
}

// patience returns how long the epoll may wait: not at all if there is something to do or to report.
func (t *Transport) patience(reports bool, timeout time.Duration) time.Duration {
	if reports || timeout == 0 || t.ends.len() > 0 || t.dirty.len() > 0 || t.input.len() > 0 || t.dials.len() > 0 {
		return 0
	}
	if len(t.shaking) == 0 && t.doors.deafUntil.IsZero() {
		return timeout
	}
	var first time.Time // zero: no limit
	if timeout > 0 {
		first = time.Now().Add(timeout)
	}
	for _, s := range t.shaking {
		first = earlier(first, s.shake.deadline)
	}
	return max(time.Until(earlier(first, t.doors.deafUntil)), 0)
}

// earlier returns the earlier of two times, of which a zero one is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// wait waits until something is ready and serves it, except for received data, which it queues. It returns whether the
// owner has to look at something that is no event.
func (t *Transport) wait(timeout time.Duration) (woken bool, err error) {
	t.ready, woken, err = t.epoll.Wait(t.ready[:0], timeout)
	if err != nil {
		return woken, err
	}
	for _, r := range t.ready {
		switch {
		case r.ID&watchID != 0:
			if t.express == nil || !t.express.owner.Ready(int(uint32(r.ID))) {
				woken, t.had = true, true
			}
		case r.ID&listenerID != 0:
			t.accept(int(r.ID &^ listenerID))
		default:
			if s := t.sockets.find(r.ID); s != nil {
				t.serve(s, r)
			}
		}
	}
	return woken, t.expire()
}

// serve serves a connection that is ready.
func (t *Transport) serve(s *socket, r xunix.Readiness) {
	switch s.phase {
	case phaseOpen:
		if r.Out && s.lane.blocked && s.lane.failed == nil {
			s.lane.blocked = false
			t.markDirty(s.lane)
		}
		if r.In {
			t.queueInput(s)
		}
	case phaseExpress:
		t.express.serve(s)
	case phaseConnect:
		if err := t.finishConnect(s); err != nil {
			t.failDial(s, err)
		}
	case phaseAnswer, phaseWelcome:
		if err := t.serveDialer(s); err != nil {
			t.failDial(s, err)
		}
	case phaseHello, phaseProof:
		if c, err := t.serveListener(s); err != nil {
			t.turnAway(s, c, err)
		}
	case phaseGone, phaseWaiting: // the next Poll opens what waits, and hears then what comes
	}
}

// expire ends handshakes that take too long.
func (t *Transport) expire() error {
	if len(t.shaking) == 0 && t.doors.deafUntil.IsZero() {
		return nil
	}
	now := time.Now()
	for i := 0; i < len(t.shaking); {
		s := t.shaking[i]
		switch {
		case now.Before(s.shake.deadline):
			i++
		case s.isStranger():
			t.turnAway(s, codeNone, fmt.Errorf("it has taken more than %v", t.cfg.Handshake))
		default:
			t.failDial(s, fmt.Errorf("it has taken more than %v", t.cfg.Dial))
		}
	}
	if !t.doors.deafUntil.IsZero() && !now.Before(t.doors.deafUntil) {
		return t.doors.hear(t.epoll)
	}
	return nil
}

// drop closes a connection.
func (t *Transport) drop(s *socket) {
	if s.phase == phaseGone {
		return
	}
	if s.shake != nil {
		t.shaking.forget(s)
	}
	s.phase = phaseGone
	t.epoll.Remove(s.fd)
	xunix.CloseSocket(s.fd)
	t.sockets.remove(s)
	if s.lane != nil && s.lane.socket == s {
		s.lane.socket = nil
	}
}
