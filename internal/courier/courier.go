package courier

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/goshmem/goshmem/internal/hook"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/pmix/server"
)

// maxMessage bounds a message in bytes. A client's request has at most 64 MiB.
const maxMessage = 96 << 20

// numberBytes is the length of the number that a question and its answer begin with.
const numberBytes = 8

// The receivers that are no node.
const (
	ToRoot     = server.Root
	ToEveryone = server.Everyone
)

// Server is what a courier needs of this node's server: [server.Server]. A method must not call the courier before it
// returns.
type Server interface {
	Answered(number uint64, body []byte)
	Asked(node int, number uint64, body []byte, reply func(body []byte))
	Told(node int, body []byte)
}

// Config says what a courier connects.
type Config struct {
	Me    int // this node
	Nodes int // number of nodes; Grow adds some
	// Send sends a frame to a node, to server.Root or to server.Everyone. Frames arrive in order, each once, or not at all
	// if a node dies. Send must not block, and must not call the courier. A caller of Take or NodeDead must not hold a lock
	// that Send takes.
	Send func(to int, f wire.Frame)
	// Fault reports that another node has broken the protocol: an error of the program. Fault must not call the courier.
	// Nil: nobody is told.
	Fault func(err error)
}

// Courier carries what the server of a node says to the others, and what they say to it.
//
//   - Concurrent calls: all methods.
type Courier struct {
	cfg Config

	mu       sync.Mutex
	server   hook.Late[Server] // there from Start on
	asked    map[uint64]int
	dead     map[int]bool
	arriving mail
}

var _ server.Peers = (*Courier)(nil)

// New returns a courier. It works at once, and calls the server from Start on.
//
//   - Errors: a node that the job does not have.
func New(cfg Config) (*Courier, error) {
	if cfg.Nodes < 1 || cfg.Me < 0 || cfg.Me >= cfg.Nodes {
		return nil, fmt.Errorf("courier: node %d of %d, want a node from 0 to %d", cfg.Me, cfg.Nodes, cfg.Nodes-1)
	}
	if cfg.Fault == nil {
		cfg.Fault = func(error) {}
	}
	return &Courier{cfg: cfg, asked: map[uint64]int{}, dead: map[int]bool{}, arriving: mail{}}, nil
}

// Start gives the courier its server, whose Config.Peers is the courier. What has come before follows now.
func (c *Courier) Start(s Server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server.Set(s)
}

// Grow tells the courier that the job has so many nodes from now on. It has never fewer than before.
func (c *Courier) Grow(nodes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cfg.Nodes = max(c.cfg.Nodes, nodes)
}

// Ask implements server.Peers.
func (c *Courier) Ask(to int, number uint64, body []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if to == c.cfg.Me || to < server.Root || to >= c.cfg.Nodes || c.dead[to] {
		c.server.Call(func(s Server) { s.Answered(number, nil) })
		return
	}
	c.asked[number] = to
	c.send(to, wire.KindQuestion, numbered(number, body))
}

// Tell implements server.Peers.
func (c *Courier) Tell(to int, body []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if to == c.cfg.Me || c.dead[to] {
		return
	}
	c.send(to, wire.KindTell, body)
}

func (c *Courier) send(to int, kind wire.Kind, message []byte) {
	for _, body := range wire.Split(message) {
		c.cfg.Send(to, wire.Frame{Kind: kind, Body: body})
	}
}

// numbered returns a message that begins with a number.
func numbered(number uint64, body []byte) []byte {
	b := make([]byte, 0, numberBytes+len(body))
	return append(binary.LittleEndian.AppendUint64(b, number), body...)
}

// cutNumber is the inverse of numbered.
func cutNumber(message []byte) (number uint64, body []byte, err error) {
	if len(message) < numberBytes {
		return 0, nil, fmt.Errorf("message has %d bytes, want at least %d", len(message), numberBytes)
	}
	return binary.LittleEndian.Uint64(message), message[numberBytes:], nil
}

// Take takes a frame of another node, or of server.Root. Frames of other kinds than those of this package are none of the
// courier's.
func (c *Courier) Take(from int, f wire.Frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead[from] {
		return
	}
	message, whole, err := c.arriving.add(from, f)
	if err == nil && whole {
		err = c.takeMessage(from, f.Kind, message)
	}
	if err != nil {
		c.cfg.Fault(fmt.Errorf("node %d, frame of kind %#x: %w", from, f.Kind, err))
	}
}

// takeMessage takes a whole message.
func (c *Courier) takeMessage(from int, kind wire.Kind, message []byte) error {
	if from == c.cfg.Me || from < server.Root || from >= c.cfg.Nodes {
		return fmt.Errorf("want one of another node, from 0 to %d", c.cfg.Nodes-1)
	}
	if kind == wire.KindTell {
		c.server.Call(func(s Server) { s.Told(from, message) })
		return nil
	}
	number, body, err := cutNumber(message)
	if err != nil {
		return err
	}
	if kind == wire.KindQuestion {
		c.server.Call(func(s Server) {
			s.Asked(from, number, body, func(answer []byte) { c.reply(from, number, answer) })
		})
		return nil
	}
	if to, open := c.asked[number]; !open || to != from {
		return fmt.Errorf("answer to question %d, which the node has not got or has answered", number)
	}
	delete(c.asked, number)
	c.server.Call(func(s Server) { s.Answered(number, body) })
	return nil
}

// reply sends the local server's answer to a question.
func (c *Courier) reply(to int, number uint64, answer []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.dead[to] {
		c.send(to, wire.KindReply, numbered(number, answer))
	}
}

// NodeDead tells the courier that another node has died. Questions to it are answered. The courier takes no frame of the
// node after that.
func (c *Courier) NodeDead(node int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if node < 0 || node >= c.cfg.Nodes || node == c.cfg.Me || c.dead[node] {
		return
	}
	c.dead[node] = true
	c.arriving.drop(node)
	for _, number := range slices.Sorted(maps.Keys(c.asked)) {
		if c.asked[number] == node {
			delete(c.asked, number)
			c.server.Call(func(s Server) { s.Answered(number, nil) })
		}
	}
}

// stream is what one node sends of one kind: its messages come whole, one after the other.
type stream struct {
	node int
	kind wire.Kind
}

// mail is the messages that have arrived in part.
type mail map[stream]*wire.Assembly

// add adds a frame. It returns the message if that is whole, and nothing for a frame of another package.
func (m mail) add(from int, f wire.Frame) (message []byte, whole bool, err error) {
	if f.Kind < wire.KindQuestion || f.Kind > wire.KindTell {
		return nil, false, nil
	}
	s := stream{from, f.Kind}
	a := m[s]
	if a == nil {
		a = &wire.Assembly{}
		m[s] = a
	}
	return a.Add(f.Body, maxMessage)
}

// drop drops the messages of a node that has died.
func (m mail) drop(node int) {
	for kind := wire.KindQuestion; kind <= wire.KindTell; kind++ {
		delete(m, stream{node, kind})
	}
}
