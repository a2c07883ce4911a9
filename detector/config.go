package detector

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/detector/bmg"
	"github.com/goshmem/goshmem/detector/packet"
	"github.com/goshmem/goshmem/detector/ring"
)

// ErrConfig reports a Config that no detector or prober can have.
var ErrConfig = errors.New("no such detector")

// Peer has the addresses of a node.
type Peer struct {
	Responder netip.AddrPort // gets pings and fences
	Detector  netip.AddrPort // gets requests, answers and news
}

// Ticker is what a Detector needs of its node's responder.
type Ticker interface {
	// Tick says that the daemon runs. The detector calls it in each of its turns, from one thread. It must neither block
	// nor allocate.
	Tick()
}

// Config says of what nodes a Detector is one, and what it does with what it learns.
//
// The functions are called one at a time, in the order in which things have happened, by a goroutine of their own. So
// they may block, and may call all methods of the Detector but Close. A nil function is not called.
type Config struct {
	Me        ring.Node
	Nodes     int
	Incs      []uint32 // the nodes' incarnations; nil: all 1
	Key       packet.Key
	Job       uint64       // datagrams of other jobs are ignored
	Socket    *net.UDPConn // the detector's port; Start takes it over, and Close closes it
	Peers     []Peer       // by node; the own one is not used
	Responder Ticker       // nil: the node has none
	Timing    ring.Timing

	// Proven says that a node is dead, without a doubt. It has been fenced, or that was tried, and the report is on its way
	// to all nodes.
	Proven func(node ring.Node, inc uint32, why ring.Reason)

	// Silent says that a node answers nobody. Nothing is reported: the front end decides.
	Silent func(node ring.Node, inc uint32)

	// Unreached says that a node lives, and has answered this one by way of others only for Timing.Direct. The front end
	// decides which of the two goes.
	Unreached func(node ring.Node, inc uint32)

	// Heard gets the reports of other nodes, of kind KindNode or KindPE, each once. It must not change them.
	Heard func(p *bmg.Payload)

	// Accused says that a report calls this node dead. It is called once.
	Accused func()

	Logger zerolog.Logger

	lose     func() bool // tests: whether the next datagram that is sent is lost
	fenceFor int64       // tests: instead of fenceFor
}

// check returns what is wrong with the Config. The machines check the rest.
func (c *Config) check() error {
	switch {
	case c.Socket == nil:
		return fmt.Errorf("%w: no socket", ErrConfig)
	case len(c.Peers) != c.Nodes:
		return fmt.Errorf("%w: the addresses of %d nodes, want those of %d", ErrConfig, len(c.Peers), c.Nodes)
	}
	return nil
}

// has reports whether p is a node.
func (c *Config) has(p ring.Node) bool { return p >= 0 && int(p) < c.Nodes }

// inc returns the incarnation of a node.
func (c *Config) inc(p ring.Node) uint32 {
	if c.Incs == nil {
		return 1
	}
	return c.Incs[p]
}
