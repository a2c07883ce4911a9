package ftco

import (
	"cmp"
	"slices"
)

// What came up the tree for one operation, and how a member makes its own contribution of it.

// slot holds what node sent up: the contribution of its subtree, or its question for the decision.
type slot struct {
	node  Node
	value bool // bytes came with it
	sets  *Sets
}

// slot returns what came from node v, or nil.
func (o *op) slot(v Node) *slot {
	for i := range o.slots {
		if o.slots[i].node == v {
			return &o.slots[i]
		}
	}
	return nil
}

// addSlot adds the message msg of node v, which has none yet. Its parent is this member if isChild.
func (o *op) addSlot(v Node, msg *Msg, isChild bool) {
	o.slots = slices.Grow(o.slots, max(0, int(o.degree)-len(o.slots))) // once, and kept
	o.slots = append(o.slots, slot{node: v, value: msg.Value != NoValue, sets: msg.Sets})
	o.lacking = o.lacking || msg.Sets != nil
	if isChild {
		o.direct++
	}
}

// ownBuf names the buffer of this member's contribution, or is NoValue.
func (o *op) ownBuf(w *view) Buf {
	if o.call.Kind == Allreduce || o.call.Kind == Reduce {
		return Buf(w.me)
	}
	return NoValue
}

// combineBelow combines what came from v's children into acc, in the order of nodes. It returns
// the buffer that holds the result: acc, or the first operand if acc is NoValue. Order and
// association depend on the tree and on who contributed, and on nothing else.
func (o *op) combineBelow(w *view, v Node, acc Buf, out []Action) (Buf, []Action) {
	end := w.tree.End(v)
	for c := v + 1; c < end; c = w.tree.End(c) {
		var part Buf
		if part, out = o.combineSubtree(w, c, out); part == NoValue {
			continue
		}
		if acc == NoValue {
			acc = part
			continue
		}
		out = append(out, Action{Kind: Combine, Seq: o.seq, Dst: acc, Src: part})
	}
	return acc, out
}

// combineSubtree returns the buffer that holds the contribution of v's subtree. If v died before
// it contributed, the contributions below it are combined.
func (o *op) combineSubtree(w *view, v Node, out []Action) (Buf, []Action) {
	if v == o.me {
		return o.ownBuf(w), out
	}
	if s := o.slot(v); s != nil {
		if !s.value {
			return NoValue, out
		}
		return Buf(w.memberAt(o, v)), out
	}
	return o.combineBelow(w, v, NoValue, out)
}

// appendMissing appends the members of v's subtree that are dead and in no contribution that came.
func (o *op) appendMissing(w *view, v Node, list []Node) []Node {
	if v == o.me || o.slot(v) != nil {
		sets := o.sets
		if v != o.me {
			sets = o.slot(v).sets
		}
		if sets != nil {
			list = append(list, sets.Missing...)
		}
		return list
	}
	list = append(list, w.memberAt(o, v))
	return o.appendMissingBelow(w, v, list)
}

// appendMissingBelow does the same for the subtrees of v's children.
func (o *op) appendMissingBelow(w *view, v Node, list []Node) []Node {
	end := w.tree.End(v)
	for c := v + 1; c < end; c = w.tree.End(c) {
		list = o.appendMissing(w, c, list)
	}
	return list
}

// decisionSets returns the sets of the decision that this member makes.
func (o *op) decisionSets(w *view) *Sets {
	if w.nfailed == 0 && !o.lacking {
		return nil
	}
	s := &Sets{}
	if o.gathers && o.call.Kind != Bcast {
		s.Missing = o.appendMissing(w, 0, nil)
	} else if o.me != 0 {
		s.Missing = append(s.Missing, o.call.Root)
	}
	s.Failed = append(make([]Node, 0, int(w.nfailed)+len(s.Missing)), s.Missing...)
	w.failed.each(func(p Node) { s.Failed = append(s.Failed, p) })
	slices.SortFunc(s.Failed, func(p, q Node) int { return cmp.Compare(w.nodeOf(o, p), w.nodeOf(o, q)) })
	s.Failed = slices.Compact(s.Failed)
	return s
}

// resultFor names the buffer with which the decision goes to node v.
func (o *op) resultFor(v Node) Buf {
	switch {
	case o.call.Kind == Barrier, o.call.Kind == Reduce && v != 0:
		return NoValue
	case o.call.Kind == Bcast && o.sets != nil && len(o.sets.Missing) > 0:
		return NoValue // the root is dead, and no living member has its value
	}
	return Result
}
