package agree

// conclude ends the current round: its outcome goes down, the local call returns, and the next
// round opens.
func (m *twoPhase) conclude(outcome Outcome, out []Action) []Action {
	r := &m.now
	if outcome == Undecided && m.view.group.me == 0 {
		return out // a broken driver: it has told others that this member is dead
	}
	msg := Msg{Kind: msgDecision, Outcome: outcome}
	if outcome == Decided {
		msg.Vote, msg.Failed = r.ballot.vote, r.ballot.failed
	}
	out = m.sendBelow(m.view.group.me, &msg, out)
	for _, v := range r.waiters {
		if !m.view.isDead(v) && !m.view.isInferior(v) {
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

// sendBelow sends the outcome to v's living children and, in place of dead ones, to theirs. Nodes
// with the widest subtrees get it first.
func (m *twoPhase) sendBelow(v Node, msg *Msg, out []Action) []Action {
	t := m.view.group.tree
	for i := t.Degree(v) - 1; i >= 0; i-- {
		if c := t.Child(v, i); m.view.isDead(c) {
			out = m.sendBelow(c, msg, out)
		} else {
			out = m.send(c, *msg, out)
		}
	}
	return out
}

// closeUndecided opens the next round after an UNDECIDED one, whose coordinator is dead. All members
// that call the next round know that.
func (m *twoPhase) closeUndecided() {
	w := &m.view
	c := w.group.member(0)
	w.dead = with(w.dead, c)
	w.group = w.group.without(with(w.group.gone, c))
	m.later = later{votes: m.later.votes[:0]} // the voters saw this round end as DECIDED, and are dead
	m.openRound(m.now.seq + 1)
}

// closeDecided opens the next round after a DECIDED one, or the first later round that is not known
// to be UNDECIDED.
func (m *twoPhase) closeDecided(out []Action) []Action {
	w := &m.view
	m.last = entry{seq: m.now.seq, base: m.last.seq, ballot: m.now.ballot}
	w.dead = union(w.dead, m.last.ballot.failed)
	if m.cfg.Rebalance && len(m.last.ballot.failed) > len(w.group.gone) {
		w.group = w.group.without(m.last.ballot.failed)
	}
	votes, undecidedTo := m.later.votes, m.later.undecidedTo
	m.later = later{}
	m.openRound(m.now.seq + 1)
	for m.now.seq <= undecidedTo && w.group.me != 0 {
		m.closeUndecided()
	}
	for _, e := range votes {
		if v := w.group.node(e.member); v != none && !w.hasFailed(e.member) {
			out = m.receiveVote(v, &Msg{Vote: e.ballot.vote, Failed: e.ballot.failed}, out)
		}
	}
	m.later.votes = votes[:0]
	return out
}

// concludeUndecidedBefore ends the current round and the rounds after it, up to but not including
// seq, as UNDECIDED.
func (m *twoPhase) concludeUndecidedBefore(seq uint64, out []Action) []Action {
	for m.now.seq < seq && m.view.group.me != 0 {
		out = m.conclude(Undecided, out)
	}
	return out
}
