package ftco

import "slices"

// receiveUp handles a contribution or a question.
func (m *Machine) receiveUp(o *op, from Node, msg *Msg, out []Action) []Action {
	v := o.virtual(from, m)
	if o.decided {
		return m.sendDown(o, v, out)
	}
	if o.slot(v) != nil {
		return out // asked for again, and it had come
	}
	o.slots = slices.Grow(o.slots, max(0, int(o.degree)-len(o.slots))) // once, and kept
	o.slots = append(o.slots, slot{node: v, value: msg.Value != NoValue, sets: msg.Sets})
	o.lacking = o.lacking || msg.Sets != nil
	if m.tree.Parent(v) == o.me {
		o.direct++
	}
	if msg.Value != NoValue {
		out = append(out, Action{Kind: Keep, Seq: o.seq, Dst: Buf(from)})
	}
	return m.progress(o, out)
}

// receiveDecision handles the decision, from above or, where I took the root's
// place, from below.
func (m *Machine) receiveDecision(o *op, from Node, msg *Msg, out []Action) []Action {
	committed := o.committed // else from hears of it with the others
	if !o.decided {
		if msg.Kind == Down {
			o.haveTo = o.virtual(from, m) // who has it need not be told
		}
		o.sets = msg.Sets
		if msg.Value != NoValue {
			out = append(out, Action{Kind: Keep, Seq: o.seq, Dst: Result})
		}
		out = m.adopt(o, out)
	}
	if !o.call.Uniform || msg.Kind != Have {
		return out
	}
	if msg.Committed {
		return m.commit(o, out)
	}
	if committed {
		out = m.send(o, o.virtual(from, m), Msg{Kind: Commit, Value: NoValue}, out)
	}
	return out
}

// settle does what is left to do once the decision is here.
func (m *Machine) settle(o *op, out []Action) []Action {
	above := None
	if o.me != 0 {
		above = m.above(o)
	}
	if above != None && m.nfailed > 0 && !m.ancestor(o, above) && o.haveTo != above {
		o.haveTo = above
		out = m.send(o, above, Msg{Kind: Have, Committed: o.committed, Value: m.result(o, above), Sets: o.sets}, out)
	}
	if !o.call.Uniform || o.committed || !o.entered {
		return out
	}
	if !o.acked {
		if !m.whole(o, o.me, acknowledged) {
			return out
		}
		o.acked = true
	}
	if above != None {
		if o.ackTo != above {
			o.ackTo = above
			out = m.send(o, above, Msg{Kind: Ack, Value: NoValue}, out)
		}
		return out
	}
	if o.me != 0 && !m.holds(o, 0, acknowledged) {
		return out
	}
	return m.commit(o, out)
}

// ancestor says whether living node v above me is one: then it had the decision
// before me.
func (m *Machine) ancestor(o *op, v Node) bool { return v < o.me && o.me < m.tree.End(v) }

// receiveAck handles the news that all below from hold the decision.
func (m *Machine) receiveAck(o *op, from Node, out []Action) []Action {
	v := o.virtual(from, m)
	if o.committed {
		return m.send(o, v, Msg{Kind: Commit, Value: NoValue}, out)
	}
	if !acknowledged(m, o, v) {
		o.acks = append(o.acks, v)
	}
	if !o.decided {
		return out
	}
	return m.settle(o, out)
}

// commit lets a uniform call return: all living members hold the decision.
func (m *Machine) commit(o *op, out []Action) []Action {
	if o.committed {
		return out
	}
	o.committed = true
	out = m.sendBelow(o, Commit, out)
	for _, v := range o.acks {
		if m.strange(o, v) {
			out = m.send(o, v, Msg{Kind: Commit, Value: NoValue}, out)
		}
	}
	if o.entered {
		out = m.deliver(o, out)
	}
	return out
}

// tick asks those that something is awaited from, when nothing came for long.
func (m *Machine) tick(out []Action) []Action {
	o := m.find(m.entered)
	if m.cfg.Ticks == 0 || o == nil || o.returned {
		return out
	}
	if o.idle++; int(o.idle) < m.cfg.Ticks {
		return out
	}
	o.idle = 0
	test := has(contributed)
	if o.decided {
		test = acknowledged
	}
	if above := m.above(o); above != None && (test(m, o, o.me) || !o.decided && !o.gathers) {
		return m.send(o, above, Msg{Kind: KeepAlive, Value: NoValue}, out)
	}
	top := o.me
	if m.above(o) == None {
		top = 0
	}
	return m.askBelow(o, top, test, out)
}

// askBelow asks the living nodes below v that something is awaited from.
func (m *Machine) askBelow(o *op, v Node, test has, out []Action) []Action {
	end := m.tree.End(v)
	for c := v + 1; c < end; c = m.tree.End(c) {
		switch {
		case c == o.me:
			out = m.askBelow(o, c, test, out)
		case test(m, o, c):
		case m.dead(o, c):
			out = m.askBelow(o, c, test, out)
		default:
			out = m.send(o, c, Msg{Kind: KeepAlive, Value: NoValue}, out)
		}
	}
	return out
}

// receiveKeepAlive says again what from may have lost, or that it is not here.
func (m *Machine) receiveKeepAlive(o *op, from Node, out []Action) []Action {
	v := o.virtual(from, m)
	tell := o.decided && !m.ancestor(o, v) // which had it before me; and of a reduction the root alone has the value
	if tell {
		out = m.sendDown(o, v, out)
	}
	switch {
	case o.committed:
		return m.send(o, v, Msg{Kind: Commit, Value: NoValue}, out)
	case o.decided && o.ackTo == v:
		return m.send(o, v, Msg{Kind: Ack, Value: NoValue}, out)
	case tell:
		return out
	case !o.decided && o.sentTo == v:
		o.sentTo = None
		return m.report(o, v, out)
	}
	return m.send(o, v, Msg{Kind: Alive, Value: NoValue}, out)
}
