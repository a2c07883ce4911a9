package ftco

// receiveUp handles a contribution or a question for the decision.
func (m *Machine) receiveUp(o *op, from Node, msg *Msg, out []Action) []Action {
	v := m.view.nodeOf(o, from)
	if o.decided {
		return m.sendDecision(o, v, out)
	}
	if o.slot(v) != nil {
		return out // sent again on request, and the first one had come
	}
	o.addSlot(v, msg, m.view.tree.Parent(v) == o.me)
	if msg.Value != NoValue {
		out = append(out, Action{Kind: Keep, Seq: o.seq, Dst: Buf(from)})
	}
	return m.progress(o, out)
}

// receiveDecision handles the decision: from above or, if this member is the acting root, from
// below.
func (m *Machine) receiveDecision(o *op, from Node, msg *Msg, out []Action) []Action {
	committed := o.committed // if it commits below, from hears of it with the others
	if !o.decided {
		if msg.Kind == Down {
			o.haveTo = m.view.nodeOf(o, from) // the sender has the decision
		}
		o.sets = msg.Sets
		if msg.Value != NoValue {
			out = append(out, Action{Kind: Keep, Seq: o.seq, Dst: Result})
		}
		out = m.adoptDecision(o, out)
	}
	if !o.call.Uniform || msg.Kind != Have {
		return out
	}
	if msg.Committed {
		return m.commit(o, out)
	}
	if committed {
		out = m.send(o, m.view.nodeOf(o, from), Msg{Kind: Commit, Value: NoValue}, out)
	}
	return out
}

// progressDecided does what is left to do once the decision is here: it tells the decision to an
// acting root that is no ancestor, and acknowledges and commits a uniform operation.
func (m *Machine) progressDecided(o *op, out []Action) []Action {
	w := &m.view
	above := None
	if o.me != 0 {
		above = w.superior(o)
	}
	if above != None && w.nfailed > 0 && !w.isAncestor(o, above) && o.haveTo != above {
		o.haveTo = above
		out = m.send(o, above, Msg{Kind: Have, Committed: o.committed, Value: o.resultFor(above), Sets: o.sets}, out)
	}
	if !o.call.Uniform || o.committed || !o.entered {
		return out
	}
	if !o.acked {
		if !w.passBelow(o, o.me, acknowledged) {
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
	if o.me != 0 && !w.pass(o, 0, acknowledged) {
		return out
	}
	return m.commit(o, out)
}

// receiveAck handles the news that from and its living subtree hold the decision.
func (m *Machine) receiveAck(o *op, from Node, out []Action) []Action {
	v := m.view.nodeOf(o, from)
	if o.committed {
		return m.send(o, v, Msg{Kind: Commit, Value: NoValue}, out)
	}
	if !acknowledged(o, v) {
		o.acks = append(o.acks, v)
	}
	if !o.decided {
		return out
	}
	return m.progressDecided(o, out)
}

// commit lets a uniform call return: all living members hold the decision.
func (m *Machine) commit(o *op, out []Action) []Action {
	if o.committed {
		return out
	}
	o.committed = true
	out = m.sendBelow(o, Commit, out)
	for _, v := range o.acks {
		if m.view.isStray(o, v) {
			out = m.send(o, v, Msg{Kind: Commit, Value: NoValue}, out)
		}
	}
	if o.entered {
		out = m.deliver(o, out)
	}
	return out
}

// tick counts a tick without progress. After Config.Ticks of them it asks the nodes that the
// local call waits for.
func (m *Machine) tick(out []Action) []Action {
	o := m.ops.find(m.entered)
	if m.cfg.Ticks == 0 || o == nil || o.returned {
		return out
	}
	if o.idle++; int(o.idle) < m.cfg.Ticks {
		return out
	}
	o.idle = 0
	awaited := test(contributed)
	if o.decided {
		awaited = acknowledged
	}
	if above := m.view.superior(o); above != None && (awaited(o, o.me) || !o.decided && !o.gathers) {
		return m.send(o, above, Msg{Kind: KeepAlive, Value: NoValue}, out)
	}
	top := o.me
	if m.view.superior(o) == None {
		top = 0
	}
	return m.askBelow(o, top, awaited, out)
}

// askBelow sends KeepAlive to the living nodes below v that do not pass the test yet.
func (m *Machine) askBelow(o *op, v Node, awaited test, out []Action) []Action {
	t := &m.view.tree
	end := t.End(v)
	for c := v + 1; c < end; c = t.End(c) {
		switch {
		case c == o.me:
			out = m.askBelow(o, c, awaited, out)
		case awaited(o, c):
		case m.view.isDead(o, c):
			out = m.askBelow(o, c, awaited, out)
		default:
			out = m.send(o, c, Msg{Kind: KeepAlive, Value: NoValue}, out)
		}
	}
	return out
}

// receiveKeepAlive sends again what from may have lost, or says that it is not here yet. An
// ancestor gets no decision: it had the decision first, and of a Reduce only the root gets the
// value.
func (m *Machine) receiveKeepAlive(o *op, from Node, out []Action) []Action {
	v := m.view.nodeOf(o, from)
	lacksDecision := o.decided && !m.view.isAncestor(o, v)
	if lacksDecision {
		out = m.sendDecision(o, v, out)
	}
	switch {
	case o.committed:
		return m.send(o, v, Msg{Kind: Commit, Value: NoValue}, out)
	case o.decided && o.ackTo == v:
		return m.send(o, v, Msg{Kind: Ack, Value: NoValue}, out)
	case lacksDecision:
		return out
	case !o.decided && o.sentTo == v:
		o.sentTo = None
		return m.sendUp(o, v, out)
	}
	return m.send(o, v, Msg{Kind: Alive, Value: NoValue}, out)
}
