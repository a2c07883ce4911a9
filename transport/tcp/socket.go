package tcp

import (
	"errors"
	"io"
	"net/netip"
	"slices"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

// Ids of descriptors that are no connection have one of the highest bits.
const (
	watchID    = 1 << 63
	listenerID = 1 << 62
)

// phase is what a connection waits for.
type phase uint8

const (
	phaseGone    phase = iota // the socket is closed
	phaseConnect              // dialer: the connect ends
	phaseAnswer               // dialer: the answer comes
	phaseWelcome              // dialer: the welcome comes
	phaseHello                // listener: the hello comes
	phaseProof                // listener: the proof comes
	phaseWaiting              // listener: the end of an older connection is reported
	phaseOpen                 // the handshake is over
	phaseExpress              // the same, of an express socket
)

// String says what a connection waits for.
func (p phase) String() string {
	return [...]string{
		phaseGone: "nothing", phaseConnect: "the connect", phaseAnswer: "the listener's answer", phaseWelcome: "the listener's welcome",
		phaseHello: "the dialer's hello", phaseProof: "the dialer's proof", phaseWaiting: "the end of an older connection",
		phaseOpen: "data", phaseExpress: "requests",
	}[p]
}

// socket is a connection.
type socket struct {
	fd      int
	id      uint64
	phase   phase
	watched bool  // epoll looks for room for output
	queued  bool  // the socket is in Transport.input
	lane    *lane // nil before the listener knows it, and of express sockets
	call    *call // of an express socket
	shake   *handshake
}

// isStranger says whether the other end has dialed and has not proved anything yet.
func (s *socket) isStranger() bool { return s.phase == phaseHello || s.phase == phaseProof }

// shaking lists connections in their handshakes, the oldest first.
type shaking []*socket

// forget removes a connection whose handshake is over.
func (l *shaking) forget(s *socket) {
	if i := slices.Index(*l, s); i >= 0 {
		*l = slices.Delete(*l, i, i+1)
	}
}

// strangers returns the number of strangers.
func (l *shaking) strangers() (n int) {
	for _, s := range *l {
		if s.isStranger() {
			n++
		}
	}
	return n
}

// oldestStranger returns nil if there is none.
func (l *shaking) oldestStranger() *socket {
	if i := slices.IndexFunc(*l, (*socket).isStranger); i >= 0 {
		return (*l)[i]
	}
	return nil
}

// handshake is what a connection needs until it is open.
type handshake struct {
	peer     netip.AddrPort
	deadline time.Time
	buffer   [answerSize]byte // the word that is coming
	got      int              // bytes of it that have come
	hello    hello
	answer   answer
	token    token
}

// table gives connections ids. A slot is used again with another id, so that news of a closed connection, which epoll
// has said already, meets no other one.
type table struct {
	all  []*socket // by slot
	free []uint32
	last uint32 // counts the connections
}

// Upper half of an id: the number of the connection below connectionID, which keeps ids from being 0.
const connectionID = 1 << 61

// add gives a socket an id and keeps it.
func (t *table) add(s *socket) {
	slot := uint32(len(t.all))
	if n := len(t.free); n > 0 {
		slot, t.free = t.free[n-1], t.free[:n-1]
	} else {
		t.all = append(t.all, nil)
	}
	t.last++
	s.id = connectionID | uint64(t.last%(connectionID>>32))<<32 | uint64(slot)
	t.all[slot] = s
}

// find returns the socket of an id, nil if it is closed.
func (t *table) find(id uint64) *socket {
	if slot := uint32(id); int(slot) < len(t.all) && t.all[slot] != nil && t.all[slot].id == id {
		return t.all[slot]
	}
	return nil
}

// remove forgets a socket.
func (t *table) remove(s *socket) {
	t.all[uint32(s.id)] = nil
	t.free = append(t.free, uint32(s.id))
}

// say sends a word of the handshake. A fresh connection has room for it.
func (s *socket) say(v *xunix.Vector, word []byte) error {
	v.Add(word)
	n, err := v.Send(s.fd)
	if err == nil && n < len(word) {
		err = io.ErrShortWrite
	}
	return err
}

// hear reads a word of the handshake of the given size, and no byte behind it. It returns nil if more is to come.
func (s *socket) hear(size int) ([]byte, error) {
	k := s.shake
	n, err := xunix.ReceiveSocket(s.fd, k.buffer[k.got:size])
	if errors.Is(err, xunix.ErrAgain) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if k.got += n; k.got < size {
		return nil, nil
	}
	k.got = 0
	return k.buffer[:size], nil
}
