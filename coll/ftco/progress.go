package ftco

import (
	"cmp"
	"slices"
)

// progress does what can be done for o after something was learned.
func (m *Machine) progress(o *op, out []Action) []Action {
	if o.decided {
		return m.settle(o, out)
	}
	if !o.entered {
		return out
	}
	above := m.above(o)
	if !o.gathers {
		return m.progressLoose(o, above, out)
	}
	if !o.frozen {
		if lack := o.degree - o.direct; lack > 0 && (lack > m.nfailed || !m.whole(o, o.me, contributed)) {
			return out
		}
		out = m.freeze(o, out)
	}
	if above != None {
		return m.report(o, above, out)
	}
	return m.decide(o, out)
}

// progressLoose is progress of a broadcast that its root starts on its own. A
// node that is not decided speaks for its whole subtree: a decision comes to it
// first.
func (m *Machine) progressLoose(o *op, above Node, out []Action) []Action {
	switch {
	case o.me == 0:
		o.frozen = true
		return m.decide(o, out)
	case above == None:
		o.frozen = true
		return m.decide(o, out)
	case above != m.tree.Parent(o.me):
		o.frozen = true
		return m.report(o, above, out)
	}
	return out
}

// freeze makes my contribution of my own value and of all that came from my
// subtree. From now on it travels as a whole or not at all, so that any two
// contributions that anybody sees are disjoint, or one contains the other.
func (m *Machine) freeze(o *op, out []Action) []Action {
	o.frozen = true
	if own := o.own(m); own != NoValue {
		_, out = m.fold(o, o.me, own, out)
	}
	if m.nfailed > 0 || o.lacking {
		if missing := m.missingBelow(o, o.me, nil); len(missing) > 0 {
			o.sets = &Sets{Missing: missing}
		}
	}
	return out
}

// report sends my contribution to whom I report to, once.
func (m *Machine) report(o *op, above Node, out []Action) []Action {
	if o.sentTo == above {
		return out
	}
	o.sentTo = above
	msg := Msg{Kind: Up, Value: NoValue, Sets: o.sets}
	if o.gathers {
		msg.Value = o.own(m)
	}
	return m.send(o, above, msg, out)
}

// decide makes the decision, if I take the root's place and have heard of all.
func (m *Machine) decide(o *op, out []Action) []Action {
	if o.me != 0 && !m.holds(o, 0, contributed) {
		return out
	}
	value := NoValue
	switch {
	case o.gathers && o.call.Kind != Bcast:
		value, out = m.part(o, 0, out)
	case o.me == 0:
		value = Buf(m.me)
	}
	o.sets = m.decisionSets(o)
	if value != NoValue {
		out = append(out, Action{Kind: Decide, Seq: o.seq, Src: value})
	}
	return m.adopt(o, out)
}

// decisionSets are the sets of my decision.
func (m *Machine) decisionSets(o *op) *Sets {
	if m.nfailed == 0 && !o.lacking {
		return nil
	}
	s := &Sets{}
	if o.gathers && o.call.Kind != Bcast {
		s.Missing = m.missing(o, 0, nil)
	} else if o.me != 0 {
		s.Missing = append(s.Missing, o.call.Root)
	}
	s.Failed = append(make([]Node, 0, int(m.nfailed)+len(s.Missing)), s.Missing...)
	m.failed.each(func(p Node) { s.Failed = append(s.Failed, p) })
	slices.SortFunc(s.Failed, func(p, q Node) int { return cmp.Compare(o.virtual(p, m), o.virtual(q, m)) })
	s.Failed = slices.Compact(s.Failed)
	return s
}

// adopt makes o decided: the decision goes down and the call returns.
func (m *Machine) adopt(o *op, out []Action) []Action {
	o.decided = true
	out = m.sendBelow(o, Down, out)
	for i := range o.slots {
		if v := o.slots[i].node; m.strange(o, v) {
			out = m.sendDown(o, v, out)
		}
	}
	if !o.call.Uniform && o.entered {
		out = m.deliver(o, out)
	}
	return m.settle(o, out)
}

// strange says whether living node v came to me while, as far as I know, it
// should report to somebody else: it knows of deaths that I have not heard of.
func (m *Machine) strange(o *op, v Node) bool {
	return !m.dead(o, v) && !m.mine(o, v)
}

// mine says whether I would send to node v as one below me.
func (m *Machine) mine(o *op, v Node) bool {
	for p := m.tree.Parent(v); p >= 0; p = m.tree.Parent(p) {
		if p == o.me {
			return true
		}
		if !m.dead(o, p) {
			return false
		}
	}
	return m.lowest(o) == o.me
}

// sendBelow sends a message of kind to all living nodes that report to me, those
// with the widest subtrees first.
func (m *Machine) sendBelow(o *op, kind MsgKind, out []Action) []Action {
	if o.me != 0 && m.nfailed > 0 && m.above(o) == None {
		return m.sendUnder(o, 0, kind, out)
	}
	return m.sendUnder(o, o.me, kind, out)
}

func (m *Machine) sendUnder(o *op, v Node, kind MsgKind, out []Action) []Action {
	for i := m.tree.Degree(v) - 1; i >= 0; i-- {
		c := m.tree.Child(v, i)
		switch {
		case c == o.me || m.dead(o, c):
			out = m.sendUnder(o, c, kind, out)
		case kind == Down:
			out = m.sendDown(o, c, out)
		default:
			out = m.send(o, c, Msg{Kind: kind, Value: NoValue}, out)
		}
	}
	return out
}

// sendDown sends the decision to node v.
func (m *Machine) sendDown(o *op, v Node, out []Action) []Action {
	return m.send(o, v, Msg{Kind: Down, Value: m.result(o, v), Sets: o.sets}, out)
}

// result is what the decision brings to node v.
func (m *Machine) result(o *op, v Node) Buf {
	switch {
	case o.call.Kind == Barrier, o.call.Kind == Reduce && v != 0:
		return NoValue
	case o.call.Kind == Bcast && o.sets != nil && len(o.sets.Missing) > 0:
		return NoValue // the root is dead and nobody has it
	}
	return Result
}

func (m *Machine) send(o *op, v Node, msg Msg, out []Action) []Action {
	msg.Call, msg.Seq = o.call, o.seq
	return append(out, Action{Kind: Send, Seq: o.seq, To: o.member(v, m), Msg: msg})
}

// deliver lets the local call return. It is reached once: where the decision
// comes to who has entered, where the commit does, or by entering after either.
func (m *Machine) deliver(o *op, out []Action) []Action {
	o.returned = true
	if o.gathers { // all have entered it, so all have returned from those before
		m.settled = max(m.settled, o.seq-1)
	}
	a := Action{Kind: Deliver, Seq: o.seq, Src: m.result(o, o.me), Msg: Msg{Sets: o.sets}}
	if o.call.Strict && o.sets != nil && len(o.sets.Failed) > 0 {
		a.Kind = Fail
	}
	return append(out, a)
}
