package agree

// view is the group as one member sees it in the current round: the tree of the round, and the
// members that it knows to be dead.
type view struct {
	group group
	dead  []Node // ascending
}

// hasFailed reports whether member p is known to be dead.
func (w *view) hasFailed(p Node) bool { return contains(w.dead, p) }

// isDead reports whether node v is known to be dead.
func (w *view) isDead(v Node) bool { return len(w.dead) > 0 && w.hasFailed(w.group.member(v)) }

// contact returns this member's nearest living ancestor, or none.
func (w *view) contact() Node {
	v := w.group.tree.Parent(w.group.me)
	for v >= 0 && w.isDead(v) {
		v = w.group.tree.Parent(v)
	}
	return v
}

// isInferior reports whether this member is the contact of the living node v.
func (w *view) isInferior(v Node) bool {
	for p := w.group.tree.Parent(v); p >= 0; p = w.group.tree.Parent(p) {
		if p == w.group.me {
			return true
		}
		if !w.isDead(p) {
			return false
		}
	}
	return false
}
