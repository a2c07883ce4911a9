package tcp

import (
	"crypto/hmac"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/transport"
)

// startDial makes the next Poll dial an Out lane.
func (t *Transport) startDial(l *lane) {
	l.state, l.address, l.failures = dialing, 0, nil
	l.attempts++
	t.dials.push(l)
}

// connect begins connects for the lanes that are to be dialed.
func (t *Transport) connect() {
	for n := t.dials.len(); n > 0; n-- {
		l := t.dials.pop()
		if l.state == dialing && l.socket == nil {
			t.connectLane(l)
		}
	}
}

// connectLane begins a connect to the next address of a lane that takes one.
func (t *Transport) connectLane(l *lane) {
	for l.address < len(l.peer.addrs) {
		if l.address > 0 {
			l.attempts++ // the listener may have opened the attempt before
		}
		addr := l.peer.addrs[l.address]
		l.address++
		fd, err := xunix.ConnectTCP(addr)
		if err != nil {
			l.failures = append(l.failures, fmt.Errorf("%s: %w", addr, err))
			continue
		}
		s := &socket{fd: fd, phase: phaseConnect, lane: l, watched: true}
		s.shake = &handshake{peer: addr, deadline: time.Now().Add(t.cfg.Dial)}
		if err := t.keep(s); err != nil {
			l.failures = append(l.failures, fmt.Errorf("%s: %w", addr, err))
			continue
		}
		l.socket = s
		return
	}
	t.end(l, errors.Join(l.failures...))
}

// keep takes a new connection, or closes it after an error.
func (t *Transport) keep(s *socket) error {
	t.sockets.add(s)
	err := xunix.SetUserTimeout(s.fd, t.cfg.Silence)
	if err == nil {
		err = t.epoll.Add(s.fd, s.id, s.watched)
	}
	if err != nil {
		t.sockets.remove(s)
		xunix.CloseSocket(s.fd)
		s.phase = phaseGone
		return err
	}
	t.shaking = append(t.shaking, s)
	return nil
}

// failDial ends a dialer's handshake. The lane's next address takes its turn.
func (t *Transport) failDial(s *socket, err error) {
	if errors.Is(err, io.EOF) {
		err = errors.New("the listener has closed the connection")
	}
	if s.call != nil {
		t.express.fail(s, err)
		return
	}
	l := s.lane
	l.failures = append(l.failures, fmt.Errorf("%s, waiting for %s: %w", s.shake.peer, s.phase, err))
	t.drop(s)
	if l.address < len(l.peer.addrs) {
		t.dials.push(l)
		return
	}
	t.end(l, errors.Join(l.failures...))
}

// finishConnect sends the hello if the connect has ended.
func (t *Transport) finishConnect(s *socket) error {
	err := xunix.ConnectResult(s.fd)
	if errors.Is(err, xunix.ErrAgain) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := t.epoll.Change(s.fd, s.id, false); err != nil {
		return err
	}
	s.watched = false
	h := &s.shake.hello
	if c := s.call; c != nil {
		h.ends = ends{uint32(t.cfg.Self), t.cfg.Incarnation, uint32(c.Node), t.peers[c.Node].incarnation}
		h.Generation, h.Express = c.Incarnation, uint32(c.Local)+1
	} else {
		h.ends = ends{uint32(t.cfg.Self), t.cfg.Incarnation, uint32(s.lane.node), s.lane.peer.incarnation}
		h.Generation = s.lane.attempts
	}
	if s.shake.token, err = newToken(t.cfg.Secret, t.cfg.Job, h.ends); err != nil {
		return err
	}
	rand.Read(h.Nonce[:])
	s.phase = phaseAnswer
	return s.say(&t.vector, h.encode(nil))
}

// serveDialer takes the listener's next word.
func (t *Transport) serveDialer(s *socket) error {
	size := answerSize
	switch {
	case s.phase == phaseWelcome && s.call != nil:
		size = callSize
	case s.phase == phaseWelcome:
		size = welcomeSize
	}
	word, err := s.hear(size)
	if word == nil || err != nil {
		return err
	}
	if s.phase == phaseAnswer {
		p, err := s.shake.takeAnswer(word, t.cfg.Job)
		if err != nil {
			return err
		}
		s.phase = phaseWelcome
		return s.say(&t.vector, p.encode(nil))
	}
	if s.call != nil {
		return t.express.finish(s, word)
	}
	if err := takeWelcome(word); err != nil {
		return err
	}
	t.open(s)
	return nil
}

// takeAnswer checks the listener's proof and returns the dialer's.
func (k *handshake) takeAnswer(word []byte, job [16]byte) (proof, error) {
	a, err := parseAnswer(word)
	if err != nil {
		return proof{}, err
	}
	if a.Code != codeWelcome {
		return proof{}, errors.New(a.Code.String())
	}
	if mac := k.token.proveListener(&k.hello, &a.Nonce); !hmac.Equal(mac[:], a.MAC[:]) {
		return proof{}, errListener
	}
	p := k.hello.proof(job)
	p.MAC = k.token.proveDialer(&p, &a.Nonce)
	return p, nil
}

var errListener = errors.New("the listener has another key: it is not of this job")

// takeWelcome returns an error unless the listener has opened the lane.
func takeWelcome(word []byte) error {
	c, err := parseWelcome(word)
	if err == nil && c != codeWelcome {
		err = errors.New(c.String())
	}
	return err
}

// open ends the handshake of a connection, which has the lane from now on.
func (t *Transport) open(s *socket) {
	t.shaking.forget(s)
	l := s.lane
	s.phase, s.shake = phaseOpen, nil
	l.state, l.socket, l.failures = open, s, nil
	t.events = append(t.events, l.event(transport.Opened))
	if l.queue.Len() > 0 {
		t.markDirty(l)
	}
}
