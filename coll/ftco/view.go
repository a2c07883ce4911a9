package ftco

import (
	"slices"

	"github.com/goshmem/goshmem/coll/tree"
)

// view is the group as one member sees it: the tree of all members, and the members that it knows
// to be dead. The detector is perfect, so the views of two members differ for a while and never
// contradict each other.
//
// The tree of an operation starts at its root. Methods therefore take the operation, and name
// places of its tree (nodes), not members, unless a name says member.
type view struct {
	tree    tree.Knomial
	me      Node // this member
	nfailed int32
	failed  nodeSet // the nfailed members known to be dead
}

// addFailed adds member p to the dead, and reports whether that is news.
func (w *view) addFailed(p Node) bool {
	if !w.failed.add(p, w.tree.Len()) {
		return false
	}
	w.nfailed++
	return true
}

// hasFailed reports whether member p is known to be dead.
func (w *view) hasFailed(p Node) bool { return w.nfailed > 0 && w.failed.has(p) }

// nodeOf returns the node of member p.
func (w *view) nodeOf(o *op, p Node) Node {
	v := p - o.call.Root
	if v < 0 {
		v += Node(w.tree.Len())
	}
	return v
}

// memberAt returns the member at node v.
func (w *view) memberAt(o *op, v Node) Node {
	if v += o.call.Root; v >= Node(w.tree.Len()) {
		v -= Node(w.tree.Len())
	}
	return v
}

// isDead reports whether node v is known to be dead.
func (w *view) isDead(o *op, v Node) bool { return w.hasFailed(w.memberAt(o, v)) }

// actingRoot returns the lowest living node: the root, or the node that takes its place.
func (w *view) actingRoot(o *op) Node {
	v := Node(0)
	for v != o.me && w.isDead(o, v) {
		v++
	}
	return v
}

// superior returns the node that this member reports to: its nearest living ancestor or, if no
// ancestor lives, the acting root. It returns None if this member is the acting root.
func (w *view) superior(o *op) Node {
	for v := w.tree.Parent(o.me); v >= 0; v = w.tree.Parent(v) {
		if !w.isDead(o, v) {
			return v
		}
	}
	if v := w.actingRoot(o); v != o.me {
		return v
	}
	return None
}

// isAncestor reports whether the living node v, to which this member reports, is an ancestor of
// it: then v had the decision first.
func (w *view) isAncestor(o *op, v Node) bool { return v < o.me && o.me < w.tree.End(v) }

// isInferior reports whether node v should report to this member.
func (w *view) isInferior(o *op, v Node) bool {
	for p := w.tree.Parent(v); p >= 0; p = w.tree.Parent(p) {
		if p == o.me {
			return true
		}
		if !w.isDead(o, p) {
			return false
		}
	}
	return w.actingRoot(o) == o.me
}

// isStray reports whether the living node v, which has turned to this member, should report to
// another one by this view: v knows of deaths that are not known here.
func (w *view) isStray(o *op, v Node) bool {
	return !w.isDead(o, v) && !w.isInferior(o, v)
}

// test is a question about one node's subtree, answered from what came from that node alone.
type test func(o *op, v Node) bool

// contributed reports whether the contribution of v's subtree is here.
func contributed(o *op, v Node) bool {
	if v == o.me {
		return o.frozen
	}
	return o.slot(v) != nil
}

// acknowledged reports whether all of v's living subtree is known to hold the decision.
func acknowledged(o *op, v Node) bool {
	if v == o.me {
		return o.acked
	}
	return slices.Contains(o.acks, v)
}

// passBelow reports whether all children of v pass the test; see pass.
func (w *view) passBelow(o *op, v Node, t test) bool {
	end := w.tree.End(v)
	for c := v + 1; c < end; c = w.tree.End(c) {
		if !w.pass(o, c, t) {
			return false
		}
	}
	return true
}

// pass reports whether v passes the test, or is dead and all its children pass. What v said
// before it died counts, because it speaks for its children.
func (w *view) pass(o *op, v Node, t test) bool {
	return t(o, v) || w.isDead(o, v) && w.passBelow(o, v, t)
}
