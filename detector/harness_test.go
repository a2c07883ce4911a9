package detector

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/goshmem/goshmem/detector/bmg"
	"github.com/goshmem/goshmem/detector/packet"
	"github.com/goshmem/goshmem/detector/ring"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testJob = 77

	// tooLong is when a test gives up.
	tooLong = 20 * time.Second

	// slack is what the scheduler of a busy machine may add to a time.
	slack = 500 * time.Millisecond

	// longFence is how long a fence may take beside other tests.
	longFence = 5000 * millisecond

	// aftermath is how long a test waits for what must not come.
	aftermath = 200 * time.Millisecond
)

var (
	testKey   = packet.Key{1, 2, 3, 4}
	localhost = netip.MustParseAddr("127.0.0.1")
)

// responder answers pings of a node, as detector/responder does, and as the test wants it.
type responder struct {
	conn *net.UDPConn
	node ring.Node
	done chan struct{}

	inc    atomic.Uint32
	tick   atomic.Uint32
	frozen atomic.Bool  // Tick has no effect
	mute   atomic.Bool  // it answers nothing
	deaf   atomic.Bool  // it answers nothing that the front end sends itself
	cut    atomic.Int32 // 1 + the node that it hears nothing from
	tough  atomic.Bool  // it does not obey fences
	dead   atomic.Bool
	fenced atomic.Bool
	pinged atomic.Int64
	orders atomic.Int64 // fences that have come
}

// Tick implements Ticker.
func (r *responder) Tick() {
	if !r.frozen.Load() {
		r.tick.Add(1)
	}
}

func (r *responder) run() {
	defer close(r.done)
	in, out := make([]byte, mostInDatagram), []byte(nil)
	for {
		n, from, err := r.conn.ReadFromUDPAddrPort(in)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		p, err := packet.Parse(in[:n], testJob, &testKey)
		if err != nil || r.mute.Load() || p.Of != r.node || p.From == r.cut.Load()-1 && p.From >= 0 || r.deaf.Load() && p.From == packet.FrontEnd {
			continue
		}
		switch p.Kind {
		case packet.Ping:
			p.Kind = packet.Answer
			r.pinged.Add(1)
		case packet.Fence:
			r.orders.Add(1)
			if r.tough.Load() || p.Inc != r.inc.Load() {
				continue
			}
			r.fenced.Store(true)
			p.Kind = packet.Fenced
		default:
			continue
		}
		p.From, p.Inc, p.Tick = r.node, r.inc.Load(), r.tick.Load()
		p.DaemonDead, p.Fenced = r.dead.Load(), r.fenced.Load()
		out = p.Append(out[:0], &testKey)
		_, _ = r.conn.WriteToUDPAddrPort(out, from) // the asker repeats it
	}
}

// proof and silence are calls of Proven, and of Silent or Unreached.
type (
	proof struct {
		node ring.Node
		inc  uint32
		why  ring.Reason
	}
	silence struct {
		node ring.Node
		inc  uint32
	}
)

// node is a node of a cluster, with what its detector has called.
type node struct {
	*Detector
	responder *responder
	proven    []proof
	silent    []silence
	unreached []silence
	heard     []bmg.Payload
	accused   int
}

// cluster is some nodes in this process. mu guards what detectors have called.
type cluster struct {
	t       testing.TB
	peers   []Peer
	nodes   []*node
	mu      sync.Mutex
	changed chan struct{}
	began   time.Time
}

// options shape a cluster.
type options struct {
	timing ring.Timing
	loss   float64 // of what detectors send
	addr   netip.Addr
	dual   bool // sockets of IPv6, with addresses of IPv4
	log    zerolog.Logger
	still  bool // the test lets node 0 turn

	fenceFor int64 // 0: longFence
}

// quick is a timing for tests in which no live node is to be accused, however busy the machine is.
func quick() ring.Timing {
	return ring.Timing{
		Period: 20 * millisecond, Margin: 10000 * millisecond, Verify: 1000 * millisecond, Daemon: 20000 * millisecond, Direct: 20000 * millisecond,
		Probes: 3, Window: 4,
	}
}

// listen returns a socket of a node, and its address.
func listen(t testing.TB, o *options) (*net.UDPConn, netip.AddrPort) {
	t.Helper()
	at, network := netip.AddrPortFrom(o.addr, 0), "udp"
	if o.dual {
		at = netip.AddrPortFrom(netip.IPv6Unspecified(), 0)
	}
	conn, err := net.ListenUDP(network, net.UDPAddrFromAddrPort(at))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	bound := conn.LocalAddr().(*net.UDPAddr).AddrPort()
	return conn, netip.AddrPortFrom(o.addr, bound.Port())
}

// newCluster starts n nodes that answer pings, and then their detectors.
func newCluster(t testing.TB, n int, o options) *cluster {
	t.Helper()
	if !o.addr.IsValid() {
		o.addr = localhost
	}
	c := &cluster{t: t, changed: make(chan struct{}, 1), began: time.Now()}
	var sockets []*net.UDPConn
	for i := range n {
		r := &responder{node: ring.Node(i), done: make(chan struct{})}
		r.inc.Store(1)
		var p Peer
		var socket *net.UDPConn
		r.conn, p.Responder = listen(t, &o)
		socket, p.Detector = listen(t, &o)
		go r.run()
		t.Cleanup(func() {
			r.conn.Close()
			<-r.done
		})
		sockets, c.peers = append(sockets, socket), append(c.peers, p)
		c.nodes = append(c.nodes, &node{responder: r})
	}
	for i, v := range c.nodes {
		cfg := c.config(ring.Node(i), sockets[i], &o)
		if o.still && i == 0 {
			v.startStill(t, cfg)
			continue
		}
		var err error
		if v.Detector, err = Start(cfg); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(v.Close)
	}
	return c
}

// startStill starts a detector without its goroutine.
func (v *node) startStill(t testing.TB, cfg Config) {
	t.Helper()
	d, err := newDetector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	v.Detector = d
	d.teller.Start()
	t.Cleanup(d.release)
	d.now = d.clock()
	d.stepRing(ring.Event{Kind: ring.Start})
}

// turnOnce lets a detector without a goroutine turn.
func (v *node) turnOnce(t testing.TB) {
	t.Helper()
	if err := v.link.raw.Control(v.turnFunc); err != nil || v.turnErr != nil {
		t.Fatal(err, v.turnErr)
	}
}

// config returns the Config of a node.
func (c *cluster) config(me ring.Node, socket *net.UDPConn, o *options) Config {
	v := c.nodes[me]
	cfg := Config{
		Me: me, Nodes: len(c.nodes), Key: testKey, Job: testJob, Socket: socket, Peers: c.peers, Responder: v.responder, Timing: o.timing,
		Proven: func(node ring.Node, inc uint32, why ring.Reason) {
			c.note(func() { v.proven = append(v.proven, proof{node, inc, why}) })
		},
		Silent: func(node ring.Node, inc uint32) { c.note(func() { v.silent = append(v.silent, silence{node, inc}) }) },
		Unreached: func(node ring.Node, inc uint32) {
			c.note(func() { v.unreached = append(v.unreached, silence{node, inc}) })
		},
		Heard:   func(p *bmg.Payload) { c.note(func() { v.heard = append(v.heard, *p) }) },
		Accused: func() { c.note(func() { v.accused++ }) },
		Logger:  o.log, fenceFor: longFence,
	}
	if o.fenceFor > 0 {
		cfg.fenceFor = o.fenceFor
	}
	if o.loss > 0 {
		rng := rand.New(rand.NewPCG(uint64(me), 19))
		cfg.lose = func() bool { return rng.Float64() < o.loss }
	}
	return cfg
}

// note notes a call, and wakes the test.
func (c *cluster) note(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// await waits until the detectors have called what the test wants.
func (c *cluster) await(what string, within time.Duration, done func() bool) {
	c.t.Helper()
	limit := time.NewTimer(within)
	defer limit.Stop()
	for {
		c.mu.Lock()
		ok := done()
		c.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-c.changed:
		case <-limit.C:
			c.t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// close closes the detectors. What they have called is complete then, and needs no lock.
func (c *cluster) close() {
	for _, v := range c.nodes {
		v.Close()
	}
}

// observer returns who watches a node.
func (c *cluster) observer(of ring.Node) ring.Node {
	n := len(c.nodes)
	return ring.Node((int(of) + ring.Stride(n)) % n)
}

// fall makes a node silent: its machine has failed.
func (c *cluster) fall(p ring.Node) {
	c.nodes[p].responder.mute.Store(true)
	c.nodes[p].Close()
}

// eventually waits for a count, which nobody tells the test of.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	limit := time.Now().Add(tooLong)
	for !done() {
		if time.Now().After(limit) {
			t.Fatalf("not within %v: %s", tooLong, what)
		}
		time.Sleep(time.Millisecond)
	}
}

// warm waits until all detectors have had answers.
func (c *cluster) warm() {
	c.t.Helper()
	eventually(c.t, "all detectors have had answers", func() bool {
		return !slices.ContainsFunc(c.nodes, func(v *node) bool { return v.Stats().Answers < 3 })
	})
}

// checkQuiet checks that no detector has accused anybody, or called anything.
func (c *cluster) checkQuiet() {
	c.t.Helper()
	for i, v := range c.nodes {
		if s := v.Stats(); s.Accusations > 0 || len(v.proven)+len(v.silent)+len(v.unreached)+len(v.heard)+v.accused > 0 {
			c.t.Errorf("node %d: %+v, proven %v, silent %v, unreached %v, heard %v, accused %d", i, s, v.proven, v.silent, v.unreached, v.heard, v.accused)
		}
	}
}
