package tcp

import (
	"crypto/hmac"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/transport"
)

// acceptTurn is how many connections a Poll accepts from a listener.
const acceptTurn = 16

// accept takes connections from a listener.
func (t *Transport) accept(listener int) {
	for range acceptTurn {
		fd, from, err := xunix.AcceptTCP(t.doors.fds[listener])
		switch {
		case errors.Is(err, xunix.ErrAgain):
			return
		case errors.Is(err, xunix.ErrNoDescriptors):
			makeRoom(t, err)
			return
		case err != nil:
			t.doors.countStranger(err)
			continue
		}
		if t.shaking.strangers() >= t.cfg.Pending {
			t.turnAway(t.shaking.oldestStranger(), codeNone, fmt.Errorf("no room: %d connections are in their handshakes", t.cfg.Pending))
		}
		s := &socket{fd: fd, phase: phaseHello}
		s.shake = &handshake{peer: from, deadline: time.Now().Add(t.cfg.Handshake)}
		if err := t.keep(s); err != nil {
			t.doors.countStranger(err)
		}
	}
}

// makeRoom closes the oldest handshake when no descriptor is left. If there is none, it stops to look at the listeners
// for a while: they stay ready, and Poll would turn in a circle.
func makeRoom(t *Transport, err error) {
	if s := t.shaking.oldestStranger(); s != nil {
		t.turnAway(s, codeNone, err)
		return
	}
	t.doors.deafen(t.epoll)
}

// turnAway closes an accepted connection, with a last word if there is a code.
func (t *Transport) turnAway(s *socket, c code, err error) {
	switch {
	case c == codeNone:
	case s.phase == phaseHello:
		a := answer{Code: c}
		_ = s.say(&t.vector, a.encode(nil)) // the connection is closed anyway
	case s.shake.hello.Express != 0:
		_ = s.say(&t.vector, encodeCall(nil, c, 0))
	default:
		_ = s.say(&t.vector, encodeWelcome(nil, c))
	}
	t.doors.countStranger(fmt.Errorf("%s, waiting for %s: %w", s.shake.peer, s.phase, err))
	t.drop(s)
}

// serveListener takes the dialer's next word. After an error it says with which code the dialer is turned away.
func (t *Transport) serveListener(s *socket) (code, error) {
	size, take := helloSize, t.takeHello
	if s.phase == phaseProof {
		size, take = proofSize, t.takeProof
	}
	word, err := s.hear(size)
	if word == nil || err != nil {
		return codeNone, err
	}
	return take(s, word)
}

// takeHello proves to a dialer that this is the node that it wants.
func (t *Transport) takeHello(s *socket, word []byte) (code, error) {
	h, err := parseHello(word)
	if err != nil {
		return codeNone, err
	}
	if h.Listener != uint32(t.cfg.Self) {
		return codeMisrouted, fmt.Errorf("it wants node %d, this is node %d", h.Listener, t.cfg.Self)
	}
	if h.Dialer >= uint32(t.cfg.Nodes) || t.peers[h.Dialer] == nil {
		return codeUnknown, fmt.Errorf("it says that it is node %d, of which nothing is known", h.Dialer)
	}
	if theirs := t.peers[h.Dialer].incarnation; h.ListenerIncarnation != t.cfg.Incarnation || h.DialerIncarnation != theirs {
		return codeIncarnation, fmt.Errorf("it is incarnation %d of node %d and wants %d of this node, want %d and %d",
			h.DialerIncarnation, h.Dialer, h.ListenerIncarnation, theirs, t.cfg.Incarnation)
	}
	if h.Express != 0 && t.express == nil {
		return codeFull, errors.New("it wants an express socket, and none is taken")
	}
	k := s.shake
	if k.token, err = newToken(t.cfg.Secret, t.cfg.Job, h.ends); err != nil {
		return codeNone, err
	}
	k.hello = h
	rand.Read(k.answer.Nonce[:])
	k.answer.MAC = k.token.proveListener(&h, &k.answer.Nonce)
	s.phase = phaseProof
	return codeNone, s.say(&t.vector, k.answer.encode(nil))
}

// takeProof checks the dialer's proof and opens the lane, at once or after the end of an older connection is reported.
func (t *Transport) takeProof(s *socket, word []byte) (code, error) {
	p, err := parseProof(word)
	if err != nil {
		return codeNone, err
	}
	k := s.shake
	mac := k.token.proveDialer(&p, &k.answer.Nonce)
	said := k.hello.proof(t.cfg.Job)
	said.MAC = mac
	if !hmac.Equal(mac[:], p.MAC[:]) || p != said {
		return codeStranger, errors.New("its proof is wrong: it is not of this job")
	}
	peer := t.peers[p.Node]
	if p.Incarnation != peer.incarnation {
		return codeIncarnation, fmt.Errorf("it is incarnation %d of node %d, want %d", p.Incarnation, p.Node, peer.incarnation)
	}
	if p.Express != 0 {
		return t.express.admit(s)
	}
	l := &peer.lanes[transport.In]
	newest := l.attempts
	if l.next != nil {
		newest = l.next.shake.hello.Generation
	}
	if p.Generation <= newest {
		return codeOld, fmt.Errorf("it is connection %d of node %d, want more than %d", p.Generation, p.Node, newest)
	}
	if l.next != nil {
		t.turnAway(l.next, codeOld, errReplaced)
	}
	if l.state != closed {
		s.phase, l.next = phaseWaiting, s
		t.shaking.forget(s)
		t.end(l, errReplaced)
		return codeNone, nil
	}
	t.admit(l, s)
	return codeNone, nil
}

var errReplaced = errors.New("the node has opened a newer connection")

// admit gives an In lane a connection that has proved itself.
func (t *Transport) admit(l *lane, s *socket) {
	s.lane, l.attempts = l, s.shake.hello.Generation
	t.open(s)
	if err := s.say(&t.vector, encodeWelcome(nil, codeWelcome)); err != nil {
		t.end(l, err)
	}
}
