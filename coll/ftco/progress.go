package ftco

// progress does what can be done for o after this member has learned something.
func (m *Machine) progress(o *op, out []Action) []Action {
	if o.decided {
		return m.progressDecided(o, out)
	}
	if !o.entered {
		return out
	}
	above := m.view.superior(o)
	if !o.gathers {
		return m.progressLoose(o, above, out)
	}
	if !o.frozen {
		if lack := o.degree - o.direct; lack > 0 && (lack > m.view.nfailed || !m.view.passBelow(o, o.me, contributed)) {
			return out
		}
		out = m.freeze(o, out)
	}
	if above != None {
		return m.sendUp(o, above, out)
	}
	return m.decide(o, out)
}

// progressLoose is progress for a broadcast that does not gather. A node without the decision
// speaks for its whole subtree, because the decision comes to it first. It asks only if it is an
// orphan: a living parent sends the decision unasked.
func (m *Machine) progressLoose(o *op, above Node, out []Action) []Action {
	switch {
	case o.me == 0:
		o.frozen = true
		return m.decide(o, out)
	case above == None:
		o.frozen = true
		return m.decide(o, out)
	case above != m.view.tree.Parent(o.me):
		o.frozen = true
		return m.sendUp(o, above, out)
	}
	return out
}

// freeze makes this member's contribution of its own value and of all that came from its subtree.
// From now on the contribution travels as a whole or not at all. So any two contributions that a
// member sees are disjoint, or one contains the other.
func (m *Machine) freeze(o *op, out []Action) []Action {
	o.frozen = true
	if own := o.ownBuf(&m.view); own != NoValue {
		_, out = o.combineBelow(&m.view, o.me, own, out)
	}
	if m.view.nfailed > 0 || o.lacking {
		if missing := o.appendMissingBelow(&m.view, o.me, nil); len(missing) > 0 {
			o.sets = &Sets{Missing: missing}
		}
	}
	return out
}

// sendUp sends the contribution, or the question for the decision, to the node above, once.
func (m *Machine) sendUp(o *op, above Node, out []Action) []Action {
	if o.sentTo == above {
		return out
	}
	o.sentTo = above
	msg := Msg{Kind: Up, Value: NoValue, Sets: o.sets}
	if o.gathers {
		msg.Value = o.ownBuf(&m.view)
	}
	return m.send(o, above, msg, out)
}

// decide makes the decision if all living members have spoken. The caller is the acting root.
func (m *Machine) decide(o *op, out []Action) []Action {
	if o.me != 0 && !m.view.pass(o, 0, contributed) {
		return out
	}
	value := NoValue
	switch {
	case o.gathers && o.call.Kind != Bcast:
		value, out = o.combineSubtree(&m.view, 0, out)
	case o.me == 0:
		value = Buf(m.view.me)
	}
	o.sets = o.decisionSets(&m.view)
	if value != NoValue {
		out = append(out, Action{Kind: Decide, Seq: o.seq, Src: value})
	}
	return m.adoptDecision(o, out)
}

// adoptDecision makes o decided: the decision goes down, and a call that is not uniform returns.
func (m *Machine) adoptDecision(o *op, out []Action) []Action {
	o.decided = true
	out = m.sendBelow(o, Down, out)
	for i := range o.slots {
		if v := o.slots[i].node; m.view.isStray(o, v) {
			out = m.sendDecision(o, v, out)
		}
	}
	if !o.call.Uniform && o.entered {
		out = m.deliver(o, out)
	}
	return m.progressDecided(o, out)
}

// sendBelow sends a message of kind to all living nodes that report to this member, those with the
// widest subtrees first.
func (m *Machine) sendBelow(o *op, kind MsgKind, out []Action) []Action {
	if o.me != 0 && m.view.nfailed > 0 && m.view.superior(o) == None {
		return m.sendToChildren(o, 0, kind, out)
	}
	return m.sendToChildren(o, o.me, kind, out)
}

// sendToChildren sends a message of kind to v's living children. The children of dead ones, and of
// this member, get it in place of them.
func (m *Machine) sendToChildren(o *op, v Node, kind MsgKind, out []Action) []Action {
	t := &m.view.tree
	for i := t.Degree(v) - 1; i >= 0; i-- {
		c := t.Child(v, i)
		switch {
		case c == o.me || m.view.isDead(o, c):
			out = m.sendToChildren(o, c, kind, out)
		case kind == Down:
			out = m.sendDecision(o, c, out)
		default:
			out = m.send(o, c, Msg{Kind: kind, Value: NoValue}, out)
		}
	}
	return out
}

// sendDecision sends the decision to node v.
func (m *Machine) sendDecision(o *op, v Node, out []Action) []Action {
	return m.send(o, v, Msg{Kind: Down, Value: o.resultFor(v), Sets: o.sets}, out)
}

// send sends a message of operation o to node v.
func (m *Machine) send(o *op, v Node, msg Msg, out []Action) []Action {
	msg.Call, msg.Seq = o.call, o.seq
	return append(out, Action{Kind: Send, Seq: o.seq, To: m.view.memberAt(o, v), Msg: msg})
}

// deliver lets the local call return. It runs once for each operation: when the decision reaches a
// member that has called, when the commit does, or when the member calls after either.
func (m *Machine) deliver(o *op, out []Action) []Action {
	o.returned = true
	if o.gathers { // all members have called it, so all have returned from those before
		m.ops.settled = max(m.ops.settled, o.seq-1)
	}
	a := Action{Kind: Deliver, Seq: o.seq, Src: o.resultFor(o.me), Msg: Msg{Sets: o.sets}}
	if o.call.Strict && o.sets != nil && len(o.sets.Failed) > 0 {
		a.Kind = Fail
	}
	return append(out, a)
}
