package ftco

import "math/bits"

// data makes DATA to c. As an answer to c it makes the ACK unnecessary.
func (p *Published) data(c *contact, now int32) PubAction {
	p.contacts.setOwed(c, false)
	a := p.ask(PubData, c, now)
	p.accounted.writeTo(&a.Msg, p.g)
	return a
}

// ask makes a message to c that wants an answer.
func (p *Published) ask(kind PubMsgKind, c *contact, now int32) PubAction {
	c.waits, c.sent = true, now
	m := PubMsg{From: p.me, Kind: kind, Distance: c.distance, Deadline: now + c.patience}
	if p.g.cfg.Service == NoService {
		m.Deadline = 0
	}
	return PubAction{Kind: PubSend, To: c.node, Msg: m}
}

// ack makes an ACK to c.
func (p *Published) ack(c *contact) PubAction {
	p.contacts.setOwed(c, false)
	return PubAction{Kind: PubSend, To: c.node, Msg: PubMsg{From: p.me, Kind: PubAck, Distance: c.distance}}
}

// acknowledge sends the first ACK that is owed at the distance d, or at any if d is 0.
func (p *Published) acknowledge(d int32, out []PubAction) []PubAction {
	if c := p.contacts.nextOwed(d); c != nil {
		return append(out, p.ack(c))
	}
	return out
}

// detect is Algorithm 4 without lines 2 to 12: the driver watches deadlines.
func (p *Published) detect(d int32, now int32, out []PubAction) []PubAction {
	if p.g.cfg.Service == NoService {
		return out
	}
	before := len(out)
	if out = p.acknowledge(d, out); len(out) > before || p.finished || p.eta(p.phase) >= now {
		return out
	}
	for i := range p.contacts.list {
		c := &p.contacts.list[i]
		if d != 0 && int32(c.distance) != d || !p.wantsNewsOf(c) {
			continue
		}
		if !c.seen || now-c.sent > c.interval {
			return append(out, p.ask(PubKeepAlive, c, now))
		}
	}
	return out
}

// wantsNewsOf reports whether a KEEPALIVE to c can bring news. It cannot if c is dead or owes an
// answer already. Otherwise:
//
//	Allreduce  always: the published figures were made so
//	Bcast      until the result is here, which node 0 has from the start
//	Reduce     if c is below and a node of its subtree is not accounted for
//
// A reduction need not ask any other node. A node waits for DATA of those below, and for the ACKs
// of its own DATA, whose deadline tells it of a death. A root other than node 0 waits for no root:
// if one of them dies, node 0 asks its orphans, they send their DATA to all roots, and each root
// adopts all orphans of the dead one.
//
// That c itself is accounted for does not end the questions. An orphan of one root that finds
// another root dead accounts for that root, too, and its DATA may be the first that node 0 hears of
// it. Node 0 still has to find out about the second root, to adopt its orphans.
func (p *Published) wantsNewsOf(c *contact) bool {
	if c.dead || c.waits {
		return false
	}
	switch p.g.cfg.Collective {
	case Bcast:
		return p.me != 0 && !p.got
	case Reduce:
		return p.collectsFrom(c.node) && !p.accounted.has(p.g.subtree(c.node))
	}
	return !p.g.cfg.PrintedSuspect || !p.accounted.has(p.g.place(c.node))
}

// Wake returns when the machine could do something without any other event; ok is false if never.
func (p *Published) Wake(now int32) (at int32, ok bool) {
	if p.late || p.finished || p.g.cfg.Service == NoService {
		return 0, false
	}
	eta := p.eta(p.phase)
	if eta >= now {
		return eta + 1, true
	}
	for i := range p.contacts.list {
		c := &p.contacts.list[i]
		if !p.wantsNewsOf(c) {
			continue
		}
		due := now + 1
		if c.seen {
			due = max(due, c.sent+c.interval+1)
		}
		if !ok || due < at {
			at, ok = due, true
		}
	}
	return at, ok
}

// distance is get_service_distance() (Appendix A).
func (p *Published) distance(now int32) int32 {
	if p.g.cfg.Service == DISD {
		return intervals(now, 4*p.g.cfg.Tree.Degree(p.me))
	}
	p.rng ^= p.rng << 13
	p.rng ^= p.rng >> 7
	p.rng ^= p.rng << 17
	return int32(bits.TrailingZeros64(p.rng>>16|1<<40)) + 1
}

// intervals is f_DISD. The first half of an interval is for distance 1, the next quarter for 2, and
// so on. Its last step goes round the distances that have no step of their own, in the proportions
// of a ruler.
func intervals(now, width int32) int32 {
	rest := width - now%width // from width down to 1
	if rest > 1 {
		d := int32(1)
		for rest *= 2; rest <= width; rest *= 2 {
			d++
		}
		return d
	}
	own := int32(bits.Len32(uint32(width))) - 1
	return own + 1 + int32(bits.TrailingZeros32(uint32(now/width+1)))
}
