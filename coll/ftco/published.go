package ftco

import (
	"errors"
	"fmt"

	"github.com/goshmem/goshmem/coll/tree"
)

// ServiceDistance says how a published machine shares its attention among near
// and far nodes (Appendix A).
type ServiceDistance uint8

// The service-distance functions.
const (
	RSD       ServiceDistance = iota // randomized: distance d with probability 2^-d
	DISD                             // deterministic intervals: half of each for distance 1, a quarter for 2, ...
	NoService                        // neither KEEPALIVE nor ACK: the collective without fault tolerance
)

// String is the name that options have.
func (s ServiceDistance) String() string {
	return [...]string{"rsd", "disd", "none"}[min(s, NoService)]
}

// PublishedConfig shapes the machines of one collective as published. The last
// two fields undo one choice each that the published figures were made with,
// where the printed algorithm says something else.
type PublishedConfig struct {
	Tree       *tree.Levels
	Collective Kind // Allreduce, Reduce or Bcast, with node 0 as root
	Latency    int32
	Service    ServiceDistance
	Seed       uint64

	PrintedOrder   bool // Algorithm 1: all inbound messages of a distance before fault detection
	PrintedSuspect bool // Algorithm 4, line 21: KEEPALIVE only to who has not sent DATA
}

// PublishedGroup is what the machines of one collective share: tables, which never
// change, and the store of the sets that travel. One goroutine steps them all.
type PublishedGroup struct {
	cfg     PublishedConfig
	n       int32
	etaSub  []int32 // when a subtree's DATA is expected
	etaFull []int32 // when the result is
	spans   []span  // of sets in messages that are not one interval
	seed    uint64
}

// ErrPublished says that the paper's algorithms do not have what was wanted.
var ErrPublished = errors.New("no such published collective")

// NewPublishedGroup computes what the machines of a collective share.
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
	g.expect()
	roots := int(cfg.Tree.Roots())
	g.spans = make([]span, 0, min(roots*roots+2*roots, 1<<20))
	return g, nil
}

// expect computes f_ETA, twice for each node (Section 4, "Data Propagation
// Disruptions").
func (g *PublishedGroup) expect() {
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

// timeout is f_timeout(me, dest) for a node at the distance d: as long as a
// message takes both ways, and so many service intervals of dest as it may take
// until dest has attended to all nodes at that distance.
func (g *PublishedGroup) timeout(dest, d int32) int32 {
	peers := int64(g.cfg.Tree.Peers(dest, d))
	if peers == 0 {
		return 2 * g.cfg.Latency
	}
	interval := 4 * int64(g.cfg.Tree.Degree(dest))
	wanted := peers << min(d, 24)
	return 2*g.cfg.Latency + int32(min((wanted+interval-1)/interval*interval, 1<<24))
}

// Len is the number of nodes.
func (g *PublishedGroup) Len() int { return int(g.n) }

// Members makes all machines at once, in few pieces of memory. They are at rest
// until they are told to enter.
func (g *PublishedGroup) Members() []Published {
	t := g.cfg.Tree
	total := int(0)
	for v := range g.n {
		total += int(t.Degree(v))
	}
	members := make([]Published, g.n)
	contacts := make([]contact, total)
	inboxes := make([]PubMsg, total)
	spans := make([]span, total+int(g.n))
	for v := range g.n {
		d := int(t.Degree(v))
		m := &members[v]
		m.contacts, contacts = contacts[:0:d], contacts[d:]
		m.inbox, inboxes = inboxes[:0:d], inboxes[d:]
		m.have, spans = spans[:0:d+1], spans[d+1:]
		m.init(g, v)
	}
	return members
}

// Reset puts the machines of Members back to rest, with other random numbers.
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
		g: g, me: v, late: true,
		contacts: p.contacts[:0], inbox: p.inbox[:0], have: p.have[:0],
		rng: (g.seed + uint64(v) + 1) * 0x9e3779b97f4a7c15,
	}
	mine := g.timeout(v, 1)
	add := func(node Node) {
		patience := g.timeout(node, 1)
		p.contacts = append(p.contacts, contact{node: node, patience: patience, interval: max(mine, patience), distance: 1})
	}
	if f := t.Parent(v); f != tree.None {
		add(f)
	} else {
		for r := v + 1; r < t.Roots(); r++ {
			add(r)
		}
		for r := range v {
			add(r)
		}
	}
	p.ups = int32(len(p.contacts))
	for _, c := range t.Children(v) {
		add(c)
	}
	p.base = int32(len(p.contacts))
	from, _ := t.Interval(v)
	p.have = append(p.have, span{from, from + 1})
}
