package tcp

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/transport"
)

// Secret is what the processes of a job share, and nobody else has. No verb prints it.
type Secret [32]byte

// Format prints that there is a secret, but not which.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, "(secret)") }

// Config says which node a transport is of.
type Config struct {
	Self        int    // index of this node
	Nodes       int    // number of nodes, this one included
	Incarnation uint32 // of this node

	Secret Secret   // of the job: who has it is of the job
	Job    [16]byte // key of the job

	// Listen are the addresses to listen at. Port 0 leaves the port to the kernel. Without addresses the node only
	// dials.
	Listen []netip.AddrPort

	// Handshake bounds the time in which a connection that was accepted has to prove that it is of the job. Default: 2 s.
	Handshake time.Duration
	// Dial bounds an attempt to open an Out lane, for each address. Default: 5 s.
	Dial time.Duration
	// Silence bounds how long the other end of a connection may acknowledge or take none of the bytes that are sent. The
	// connection is Broken then. Default: 10 s.
	Silence time.Duration
	// Pending is the greatest number of accepted connections in their handshakes. Default: 64.
	Pending int
	// Alone says that the thread that calls Poll has the process to itself: see xunix.Epoll.Alone.
	Alone bool
	// Room is the size of the buffer for received bytes. Default: 512 KiB. At least 4 KiB.
	Room int
}

const (
	sendBytes    = 1 << 20   // in one turn of a connection
	flushBytes   = 4 << 20   // in one turn of all of them
	receiveBytes = 256 << 10 // in one turn of a connection
	leastRoom    = 4 << 10   // a connection whose turn it is gets at least so much room, or waits for the next Poll
	defaultRoom  = 512 << 10 // of all connections together in one Poll
	dataAlign    = 64        // of received data
)

func (c *Config) check() error {
	switch {
	case c.Nodes < 1:
		return fmt.Errorf("%d nodes, want at least 1", c.Nodes)
	case c.Self < 0 || c.Self >= c.Nodes:
		return fmt.Errorf("this node is %d, want 0 to %d", c.Self, c.Nodes-1)
	case c.Handshake < 0 || c.Dial < 0 || c.Silence < 0:
		return fmt.Errorf("time limits %v, %v and %v, want none below 0", c.Handshake, c.Dial, c.Silence)
	case c.Pending < 0:
		return fmt.Errorf("%d pending connections, want at least 1", c.Pending)
	case c.Room != 0 && c.Room < leastRoom:
		return fmt.Errorf("room of %d bytes, want at least %d", c.Room, leastRoom)
	}
	return nil
}

// Transport is a transport over TCP. See transport.Transport for its methods.
type Transport struct {
	cfg     Config
	epoll   *xunix.Epoll
	peers   []*peer // by node; nil: not known yet
	sockets table
	closed  bool
	watches // of the owner

	doors   doors
	express *ExpressDoor // nil: no express sockets
	shaking shaking
	dials   fifo[*lane] // to connect
	dirty   fifo[*lane] // open lanes with posts that the kernel may have room for
	ends    fifo[*lane] // whose Broken or Refused is to be reported
	input   fifo[*socket]

	events []transport.Event // of the current Poll
	ready  []xunix.Readiness
	vector xunix.Vector
	room   []byte
	used   int // bytes of room that hold data of the current Poll
}

var _ transport.Flusher = (*Transport)(nil)

// peer is what a node knows of another one.
type peer struct {
	incarnation uint32
	addrs       []netip.AddrPort
	lanes       [2]lane
}

// New returns a transport that listens. It knows no other node: see SetPeer.
func New(cfg Config) (*Transport, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("tcp transport: %w", err)
	}
	if cfg.Handshake == 0 {
		cfg.Handshake = 2 * time.Second
	}
	if cfg.Dial == 0 {
		cfg.Dial = 5 * time.Second
	}
	if cfg.Silence == 0 {
		cfg.Silence = 10 * time.Second
	}
	if cfg.Pending == 0 {
		cfg.Pending = 64
	}
	if cfg.Room == 0 {
		cfg.Room = defaultRoom
	}
	epoll, err := xunix.NewEpoll()
	if err != nil {
		return nil, fmt.Errorf("tcp transport: %w", err)
	}
	if cfg.Alone {
		epoll.Alone()
	}
	t := &Transport{cfg: cfg, epoll: epoll, peers: make([]*peer, cfg.Nodes), room: make([]byte, cfg.Room)}
	for _, addr := range cfg.Listen {
		if err := t.doors.open(epoll, addr); err != nil {
			_ = t.Close()
			return nil, fmt.Errorf("tcp transport: %w", err)
		}
	}
	return t, nil
}

// Addrs returns the addresses at which the transport listens.
func (t *Transport) Addrs() []netip.AddrPort { return slices.Clone(t.doors.addrs) }

// SetPeer says which incarnation of a node is alive, and its addresses. The first address that answers is used. Other
// addresses count from the next connection on; another incarnation ends the connections of the one before, and its
// connections have numbers from 1 on.
func (t *Transport) SetPeer(node int, incarnation uint32, addrs []netip.AddrPort) error {
	if err := t.check(node, transport.Out); err != nil {
		return err
	}
	p := t.peers[node]
	if p == nil {
		p = &peer{incarnation: incarnation}
		p.lanes[transport.Out] = lane{node: node, kind: transport.Out, peer: p}
		p.lanes[transport.In] = lane{node: node, kind: transport.In, peer: p}
		t.peers[node] = p
	}
	p.addrs = slices.Clone(addrs)
	if p.incarnation == incarnation {
		return nil
	}
	p.incarnation = incarnation
	if t.express != nil {
		t.express.end(node)
	}
	for i := range p.lanes {
		l := &p.lanes[i]
		if l.next != nil {
			t.turnAway(l.next, codeIncarnation, errOtherIncarnation)
			l.next = nil
		}
		t.end(l, errOtherIncarnation)
		l.attempts = 0
	}
	return nil
}

var errOtherIncarnation = errors.New("the node has a new incarnation")

// check returns an error unless the transport is open and has the lane of another node.
func (t *Transport) check(node int, kind transport.Lane) error {
	if t.closed {
		return transport.ErrClosed
	}
	return transport.CheckLane(node, t.cfg.Self, t.cfg.Nodes, kind)
}

// Post queues parts: see transport.Transport.
func (t *Transport) Post(node int, kind transport.Lane, token uint64, parts ...[]byte) error {
	if err := t.check(node, kind); err != nil {
		return fmt.Errorf("post to node %d, lane %s: %w", node, kind, err)
	}
	p := t.peers[node]
	if kind == transport.In && (p == nil || p.lanes[kind].state == closed) {
		return transport.ErrNotOpen
	}
	if p == nil {
		return fmt.Errorf("post to node %d: nothing is known of it", node)
	}
	l := &p.lanes[kind]
	if l.state == closed {
		if len(p.addrs) == 0 {
			return fmt.Errorf("post to node %d: no address of it is known", node)
		}
		t.startDial(l)
	}
	l.queue.Push(token, parts)
	t.markDirty(l)
	return nil
}

// Cut ends a connection: see transport.Transport.
func (t *Transport) Cut(node int, kind transport.Lane, cause error) {
	if t.check(node, kind) != nil || t.peers[node] == nil {
		return
	}
	l := &t.peers[node].lanes[kind]
	if l.socket != nil {
		xunix.DiscardOnClose(l.socket.fd)
	}
	t.end(l, fmt.Errorf("cut: %w", cause))
}

// Watch makes Poll return while a descriptor of the owner has input. The owner must call Unwatch before it closes the
// descriptor.
func (t *Transport) Watch(fd int) error {
	if t.closed {
		return transport.ErrClosed
	}
	return t.epoll.Add(fd, watchID|uint64(uint32(fd)), false)
}

// Watched says whether a descriptor of Watch had input in a Poll since the last call. So an owner that was woken for
// something else makes no system call to learn that there is none. While input stays, each Poll finds it.
func (w *watches) Watched() bool {
	was := w.had
	w.had = false
	return was
}

// watches is what Poll has found of the descriptors of Watch.
type watches struct {
	had bool // input, since the last call of Watched
}

// Unwatch ends what Watch began.
func (t *Transport) Unwatch(fd int) {
	if !t.closed {
		t.epoll.Remove(fd)
	}
}

// Wake makes Poll return: see transport.Transport.
func (t *Transport) Wake() { t.epoll.Wake() }

// WakeFD returns an event descriptor: see transport.Transport.
func (t *Transport) WakeFD() int { return t.epoll.WakeFD() }

// Strangers returns how many accepted connections were turned away, and the error of the latest one. Most did not prove in
// time that they are of the job. Others are of a dead incarnation, or older than a connection that is open.
func (t *Transport) Strangers() (n uint64, latest error) {
	return t.doors.strangers, t.doors.lastStranger
}

// Close ends all connections: see transport.Transport.
func (t *Transport) Close() error {
	if t.closed {
		return nil
	}
	t.closed = true
	for _, s := range t.sockets.all {
		if s != nil {
			xunix.CloseSocket(s.fd)
		}
	}
	t.doors.close()
	t.epoll.Close()
	t.peers, t.sockets = nil, table{}
	return nil
}
