package ftco

import (
	"math/bits"
	"slices"

	"github.com/goshmem/goshmem/coll/tree"
)

// phase is how far the traversal of the tree has got (Algorithm 3). A failure
// puts it back.
type phase uint8

const (
	fromBelow     phase = iota // wait for my children's DATA
	fromBelowMore              // and for that of children of dead children
	toAbove                    // send DATA to my father, or to all other roots
	toAboveMore                // and to fathers of dead fathers
	wholeAtZero                // node 0 waits until everybody is accounted for
	fromAbove                  // wait for DATA from above
	fromAboveMore
	whole   // nobody passes on a partial result
	toBelow // send it down
	toBelowMore
	done
)

// traverse sends DATA if it is time to, and else says whether all is done.
func (p *Published) traverse(now int32, out []PubAction) ([]PubAction, bool) {
	for ; p.phase < done; p.phase, p.index = p.phase+1, 0 {
		if p.skips(p.phase) {
			continue
		}
		switch p.phase {
		case fromBelow, fromBelowMore, fromAbove, fromAboveMore:
			if !p.allArrived() {
				return out, false
			}
		case toAbove, toAboveMore, toBelow, toBelowMore:
			if c := p.nextTo(); c != nil {
				return append(out, p.data(c, now)), false
			}
		case wholeAtZero, whole:
			if !p.wholeHere() {
				return out, false
			}
		}
	}
	return out, true
}

// skips says that a phase is not part of the collective here.
func (p *Published) skips(ph phase) bool {
	switch p.g.cfg.Collective {
	case Bcast:
		switch ph {
		case fromBelow, fromBelowMore, wholeAtZero, fromAbove, fromAboveMore:
			return true
		case toAbove, toAboveMore:
			return p.me != 0 // the first root tells the others
		}
	case Reduce:
		switch ph {
		case toAbove, toAboveMore:
			return p.me == 0
		case fromAbove, fromAboveMore, toBelow, toBelowMore:
			return true
		}
	}
	return ph == wholeAtZero && p.me != 0
}

// wholeHere says whether what the collective waits for has come. Reduce: "waits
// for an ACK from its parent", after having sent those to its children.
func (p *Published) wholeHere() bool {
	switch {
	case p.g.cfg.Collective == Bcast:
		return p.me == 0 || p.got
	case p.g.cfg.Collective == Reduce && p.me != 0:
		return p.g.cfg.Service == NoService || p.owing == 0 && !p.waitsAbove()
	}
	return p.full()
}

func (p *Published) waitsAbove() bool {
	for i := range p.ups {
		if c := &p.contacts[i]; c.waits && !c.dead && p.reports(c) {
			return true
		}
	}
	if p.tour != nil {
		for _, i := range p.tour.up {
			if c := &p.contacts[i]; c.waits && !c.dead {
				return true
			}
		}
	}
	return false
}

// reports says whether DATA goes up to c: in a reduction over several roots all
// others report to the first.
func (p *Published) reports(c *contact) bool {
	return p.g.cfg.Collective != Reduce || p.me >= p.g.cfg.Tree.Roots() || c.node == 0
}

// peer is the i-th contact of the phase, or nil after the last.
func (p *Published) peer(i int32) *contact {
	switch p.phase {
	case toAbove, fromAbove:
		if i < p.ups {
			return &p.contacts[i]
		}
	case fromBelow, toBelow:
		if p.ups+i < p.base {
			return &p.contacts[p.ups+i]
		}
	case toAboveMore, fromAboveMore:
		if p.tour != nil && int(i) < len(p.tour.up) {
			return &p.contacts[p.tour.up[i]]
		}
	case fromBelowMore, toBelowMore:
		if p.tour != nil && int(i) < len(p.tour.down) {
			return &p.contacts[p.tour.down[i]]
		}
	}
	return nil
}

// allArrived says whether the phase waits for nobody any more. Roots of a
// reduction are like children of the first.
func (p *Published) allArrived() bool {
	for {
		c := p.peer(p.index)
		if c == nil {
			return true
		}
		if !c.dead && !p.arrived(c.node) {
			return false
		}
		p.index++
	}
}

// nextTo is to whom the phase sends next, or nil.
func (p *Published) nextTo() *contact {
	for {
		c := p.peer(p.index)
		if c == nil {
			return nil
		}
		p.index++
		if !c.dead && (p.phase != toAbove || p.reports(c)) {
			return c
		}
	}
}

// data is DATA to c; that it is also an answer to c saves the ACK.
func (p *Published) data(c *contact, now int32) PubAction {
	p.owe(c, false)
	a := p.ask(PubData, c, now)
	p.snapshot(&a.Msg)
	return a
}

// ask is a message that wants an answer.
func (p *Published) ask(kind PubMsgKind, c *contact, now int32) PubAction {
	c.waits, c.sent = true, now
	m := PubMsg{From: p.me, Kind: kind, Distance: c.distance, Deadline: now + c.patience}
	if p.g.cfg.Service == NoService {
		m.Deadline = 0
	}
	return PubAction{Kind: PubSend, To: c.node, Msg: m}
}

// ack is an ACK to c.
func (p *Published) ack(c *contact) PubAction {
	p.owe(c, false)
	return PubAction{Kind: PubSend, To: c.node, Msg: PubMsg{From: p.me, Kind: PubAck, Distance: c.distance}}
}

// acknowledge sends the first ACK that is owed at the distance d, or at any.
func (p *Published) acknowledge(d int32, out []PubAction) []PubAction {
	if p.owing == 0 {
		return out
	}
	for i := range p.contacts {
		if c := &p.contacts[i]; c.owed && !c.dead && (d == 0 || int32(c.distance) == d) {
			return append(out, p.ack(c))
		}
	}
	return out
}

// detect is Algorithm 4 without lines 2 to 12: deadlines are the driver's.
func (p *Published) detect(d int32, now int32, out []PubAction) []PubAction {
	if p.g.cfg.Service == NoService {
		return out
	}
	before := len(out)
	if out = p.acknowledge(d, out); len(out) > before || p.finished || p.eta() >= now {
		return out
	}
	for i := range p.contacts {
		c := &p.contacts[i]
		if d != 0 && int32(c.distance) != d || !p.asks(c) {
			continue
		}
		if !c.seen || now-c.sent > c.interval {
			return append(out, p.ask(PubKeepAlive, c, now))
		}
	}
	return out
}

// asks says whether a KEEPALIVE to c can tell me something. It cannot if c is dead or owes
// an answer already. Otherwise:
//
//	Allreduce  always: the published figures were made so
//	Bcast      until I have the result, which node 0 has from the start
//	Reduce     if c is below me and somebody of its subtree is not accounted for
//
// The nodes below are all that a reduction has to ask. A node waits for DATA of those, and
// for the ACKs of its own DATA, whose deadline tells it of a death. A root other than node 0
// waits for no root. If one of them dies, node 0 asks its orphans, their DATA goes to all
// roots, and each root adopts all orphans of that one.
//
// That c itself is accounted for is not enough: an orphan of one root that finds another root
// dead accounts for that root, too, and its DATA may be the first that node 0 hears of it.
// Node 0 still has to find out about the second root, to adopt its orphans.
func (p *Published) asks(c *contact) bool {
	if c.dead || c.waits {
		return false
	}
	switch p.g.cfg.Collective {
	case Bcast:
		return p.me != 0 && !p.got
	case Reduce:
		return p.below(c) && !p.whollyArrived(c.node)
	}
	return !p.g.cfg.PrintedSuspect || !p.arrived(c.node)
}

// below says whether a reduction brings c's DATA to me. All roots report to the first.
func (p *Published) below(c *contact) bool {
	return c.node > p.me && (p.me == 0 || !p.g.cfg.Tree.IsRoot(c.node))
}

// eta is until when to wait without asking: for the subtree's DATA while that is
// waited for, then for the result.
func (p *Published) eta() int32 {
	if p.phase <= fromBelowMore && p.g.cfg.Collective != Bcast {
		return min(p.g.etaSub[p.me], p.g.etaFull[p.me])
	}
	return p.g.etaFull[p.me]
}

// arrived says whether v is accounted for.
func (p *Published) arrived(v Node) bool {
	place, _ := p.g.cfg.Tree.Interval(v)
	return p.has(place)
}

// whollyArrived says whether v and all below it in the tree without failures are accounted
// for.
func (p *Published) whollyArrived(v Node) bool {
	from, to := p.g.cfg.Tree.Interval(v)
	return p.hasAll(span{from, to})
}

// place is a node alone.
func (g *PublishedGroup) place(v Node) span {
	at, _ := g.cfg.Tree.Interval(v)
	return span{at, at + 1}
}

// lookup is the number of v's contact, or negative.
func (p *Published) lookup(v Node) int32 {
	for i := range p.contacts {
		if p.contacts[i].node == v {
			return int32(i)
		}
	}
	return -1
}

// meet makes a contact of v at the distance d.
func (p *Published) meet(v Node, d int32) int32 {
	patience := p.g.timeout(v, d)
	p.contacts = append(p.contacts, contact{
		node: v, distance: uint16(min(d, 1<<16-1)), patience: patience, interval: max(patience, p.g.timeout(p.me, d)),
	})
	p.far = p.far || d > 1
	return int32(len(p.contacts) - 1)
}

// bypass changes the tree after news of who: that it is dead, or that a node that
// I do not know has turned to me, because all between it and me are dead
// (Algorithm 4, lines 7 to 11). Then what was sent is sent again.
func (p *Published) bypass(who Node, dead bool) {
	t := p.g.cfg.Tree
	if p.tour == nil {
		p.tour = &detour{}
	}
	p.finished, p.stranger = false, false
	var between []Node
	v, adopt := who, p.me < who
	if !adopt {
		v = p.me
	}
	stop := p.me
	if !adopt {
		stop = who
	}
	for first := v; v != stop && v != 0 && v != tree.None; v = t.Parent(v) {
		if v != first || adopt && dead {
			between = append(between, v)
		}
	}
	if adopt {
		slices.Reverse(between)
	} else if dead {
		between = append(between, who)
	}
	adopt = adopt || v != stop && who != 0 && t.IsRoot(p.me) // another root
	for _, b := range between {
		p.replace(b, adopt)
	}
	if adopt {
		p.phase, p.index = fromBelow, 0
	} else if p.phase > toAboveMore {
		p.phase, p.index = toAboveMore, 0
	}
}

// replace puts a dead node's children, or those above it, in its place.
func (p *Published) replace(b Node, adopt bool) {
	at := p.lookup(b)
	if at < 0 {
		at = p.meet(b, p.g.cfg.Tree.Distance(p.me, b))
	}
	c := &p.contacts[at]
	if c.dead {
		return
	}
	c.dead = true
	p.add(p.g.place(b)) // who told me may die before it tells the others
	p.owe(c, false)
	further := int32(c.distance) + 1
	t := p.g.cfg.Tree
	if adopt {
		for _, v := range t.Children(b) {
			p.tour.down = p.joins(v, further, p.tour.down)
		}
		return
	}
	for _, v := range t.Up(b, nil) {
		p.tour.up = p.joins(v, further, p.tour.up)
	}
}

// joins appends v's contact to a list of the detour, unless v is in one.
func (p *Published) joins(v Node, d int32, list []int32) []int32 {
	if v == p.me {
		return list
	}
	at := p.lookup(v)
	if at < 0 {
		at = p.meet(v, d)
	}
	if at < p.base || p.contacts[at].dead {
		return list
	}
	for _, l := range [][]int32{p.tour.up, p.tour.down} {
		if slices.Contains(l, at) {
			return list
		}
	}
	return append(list, at)
}

// distance is get_service_distance() (Appendix A).
func (p *Published) distance(now int32) int32 {
	if p.g.cfg.Service == DISD {
		return intervals(now, 4*p.g.cfg.Tree.Degree(p.me))
	}
	p.rng ^= p.rng << 13
	p.rng ^= p.rng >> 7
	p.rng ^= p.rng << 17
	return int32(bits.TrailingZeros64(p.rng>>16|1<<40)) + 1
}

// intervals is f_DISD: of an interval the first half is for distance 1, the next
// quarter for 2 and so on; its last step goes round all distances that have no
// step of their own, in the proportions of a ruler.
func intervals(now, width int32) int32 {
	rest := width - now%width // from width down to 1
	if rest > 1 {
		d := int32(1)
		for rest *= 2; rest <= width; rest *= 2 {
			d++
		}
		return d
	}
	own := int32(bits.Len32(uint32(width))) - 1
	return own + 1 + int32(bits.TrailingZeros32(uint32(now/width+1)))
}
