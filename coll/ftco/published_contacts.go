package ftco

import "slices"

// contact is a node that a machine deals with.
type contact struct {
	node     Node
	sent     int32 // when it was sent DATA or KEEPALIVE last
	patience int32 // f_timeout of messages to it
	interval int32 // steps between KEEPALIVEs to it
	until    int32 // when it takes this node for dead, if it is owed an ACK
	distance uint16
	seen     bool // it has sent a message
	waits    bool // it owes an answer
	owed     bool // it is owed an ACK
	dead     bool // it is known to be dead
}

// contacts are the nodes that a machine deals with.
type contacts struct {
	list   []contact // the nodes above, the nodes below, then those that were met after failures
	detour *detour   // nil until a failure
	above  int32     // list[:above] is above this node in the tree without failures
	inTree int32     // list[above:inTree] is below it there
	owing  int32     // the contacts that are owed an ACK
	far    bool      // some node is beyond distance 1
}

// detour is how failures have changed the tree for a node: numbers of contacts that have taken the
// places of dead nodes above and below.
type detour struct{ up, down []int32 }

// find returns the number of v's contact, or -1.
func (c *contacts) find(v Node) int32 {
	for i := range c.list {
		if c.list[i].node == v {
			return int32(i)
		}
	}
	return -1
}

// meet adds a contact and returns its number.
func (c *contacts) meet(x contact) int32 {
	c.list = append(c.list, x)
	c.far = c.far || x.distance > 1
	return int32(len(c.list) - 1)
}

// join appends the number of v's contact to a list of the detour, unless v is this node, is dead,
// or has a place in the tree or the detour already.
func (c *contacts) join(r role, v Node, distance int32, list []int32) []int32 {
	if v == r.me {
		return list
	}
	at := c.find(v)
	if at < 0 {
		at = c.meet(r.newContact(v, distance))
	}
	if at < c.inTree || c.list[at].dead {
		return list
	}
	for _, l := range [][]int32{c.detour.up, c.detour.down} {
		if slices.Contains(l, at) {
			return list
		}
	}
	return append(list, at)
}

// ofPhase returns the i-th contact that the phase is about, or nil after the last.
func (c *contacts) ofPhase(ph phase, i int32) *contact {
	switch ph {
	case toAbove, fromAbove:
		if i < c.above {
			return &c.list[i]
		}
	case fromBelow, toBelow:
		if c.above+i < c.inTree {
			return &c.list[c.above+i]
		}
	case toAboveMore, fromAboveMore:
		if c.detour != nil && int(i) < len(c.detour.up) {
			return &c.list[c.detour.up[i]]
		}
	case fromBelowMore, toBelowMore:
		if c.detour != nil && int(i) < len(c.detour.down) {
			return &c.list[c.detour.down[i]]
		}
	}
	return nil
}

// setOwed notes whether x is owed an ACK.
func (c *contacts) setOwed(x *contact, owed bool) {
	switch {
	case owed && !x.owed:
		c.owing++
	case !owed && x.owed:
		c.owing--
	}
	x.owed = owed
}

// nextOwed returns the first living contact at the distance d, or at any if d is 0, that is owed an
// ACK, or nil.
func (c *contacts) nextOwed(d int32) *contact {
	if c.owing == 0 {
		return nil
	}
	for i := range c.list {
		if x := &c.list[i]; x.owed && !x.dead && (d == 0 || int32(x.distance) == d) {
			return x
		}
	}
	return nil
}

// awaitsAbove reports whether a living node above owes an answer to what this node has reported.
func (c *contacts) awaitsAbove(r role) bool {
	for i := range c.above {
		if x := &c.list[i]; x.waits && !x.dead && r.reportsTo(x.node) {
			return true
		}
	}
	if c.detour != nil {
		for _, i := range c.detour.up {
			if x := &c.list[i]; x.waits && !x.dead {
				return true
			}
		}
	}
	return false
}

// inbox is the inbound queue.
type inbox []PubMsg

// find returns the index of the first message of a kind from the distance d, or from any if d is
// 0. It returns -1 if there is none.
func (q inbox) find(kind PubMsgKind, d int32) int {
	for i := range q {
		if m := &q[i]; m.Kind == kind && (d == 0 || int32(m.Distance) == d) {
			return i
		}
	}
	return -1
}

// fromStranger returns the index of the first message whose sender is no contact, or -1.
func (q inbox) fromStranger(c *contacts) int {
	for i := range q {
		if c.find(q[i].From) < 0 {
			return i
		}
	}
	return -1
}
