package ftco

// role is a node's part in the collective without failures. It answers what depends on nothing that
// happens.
type role struct {
	g  *PublishedGroup
	me Node
}

// newContact returns a contact for v at the distance d.
func (r role) newContact(v Node, d int32) contact {
	patience := r.g.timeout(v, d)
	return contact{
		node: v, distance: uint16(min(d, 1<<16-1)), patience: patience, interval: max(patience, r.g.timeout(r.me, d)),
	}
}

// reportsTo reports whether DATA goes up to v: in a reduction over several roots, all other roots
// report to the first only.
func (r role) reportsTo(v Node) bool {
	return r.g.cfg.Collective != Reduce || r.me >= r.g.cfg.Tree.Roots() || v == 0
}

// collectsFrom reports whether a reduction brings v's DATA here. All roots report to the first.
func (r role) collectsFrom(v Node) bool {
	return v > r.me && (r.me == 0 || !r.g.cfg.Tree.IsRoot(v))
}

// skips reports whether the collective has no such phase at this node.
func (r role) skips(ph phase) bool {
	switch r.g.cfg.Collective {
	case Bcast:
		switch ph {
		case fromBelow, fromBelowMore, wholeAtZero, fromAbove, fromAboveMore:
			return true
		case toAbove, toAboveMore:
			return r.me != 0 // the first root sends to the others
		}
	case Reduce:
		switch ph {
		case toAbove, toAboveMore:
			return r.me == 0
		case fromAbove, fromAboveMore, toBelow, toBelowMore:
			return true
		}
	}
	return ph == wholeAtZero && r.me != 0
}

// eta returns until when a node in the phase waits without asking: for its subtree's DATA while it
// waits for that, and then for the result.
func (r role) eta(ph phase) int32 {
	if ph <= fromBelowMore && r.g.cfg.Collective != Bcast {
		return min(r.g.etaSub[r.me], r.g.etaFull[r.me])
	}
	return r.g.etaFull[r.me]
}
