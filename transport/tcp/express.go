package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/goshmem/goshmem/internal/agent/express"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap/layout"
	"github.com/goshmem/goshmem/transport"
)

// Express is what the owner of a transport does with express sockets (package express). Its methods are called during Poll.
//
// The dialer's owner gives the open socket to a PE. The listener's owner answers requests at once, within Poll: Poll goes
// on to wait afterwards, so a request costs the owner no pass of its loop.
type Express interface {
	// Admit says whether a PE of another node gets the socket with this id, and the last number executed of it.
	Admit(c express.Caller, id uint64) (last uint64, v express.Verdict)
	// Take takes what has come of a request. It returns the reply, or nil if more of the request is to come. After an
	// error the socket is closed.
	Take(c express.Caller, id uint64, request []byte) (reply []byte, err error)
	// Closed says that a socket is closed for another reason than ExpressDoor.Close.
	Closed(c express.Caller, id uint64)
	// Dialed gives the owner the socket that ExpressDoor.Dial was to open, or says why there is none. It is the owner's.
	Dialed(c express.Caller, fd int, last uint64, err error)
	// Ready says that a descriptor given to Watch has input. It returns false if the descriptor is none of express sockets.
	Ready(fd int) bool
}

// ExpressDoor is the part of a transport that opens and takes express sockets.
type ExpressDoor struct {
	t     *Transport
	owner Express
}

// ServeExpress makes a transport open and take express sockets for an owner. Without it none are taken.
func ServeExpress(t *Transport, owner Express) *ExpressDoor {
	t.express = &ExpressDoor{t, owner}
	return t.express
}

// call is an express socket.
type call struct {
	express.Caller                          // at the dialer, Node is the listener; at the listener, the dialer
	address        int                      // dialer: index of the address to try next
	failures       []error                  // dialer
	request        [express.MaxRequest]byte // listener: the request that is coming
	got            int                      // bytes of it
}

// Dial begins to open an express socket of a PE of this node to the node c.Node. Express.Dialed says how that ends,
// unless Dial returns an error.
func (d *ExpressDoor) Dial(c express.Caller) error {
	t := d.t
	switch {
	case t.closed:
		return transport.ErrClosed
	case c.Node < 0 || c.Node >= t.cfg.Nodes || c.Node == t.cfg.Self || t.peers[c.Node] == nil:
		return fmt.Errorf("express socket to node %d: nothing is known of it", c.Node)
	}
	k := &call{Caller: c}
	if !d.dial(k) {
		return fmt.Errorf("express socket to node %d: %w", c.Node, errors.Join(k.failures...))
	}
	return nil
}

// dial begins a connect to the next address that takes one. It returns false if there is none.
func (d *ExpressDoor) dial(c *call) bool {
	t := d.t
	addrs := t.peers[c.Node].addrs
	for c.address < len(addrs) {
		addr := addrs[c.address]
		c.address++
		fd, err := xunix.ConnectTCP(addr)
		if err == nil {
			s := &socket{fd: fd, phase: phaseConnect, call: c, watched: true}
			s.shake = &handshake{peer: addr, deadline: time.Now().Add(t.cfg.Dial)}
			if err = t.keep(s); err == nil {
				return true
			}
		}
		c.failures = append(c.failures, fmt.Errorf("%s: %w", addr, err))
	}
	return false
}

// fail ends a dialer's handshake. The next address takes its turn.
func (d *ExpressDoor) fail(s *socket, err error) {
	c := s.call
	c.failures = append(c.failures, fmt.Errorf("%s, waiting for %s: %w", s.shake.peer, s.phase, err))
	d.t.drop(s)
	if !d.dial(c) {
		d.owner.Dialed(c.Caller, -1, 0, fmt.Errorf("express socket to node %d: %w", c.Node, errors.Join(c.failures...)))
	}
}

// finish gives a socket that the listener has admitted to the owner.
func (d *ExpressDoor) finish(s *socket, word []byte) error {
	c, last, err := parseCall(word)
	if err == nil && c != codeWelcome {
		err = errors.New(c.String())
	}
	if err != nil {
		return err
	}
	t := d.t
	t.shaking.forget(s)
	s.phase = phaseGone
	t.epoll.Remove(s.fd)
	t.sockets.remove(s)
	d.owner.Dialed(s.call.Caller, s.fd, last, nil)
	return nil
}

// admit asks the owner whether a PE that has proved itself gets its socket.
func (d *ExpressDoor) admit(s *socket) (code, error) {
	h := &s.shake.hello
	s.call = &call{Caller: express.Caller{Node: int(h.Dialer), Local: layout.Local(h.Express - 1), Incarnation: h.Generation}}
	last, v := d.owner.Admit(s.call.Caller, s.id)
	switch v {
	case express.Admitted:
	case express.Full:
		return codeFull, errors.New("there is no room for its express socket")
	default:
		return codeGone, fmt.Errorf("its PE, local PE %d of node %d, is dead", s.call.Local, s.call.Node)
	}
	d.t.shaking.forget(s)
	s.phase, s.shake = phaseExpress, nil
	if err := s.say(&d.t.vector, encodeCall(nil, codeWelcome, last)); err != nil {
		d.hangUp(s)
	}
	return codeNone, nil
}

// serve reads what has come on an express socket, and answers it.
func (d *ExpressDoor) serve(s *socket) {
	c := s.call
	n, err := xunix.ReceiveAtOnce(s.fd, c.request[c.got:])
	if errors.Is(err, xunix.ErrAgain) {
		return
	}
	var reply []byte
	if err == nil {
		c.got += n
		reply, err = d.owner.Take(c.Caller, s.id, c.request[:c.got])
	}
	switch {
	case err != nil:
		d.hangUp(s)
	case reply != nil:
		c.got = 0
		if err := xunix.SendSocket(s.fd, reply); err != nil { // one reply at a time has room
			d.hangUp(s)
		}
	case c.got == len(c.request): // no request is longer
		d.hangUp(s)
	}
}

// hangUp closes an express socket and tells the owner.
func (d *ExpressDoor) hangUp(s *socket) {
	if s.phase == phaseExpress {
		d.t.drop(s)
		d.owner.Closed(s.call.Caller, s.id)
	}
}

// Close closes an express socket that Admit was asked for. What is unread is dropped.
func (d *ExpressDoor) Close(id uint64) {
	if s := d.t.sockets.find(id); s != nil && s.phase == phaseExpress {
		d.t.drop(s)
	}
}

// end ends the express sockets of a node, and those that are being dialed.
func (d *ExpressDoor) end(node int) {
	for _, s := range d.t.sockets.all {
		switch {
		case s == nil || s.call == nil || s.call.Node != node:
		case s.phase == phaseExpress:
			d.hangUp(s)
		default:
			s.call.address = len(d.t.peers[node].addrs)
			d.fail(s, errOtherIncarnation)
		}
	}
}

// encodeCall appends the listener's last word of the handshake of an express socket.
func encodeCall(b []byte, c code, last uint64) []byte {
	return binary.LittleEndian.AppendUint64(encodeWelcome(b, c), last)
}

func parseCall(b []byte) (c code, last uint64, err error) {
	if len(b) != callSize {
		return 0, 0, errProtocol
	}
	c, err = parseWelcome(b[:welcomeSize])
	return c, binary.LittleEndian.Uint64(b[welcomeSize:]), err
}
