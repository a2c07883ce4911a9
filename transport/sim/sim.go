// Package sim is a transport in memory for tests and explorations. Every run is the same for the same calls and seed.
//
// # Model
//
// A Network has one node for each transport. A connection has a pipe of bounded size for each direction. A step moves
// some bytes of a post into a pipe or out of it, or brings the opening or the end of a connection one further. A node
// only makes steps in its own Poll, and only those that a node of a real network could make by itself. So a node that
// does not poll exerts back-pressure, and nothing happens between two Polls.
//
// # Choice
//
// A Poll makes a few steps that are possible. Which ones, and how many bytes they move, is drawn from the seed, or asked
// of Config.Choose. With Choose an exploration can go through all choices: a run depends on nothing else, as long as one
// goroutine makes all calls and no Poll waits.
//
// When a connection ends, the other end may still receive what is in its pipe, a part of it, or nothing.
//
// # Misuse
//
// Received data are overwritten in the next Poll, so that an owner who keeps them finds out.
package sim

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"

	"github.com/goshmem/goshmem/transport"
)

// Config says how a network behaves.
type Config struct {
	Nodes int
	Seed  uint64
	// Choose returns a number from 0 to n-1, n >= 1. It takes the place of the seed.
	Choose func(n int) int
	// Buffer is how many bytes a direction of a connection holds. Default: 64 KiB.
	Buffer int
	// Piece is the greatest number of bytes that a step moves. Default: no limit.
	Piece int
	// Steps is the greatest number of steps of a Poll. Default: 16.
	Steps int
	// Cuts is the mean number of steps of a node after which it cuts one of its connections. Default: it never does.
	Cuts int
}

// Network is a network of nodes.
type Network struct {
	cfg   Config
	mu    sync.Mutex
	nodes []*Transport
}

// New returns a network of nodes that know each other.
func New(cfg Config) (*Network, error) {
	if cfg.Nodes < 1 {
		return nil, fmt.Errorf("sim transport: %d nodes, want at least 1", cfg.Nodes)
	}
	if cfg.Buffer < 0 || cfg.Piece < 0 || cfg.Steps < 0 || cfg.Cuts < 0 {
		return nil, fmt.Errorf("sim transport: buffer %d, piece %d, steps %d, cuts %d, want none below 0",
			cfg.Buffer, cfg.Piece, cfg.Steps, cfg.Cuts)
	}
	if cfg.Choose == nil {
		cfg.Choose = rand.New(rand.NewPCG(cfg.Seed, 0)).IntN
	}
	if cfg.Buffer == 0 {
		cfg.Buffer = 64 << 10
	}
	if cfg.Piece == 0 {
		cfg.Piece = cfg.Buffer
	}
	if cfg.Steps == 0 {
		cfg.Steps = 16
	}
	n := &Network{cfg: cfg}
	for i := range cfg.Nodes {
		t := &Transport{net: n, self: i, signal: make(chan struct{}, 1)}
		t.lanes = make([][2]lane, cfg.Nodes)
		for node := range t.lanes {
			for kind := range t.lanes[node] {
				t.lanes[node][kind] = lane{owner: t, node: node, kind: transport.Lane(kind)}
			}
		}
		n.nodes = append(n.nodes, t)
	}
	return n, nil
}

// Node returns the transport of a node.
func (n *Network) Node(i int) *Transport { return n.nodes[i] }

// size draws how many bytes a step moves, at least one and at most most.
func (n *Network) size(most int) int {
	most = min(most, n.cfg.Piece)
	if most == 1 || n.cfg.Choose(2) == 0 {
		return most
	}
	return 1 + n.cfg.Choose(most)
}

// pipe is a direction of a connection.
type pipe struct {
	bytes []byte // those before head are read
	head  int
}

func (p *pipe) len() int { return len(p.bytes) - p.head }

func (p *pipe) write(b []byte) {
	if p.head > 0 && len(p.bytes)+len(b) > cap(p.bytes) {
		p.bytes, p.head = p.bytes[:copy(p.bytes, p.bytes[p.head:])], 0
	}
	p.bytes = append(p.bytes, b...)
}

func (p *pipe) read(b []byte) {
	p.head += copy(b, p.bytes[p.head:])
	if p.head == len(p.bytes) {
		p.bytes, p.head = p.bytes[:0], 0
	}
}

// connection is a connection or an attempt at one.
type connection struct {
	generation uint32
	accepted   bool
	over       bool    // one end has closed it
	pipes      [2]pipe // from the dialer, from the listener
}

// state is where a lane is between two connections.
type state uint8

const (
	closed state = iota
	dialing
	open
	over // the end is to be reported
)

// lane is an end of a connection.
type lane struct {
	owner      *Transport
	node       int
	kind       transport.Lane
	state      state
	generation uint32
	conn       *connection
	arrived    *connection // In: one that is to be accepted
	queue      transport.Queue
	refused    bool
	err        error
}

// other returns the lane at the other node.
func (l *lane) other() *lane { return &l.owner.net.nodes[l.node].lanes[l.owner.self][1-l.kind] }

// outgoing returns the pipe that the lane writes to.
func (l *lane) outgoing() *pipe { return &l.conn.pipes[l.kind] }

// incoming returns the pipe that the lane reads from.
func (l *lane) incoming() *pipe { return &l.conn.pipes[1-l.kind] }

// event returns an event of the lane's connection.
func (l *lane) event(kind transport.Kind) transport.Event {
	return transport.Event{Kind: kind, Node: l.node, Lane: l.kind, Generation: l.generation}
}

// end ends the connection of a lane, or the attempt to open it.
func (l *lane) end(err error) {
	if l.state != dialing && l.state != open {
		return
	}
	l.refused = l.state == dialing
	l.state, l.err = over, err
	if l.conn != nil {
		l.conn.over = true
		l.conn = nil
	}
	l.owner.ends = append(l.owner.ends, l)
	l.owner.net.nodes[l.node].stir()
}

// action is what a step does.
type action uint8

const (
	dial    action = iota // Out: an attempt sets out
	welcome               // Out: the attempt has succeeded
	accept                // In: an attempt arrives
	send                  // bytes of a post leave
	receive               // bytes arrive
	finish                // the news of the end arrives, and what is in the pipe is lost
)

// step is something that a node can do.
type step struct {
	action action
	lane   *lane
}

// possible appends the steps that a lane can do.
func (l *lane) possible(steps []step) []step {
	add := func(a action, can bool) {
		if can {
			steps = append(steps, step{a, l})
		}
	}
	add(accept, l.arrived != nil && l.state != over)
	switch l.state {
	case dialing:
		add(dial, l.conn == nil)
		add(welcome, l.conn != nil && l.conn.accepted && !l.conn.over)
		add(finish, l.conn != nil && l.conn.over)
	case open:
		add(send, !l.conn.over && l.queue.Len() > 0 && (l.outgoing().len() < l.owner.net.cfg.Buffer || len(l.queue.Piece(0)) == 0))
		add(receive, l.incoming().len() > 0)
		add(finish, l.conn.over)
	}
	return steps
}

var (
	errReplaced = errors.New("the node has opened a newer connection")
	errClosed   = errors.New("connection refused: the node is closed")
	errEnd      = fmt.Errorf("the other end has closed it: %w", io.EOF)
	errChance   = errors.New("cut by chance")
)

// do does a step in the owner's Poll.
func (s step) do() {
	l, t := s.lane, s.lane.owner
	switch s.action {
	case dial:
		l.conn = &connection{generation: l.generation}
		if other := l.other(); other.owner.closed {
			l.end(errClosed)
		} else {
			if other.arrived != nil {
				other.arrived.over = true
			}
			other.arrived = l.conn
		}
	case welcome:
		l.open()
	case accept:
		l.accept()
	case send:
		room := t.net.cfg.Buffer - l.outgoing().len()
		n := 0
		if p := l.queue.Piece(0); len(p) > 0 {
			n = t.net.size(min(len(p), room))
			l.outgoing().write(p[:n])
		}
		t.events = l.queue.Take(n, t.events, l.event(transport.Sent))
	case receive:
		if n := min(l.incoming().len(), len(t.room)-t.used); n > 0 {
			n = t.net.size(n)
			b := t.room[t.used : t.used+n : t.used+n]
			t.used += n
			l.incoming().read(b)
			e := l.event(transport.Received)
			e.Data = b
			t.events = append(t.events, e)
		}
	case finish:
		l.end(errEnd)
		return
	}
	t.net.nodes[l.node].stir()
}

// accept takes the attempt that has arrived. If a connection is open, it ends, and the attempt waits.
func (l *lane) accept() {
	if l.arrived.over {
		l.arrived = nil
		return
	}
	if l.state == open {
		l.end(errReplaced)
		return
	}
	l.conn, l.arrived = l.arrived, nil
	l.generation, l.conn.accepted = l.conn.generation, true
	l.open()
}

// open reports that the lane's connection is open.
func (l *lane) open() {
	l.state = open
	l.owner.events = append(l.owner.events, l.event(transport.Opened))
}
