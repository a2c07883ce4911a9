package agree

// conclude ends the current round: its outcome goes down, the local call returns,
// and the next round is opened.
func (m *twoPhase) conclude(outcome Outcome, out []Action) []Action {
	r := &m.now
	if outcome == Undecided && m.group.me == 0 {
		return out // a broken driver: others were told that I am dead
	}
	msg := Msg{Kind: msgDecision, Outcome: outcome}
	if outcome == Decided {
		msg.Vote, msg.Failed = r.ballot.vote, r.ballot.failed
	}
	out = m.sendBelow(m.group.me, &msg, out)
	for _, v := range r.waiters {
		if !m.gone(v) && !m.mine(v) {
			out = m.send(v, msg, out)
		}
	}
	if r.entered {
		d := Decision{Seq: r.seq, Outcome: outcome, Vote: msg.Vote, Failed: msg.Failed}
		out = append(out, Action{Kind: Deliver, Seq: r.seq, Decision: d})
	}
	if outcome == Undecided {
		m.closeUndecided()
		return out
	}
	return m.closeDecided(out)
}

// sendBelow sends the outcome to the living below v, and in place of the dead to
// theirs, those with the widest subtrees first.
func (m *twoPhase) sendBelow(v Node, msg *Msg, out []Action) []Action {
	for i := m.group.tree.Degree(v) - 1; i >= 0; i-- {
		if c := m.group.tree.Child(v, i); m.gone(c) {
			out = m.sendBelow(c, msg, out)
		} else {
			out = m.send(c, *msg, out)
		}
	}
	return out
}

// mine says whether sendBelow sends to the living node v.
func (m *twoPhase) mine(v Node) bool {
	for p := m.group.tree.Parent(v); p >= 0; p = m.group.tree.Parent(p) {
		if p == m.group.me {
			return true
		}
		if !m.gone(p) {
			return false
		}
	}
	return false
}

// closeUndecided opens the next round after one that is UNDECIDED. Its
// coordinator is dead, and all who call the next round know that.
func (m *twoPhase) closeUndecided() {
	c := m.group.member(0)
	m.dead = with(m.dead, c)
	m.group = m.group.without(with(m.group.gone, c))
	m.ahead, m.skip = m.ahead[:0], 0 // from members who saw it DECIDED, and are dead
	m.open(m.now.seq + 1)
}

// closeDecided opens the next round after one that is DECIDED, or the first of
// which it is not known that it is UNDECIDED.
func (m *twoPhase) closeDecided(out []Action) []Action {
	m.last = entry{seq: m.now.seq, base: m.last.seq, ballot: m.now.ballot}
	m.dead = union(m.dead, m.last.ballot.failed)
	if m.cfg.Rebalance && len(m.last.ballot.failed) > len(m.group.gone) {
		m.group = m.group.without(m.last.ballot.failed)
	}
	ahead, skip := m.ahead, m.skip
	m.ahead, m.skip = nil, 0
	m.open(m.now.seq + 1)
	for m.now.seq <= skip && m.group.me != 0 {
		m.closeUndecided()
	}
	for _, e := range ahead {
		if v := m.group.node(e.member); v != none && !m.isDead(e.member) {
			out = m.receiveVote(v, &Msg{Vote: e.ballot.vote, Failed: e.ballot.failed}, out)
		}
	}
	m.ahead = ahead[:0]
	return out
}

// undecidedBefore ends the current round and those after it as UNDECIDED, up to
// before seq.
func (m *twoPhase) undecidedBefore(seq uint64, out []Action) []Action {
	for m.now.seq < seq && m.group.me != 0 {
		out = m.conclude(Undecided, out)
	}
	return out
}
