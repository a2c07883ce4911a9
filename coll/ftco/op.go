package ftco

import "slices"

// op is one operation. The tree is laid over the members so that the root of a
// Reduce or Bcast is node 0 of it: nodes below are numbers in that tree, unless a
// name says member.
type op struct {
	seq  uint64
	call Call
	me   Node

	entered   bool  // here
	gathers   bool  // the root must hear of all before it decides; known once entered
	frozen    bool  // all of my subtree that lives is in my contribution, or this is a question only
	decided   bool  // the decision is here
	acked     bool  // uniform: all of my living subtree hold it
	committed bool  // uniform: and with everybody
	returned  bool  // the local call
	lacking   bool  // one of the slots lacks somebody
	idle      int32 // ticks since the last progress

	degree int32  // how many children I have
	direct int32  // and how many of them are in slots
	slots  []slot // what came up, each node's once
	acks   []Node // whose subtrees hold the decision
	sets   *Sets  // of my contribution when frozen, of the decision when decided
	sentTo Node   // to whom my contribution went last
	haveTo Node   // to whom the decision went as Have
	ackTo  Node   // to whom my Ack went last
	opener Node   // the first member that a message came from
}

// slot is the contribution of a subtree, or the question of its top.
type slot struct {
	node  Node
	value bool
	sets  *Sets
}

// virtual is member p's node.
func (o *op) virtual(p Node, m *Machine) Node {
	v := p - o.call.Root
	if v < 0 {
		v += Node(m.tree.Len())
	}
	return v
}

// member is the member at node v.
func (o *op) member(v Node, m *Machine) Node {
	if v += o.call.Root; v >= Node(m.tree.Len()) {
		v -= Node(m.tree.Len())
	}
	return v
}

// slot is what came from node v, or nil.
func (o *op) slot(v Node) *slot {
	for i := range o.slots {
		if o.slots[i].node == v {
			return &o.slots[i]
		}
	}
	return nil
}

// dead says whether node v is.
func (m *Machine) dead(o *op, v Node) bool { return m.isFailed(o.member(v, m)) }

// lowest is the lowest living node: the root, or who takes its place.
func (m *Machine) lowest(o *op) Node {
	v := Node(0)
	for v != o.me && m.dead(o, v) {
		v++
	}
	return v
}

// above is the node that I report to: my nearest living ancestor or, if there is
// none, the lowest living node. It is None if that is me.
func (m *Machine) above(o *op) Node {
	for v := m.tree.Parent(o.me); v >= 0; v = m.tree.Parent(v) {
		if !m.dead(o, v) {
			return v
		}
	}
	if v := m.lowest(o); v != o.me {
		return v
	}
	return None
}

// has is a test of what is known of a node's subtree.
type has func(m *Machine, o *op, v Node) bool

func contributed(_ *Machine, o *op, v Node) bool {
	if v == o.me {
		return o.frozen
	}
	return o.slot(v) != nil
}

func acknowledged(_ *Machine, o *op, v Node) bool {
	if v == o.me {
		return o.acked
	}
	return slices.Contains(o.acks, v)
}

// whole says whether test holds for all living children of v; a dead one's
// children stand for it, unless it had reported before it died.
func (m *Machine) whole(o *op, v Node, test has) bool {
	end := m.tree.End(v)
	for c := v + 1; c < end; c = m.tree.End(c) {
		if !m.holds(o, c, test) {
			return false
		}
	}
	return true
}

// holds says the same of v and its subtree.
func (m *Machine) holds(o *op, v Node, test has) bool {
	return test(m, o, v) || m.dead(o, v) && m.whole(o, v, test)
}

// fold combines what came from v's children into acc, in the order of nodes, and
// gives the buffer that holds it: acc, or the first one if acc is none. The order
// and the association depend on the tree and on who contributed, on nothing else.
func (m *Machine) fold(o *op, v Node, acc Buf, out []Action) (Buf, []Action) {
	end := m.tree.End(v)
	for c := v + 1; c < end; c = m.tree.End(c) {
		var part Buf
		if part, out = m.part(o, c, out); part == NoValue {
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

// part is the buffer with the contribution of v's subtree.
func (m *Machine) part(o *op, v Node, out []Action) (Buf, []Action) {
	if v == o.me {
		return o.own(m), out
	}
	if s := o.slot(v); s != nil {
		if !s.value {
			return NoValue, out
		}
		return Buf(o.member(v, m)), out
	}
	return m.fold(o, v, NoValue, out)
}

// own is the buffer of my contribution.
func (o *op) own(m *Machine) Buf {
	if o.call.Kind == Allreduce || o.call.Kind == Reduce {
		return Buf(m.me)
	}
	return NoValue
}

// missing appends who of v's subtree is dead and in no contribution that came.
func (m *Machine) missing(o *op, v Node, list []Node) []Node {
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
	list = append(list, o.member(v, m))
	return m.missingBelow(o, v, list)
}

func (m *Machine) missingBelow(o *op, v Node, list []Node) []Node {
	end := m.tree.End(v)
	for c := v + 1; c < end; c = m.tree.End(c) {
		list = m.missing(o, c, list)
	}
	return list
}
