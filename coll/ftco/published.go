package ftco

import (
	"errors"
	"fmt"

	"github.com/goshmem/goshmem/coll/tree"
)

// ServiceDistance is how a published machine divides its steps between near and far nodes
// (Appendix A).
type ServiceDistance uint8

// The service-distance functions.
const (
	RSD       ServiceDistance = iota // randomized: distance d with probability 2^-d
	DISD                             // deterministic: half of each interval for distance 1, a quarter for 2, ...
	NoService                        // the collective without fault tolerance: neither KEEPALIVE nor ACK
)

// String returns the name that options use.
func (s ServiceDistance) String() string {
	return [...]string{"rsd", "disd", "none"}[min(s, NoService)]
}

// PublishedConfig shapes the machines of one collective as published. The published figures and the
// printed algorithms differ in two points; PrintedOrder and PrintedSuspect choose what is printed.
type PublishedConfig struct {
	Tree       *tree.Levels
	Collective Kind // Allreduce, Reduce or Bcast, with node 0 as root
	Latency    int32
	Service    ServiceDistance
	Seed       uint64

	PrintedOrder   bool // Algorithm 1: handle all inbound messages of a distance before fault detection
	PrintedSuspect bool // Algorithm 4, line 21: send KEEPALIVE only to nodes that have not sent DATA
}

// PublishedGroup is what the machines of one collective share: tables, which never change, and the
// store of the sets that travel. One goroutine steps all machines.
type PublishedGroup struct {
	cfg     PublishedConfig
	n       int32
	etaSub  []int32 // by node: when its subtree's DATA is expected
	etaFull []int32 // by node: when the result is expected
	spans   []span  // the store: sets in messages that are more than one interval
	seed    uint64
}

// ErrPublished reports a configuration that the paper's algorithms do not cover.
var ErrPublished = errors.New("no such published collective")

// NewPublishedGroup computes what the machines of a collective share. Members makes the machines.
func NewPublishedGroup(cfg PublishedConfig) (*PublishedGroup, error) {
	switch {
	case cfg.Tree == nil:
		return nil, fmt.Errorf("%w: no tree", ErrPublished)
	case cfg.Collective != Allreduce && cfg.Collective != Reduce && cfg.Collective != Bcast:
		return nil, fmt.Errorf("%w: collective %d, want Allreduce, Reduce or Bcast", ErrPublished, cfg.Collective)
	case cfg.Latency < 1 || cfg.Latency > 1<<20:
		return nil, fmt.Errorf("%w: latency %d, want 1 to %d", ErrPublished, cfg.Latency, 1<<20)
	case cfg.Service > NoService:
		return nil, fmt.Errorf("%w: service distance %d, want RSD, DISD or NoService", ErrPublished, cfg.Service)
	}
	g := &PublishedGroup{cfg: cfg, n: int32(cfg.Tree.Len()), seed: cfg.Seed}
	g.setETAs()
	roots := int(cfg.Tree.Roots())
	g.spans = make([]span, 0, min(roots*roots+2*roots, 1<<20))
	return g, nil
}

// setETAs computes f_ETA twice for each node: for its subtree's DATA and for the result (Section 4,
// "Data Propagation Disruptions").
func (g *PublishedGroup) setETAs() {
	t, hop := g.cfg.Tree, g.cfg.Latency+1
	g.etaSub, g.etaFull = make([]int32, g.n), make([]int32, g.n)
	if g.cfg.Collective != Bcast {
		for v := g.n - 1; v >= 0; v-- {
			kids := t.Children(v)
			if len(kids) == 0 {
				continue
			}
			latest := int32(0)
			for _, c := range kids {
				latest = max(latest, g.etaSub[c])
			}
			g.etaSub[v] = latest + hop + int32(len(kids))
		}
	}
	whole := int32(0)
	for r := range t.Roots() {
		whole = max(whole, g.etaSub[r])
	}
	if t.Roots() > 1 {
		whole += hop + t.Roots() - 1
	}
	for r := range t.Roots() {
		g.etaFull[r] = whole
	}
	for v := range g.n {
		for i, c := range t.Children(v) {
			g.etaFull[c] = g.etaFull[v] + hop + 1 + int32(i)
		}
	}
}

// timeout is f_timeout(me, dest) for a node at the distance d: the time that messages take both ways,
// and as many service intervals of dest as dest may need to attend to all nodes at that distance.
func (g *PublishedGroup) timeout(dest, d int32) int32 {
	peers := int64(g.cfg.Tree.Peers(dest, d))
	if peers == 0 {
		return 2 * g.cfg.Latency
	}
	interval := 4 * int64(g.cfg.Tree.Degree(dest))
	wanted := peers << min(d, 24)
	return 2*g.cfg.Latency + int32(min((wanted+interval-1)/interval*interval, 1<<24))
}

// Len returns the number of nodes.
func (g *PublishedGroup) Len() int { return int(g.n) }

// Members makes all machines at once, in few pieces of memory. They are at rest until they get
// PubEnter.
func (g *PublishedGroup) Members() []Published {
	t := g.cfg.Tree
	total := int(0)
	for v := range g.n {
		total += int(t.Degree(v))
	}
	members := make([]Published, g.n)
	lists := make([]contact, total)
	inboxes := make([]PubMsg, total)
	spans := make([]span, total+int(g.n))
	for v := range g.n {
		d := int(t.Degree(v))
		m := &members[v]
		m.contacts.list, lists = lists[:0:d], lists[d:]
		m.inbox, inboxes = inboxes[:0:d], inboxes[d:]
		m.accounted.spans, spans = spans[:0:d+1], spans[d+1:]
		m.init(g, v)
	}
	return members
}

// Reset puts the machines that Members has made back to rest, with other random numbers.
func (g *PublishedGroup) Reset(members []Published, seed uint64) {
	g.spans, g.seed = g.spans[:0], seed
	for v := range members {
		members[v].init(g, Node(v))
	}
}

// init puts machine v to rest.
func (p *Published) init(g *PublishedGroup, v Node) {
	t := g.cfg.Tree
	*p = Published{
		role: role{g, v}, late: true,
		contacts: contacts{list: p.contacts.list[:0]}, inbox: p.inbox[:0], accounted: spanSet{spans: p.accounted.spans[:0]},
		rng: (g.seed + uint64(v) + 1) * 0x9e3779b97f4a7c15,
	}
	c := &p.contacts
	if f := t.Parent(v); f != tree.None {
		c.meet(p.newContact(f, 1))
	} else {
		for r := v + 1; r < t.Roots(); r++ {
			c.meet(p.newContact(r, 1))
		}
		for r := range v {
			c.meet(p.newContact(r, 1))
		}
	}
	c.above = int32(len(c.list))
	for _, child := range t.Children(v) {
		c.meet(p.newContact(child, 1))
	}
	c.inTree = int32(len(c.list))
	p.accounted.spans = append(p.accounted.spans, g.place(v))
}
