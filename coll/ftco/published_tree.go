package ftco

import (
	"slices"

	"github.com/goshmem/goshmem/coll/tree"
)

// phase is how far the traversal of the tree has got (Algorithm 3). A failure puts it back.
type phase uint8

const (
	fromBelow     phase = iota // wait for DATA of the children
	fromBelowMore              // wait for DATA of the children of dead children
	toAbove                    // send DATA to the father, or to all other roots
	toAboveMore                // send DATA to the fathers of dead fathers
	wholeAtZero                // node 0 waits until every node is accounted for
	fromAbove                  // wait for DATA from above
	fromAboveMore              // wait for DATA of those in the place of dead ones above
	whole                      // wait until every node is accounted for: no node passes on a partial result
	toBelow                    // send the result to the children
	toBelowMore                // send the result to the children of dead children
	done
)

// traverse sends DATA if the traversal is at that. Otherwise it reports whether the traversal is
// done.
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
			if c := p.nextReceiver(); c != nil {
				return append(out, p.data(c, now)), false
			}
		case wholeAtZero, whole:
			if !p.isComplete() {
				return out, false
			}
		}
	}
	return out, true
}

// isComplete reports whether the collective waits for nothing more. A node of a reduction "waits
// for an ACK from its parent", after it has sent ACKs to its children.
func (p *Published) isComplete() bool {
	switch {
	case p.g.cfg.Collective == Bcast:
		return p.me == 0 || p.got
	case p.g.cfg.Collective == Reduce && p.me != 0:
		return p.g.cfg.Service == NoService || p.contacts.owing == 0 && !p.contacts.awaitsAbove(p.role)
	}
	return p.accounted.isFull(p.g.n)
}

// allArrived reports whether the phase waits for no contact any more. In a reduction the other
// roots are like children of the first.
func (p *Published) allArrived() bool {
	for {
		c := p.contacts.ofPhase(p.phase, p.index)
		if c == nil {
			return true
		}
		if !c.dead && !p.accounted.has(p.g.place(c.node)) {
			return false
		}
		p.index++
	}
}

// nextReceiver returns the contact to which the phase sends next, or nil.
func (p *Published) nextReceiver() *contact {
	for {
		c := p.contacts.ofPhase(p.phase, p.index)
		if c == nil {
			return nil
		}
		p.index++
		if !c.dead && (p.phase != toAbove || p.reportsTo(c.node)) {
			return c
		}
	}
}

// reroute changes the tree after news of a node: that it is dead, or that it is a stranger that has
// turned to this node because all nodes between the two are dead (Algorithm 4, lines 7 to 11). It
// puts the traversal back, so that what was sent is sent again.
func (p *Published) reroute(node Node, dead bool) {
	t := p.g.cfg.Tree
	if p.contacts.detour == nil {
		p.contacts.detour = &detour{}
	}
	p.finished, p.stranger = false, false
	var between []Node // the dead on the way between the two, from the one nearer to this node
	v, adopt := node, p.me < node
	if !adopt {
		v = p.me
	}
	stop := p.me
	if !adopt {
		stop = node
	}
	for first := v; v != stop && v != 0 && v != tree.None; v = t.Parent(v) {
		if v != first || adopt && dead {
			between = append(between, v)
		}
	}
	if adopt {
		slices.Reverse(between)
	} else if dead {
		between = append(between, node)
	}
	adopt = adopt || v != stop && node != 0 && t.IsRoot(p.me) // another root
	for _, b := range between {
		p.replace(b, adopt)
	}
	if adopt {
		p.phase, p.index = fromBelow, 0
	} else if p.phase > toAboveMore {
		p.phase, p.index = toAboveMore, 0
	}
}

// replace puts the children of the dead node b in its place if adopt is set, and otherwise the
// nodes above it.
func (p *Published) replace(b Node, adopt bool) {
	c := &p.contacts
	at := c.find(b)
	if at < 0 {
		at = c.meet(p.newContact(b, p.g.cfg.Tree.Distance(p.me, b)))
	}
	x := &c.list[at]
	if x.dead {
		return
	}
	x.dead = true
	p.accounted.add(p.g.place(b)) // the node that told of the death may die before it tells others
	c.setOwed(x, false)
	further := int32(x.distance) + 1
	t := p.g.cfg.Tree
	if adopt {
		for _, v := range t.Children(b) {
			c.detour.down = c.join(p.role, v, further, c.detour.down)
		}
		return
	}
	for _, v := range t.Up(b, nil) {
		c.detour.up = c.join(p.role, v, further, c.detour.up)
	}
}
