package agree

// receive handles a message.
func (m *twoPhase) receive(from Node, msg *Msg, out []Action) []Action {
	if msg.Kind == msgDecision {
		return m.receiveDecision(from, msg, out)
	}
	switch msg.Kind {
	case MsgVote, msgQuery, msgTermQuery:
	default:
		if v := m.view.group.node(from); msg.Seq == m.now.seq && msg.Base == m.last.seq && v != none {
			return m.receiveAnswer(v, msg, out)
		}
		return out
	}
	if msg.Seq > m.now.seq {
		switch msg.Base {
		case m.last.seq: // the sender has seen all rounds from the current one on end as UNDECIDED
			m.addContactAsWaiter(from)
			out = m.concludeUndecidedBefore(msg.Seq, out)
		case m.now.seq: // the sender has seen the current round end as DECIDED
			return m.later.receive(m.now.seq, from, msg, out)
		default:
			return out
		}
	}
	if msg.Seq < m.now.seq {
		return m.answerFromLog(from, msg.Seq, out)
	}
	v := m.view.group.node(from)
	if msg.Base != m.last.seq || v == none {
		return out // the sender has seen a decision that no survivor has
	}
	switch msg.Kind {
	case MsgVote:
		return m.receiveVote(v, msg, out)
	case msgQuery:
		return m.receiveQuery(v, out)
	default:
		return m.receiveTermQuery(from, msg, out)
	}
}

// answerFromLog tells a laggard how a former round ended.
func (m *twoPhase) answerFromLog(to Node, seq uint64, out []Action) []Action {
	msg := Msg{Kind: msgDecision, Outcome: Undecided, Seq: seq, Base: m.last.seq}
	switch {
	case seq == m.last.seq:
		msg.Outcome, msg.Base = Decided, m.last.base
		msg.Vote, msg.Failed = m.last.ballot.vote, m.last.ballot.failed
	case seq < m.last.seq:
		return out // all living members have voted since
	}
	return append(out, Action{Kind: Send, To: to, Seq: seq, Msg: msg})
}

// receiveVote handles the votes of node v's subtree. If this member's ballot is frozen, it holds
// them already, from the vote of a node between the two.
func (m *twoPhase) receiveVote(v Node, msg *Msg, out []Action) []Action {
	if m.view.group.child(v) < 0 {
		m.now.addWaiter(v)
	}
	m.now.ballots.keep(&m.view.group, v, ballot{msg.Vote, msg.Failed})
	return m.progress(out)
}

// addContactAsWaiter makes the contact a waiter if another member, from, has told of the outcome.
// No member asks a node that has a living ancestor, so the contact may not hear of it otherwise.
func (m *twoPhase) addContactAsWaiter(from Node) {
	if c := m.now.contact; c != none && m.view.group.member(c) != from {
		m.now.addWaiter(c)
	}
}

// receiveQuery handles the question of an orphan. Its vote may have come in the ballot of a parent
// that died afterwards.
func (m *twoPhase) receiveQuery(v Node, out []Action) []Action {
	m.now.addWaiter(v)
	if m.now.counts(&m.view.group, v) {
		return m.send(v, Msg{Kind: msgWait}, out)
	}
	return m.send(v, Msg{Kind: msgGather}, out)
}

// receiveAnswer handles node v's answer to a question of this member.
func (m *twoPhase) receiveAnswer(v Node, msg *Msg, out []Action) []Action {
	r := &m.now
	switch {
	case msg.Kind == msgGather && v == r.contact:
		r.mayVote = true
		return m.progress(out)
	case msg.Kind == msgUncertain && r.termination.begun && r.termination.noteAnswer(v, msg.Known):
		return m.endTermination(out)
	}
	return out
}

// receiveDecision handles the outcome of a round.
func (m *twoPhase) receiveDecision(from Node, msg *Msg, out []Action) []Action {
	r := &m.now
	switch {
	case msg.Seq < r.seq:
	case msg.Base == m.last.seq && msg.Outcome == Undecided:
		m.addContactAsWaiter(from)
		return m.concludeUndecidedBefore(msg.Seq+1, out)
	case msg.Base == m.last.seq && msg.Seq == r.seq && r.voted:
		r.ballot = ballot{msg.Vote, msg.Failed}
		m.view.dead = union(m.view.dead, msg.Failed) // their children get the decision from here
		return m.conclude(Decided, out)
	case msg.Base == r.seq && msg.Outcome == Undecided:
		return m.later.markUndecided(r.seq, msg.Seq, out)
	}
	return out
}
