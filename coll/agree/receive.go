package agree

import "slices"

// receive handles a message.
func (m *twoPhase) receive(from Node, msg *Msg, out []Action) []Action {
	if msg.Kind == msgDecision {
		return m.receiveDecision(from, msg, out)
	}
	switch msg.Kind {
	case MsgVote, msgQuery, msgTermQuery:
	default:
		if v := m.group.node(from); msg.Seq == m.now.seq && msg.Base == m.last.seq && v != none {
			return m.receiveAnswer(v, msg, out)
		}
		return out
	}
	if msg.Seq > m.now.seq {
		switch msg.Base {
		case m.last.seq: // the sender has seen all rounds from the current one on end UNDECIDED
			m.awaitContact(from)
			out = m.undecidedBefore(msg.Seq, out)
		case m.now.seq: // the sender has seen the current one DECIDED
			return m.receiveEarly(from, msg, out)
		default:
			return out
		}
	}
	if msg.Seq < m.now.seq {
		return m.answerFromLog(from, msg.Seq, out)
	}
	v := m.group.node(from)
	if msg.Base != m.last.seq || v == none {
		return out // of somebody who saw a decision that no survivor has
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
		return out // all that live have voted since
	}
	return append(out, Action{Kind: Send, To: to, Seq: seq, Msg: msg})
}

// receiveEarly handles what comes from a round after the current one, in which I
// have voted and which the sender knows to be DECIDED. I have not voted in any
// after it, so those that the sender has left behind ended UNDECIDED.
func (m *twoPhase) receiveEarly(from Node, msg *Msg, out []Action) []Action {
	if msg.Kind == msgTermQuery {
		m.skip = max(m.skip, msg.Seq) // I shall not vote in it
	}
	m.skip = max(m.skip, msg.Seq-1)
	switch {
	case msg.Seq <= m.skip:
		out = m.refuseEarly(from, msg.Seq, out)
	case msg.Kind == MsgVote:
		m.ahead = append(m.ahead, early{from, msg.Seq, ballot{msg.Vote, msg.Failed}})
	case msg.Kind == msgQuery:
		out = append(out, Action{Kind: Send, To: from, Seq: msg.Seq, Msg: Msg{Kind: msgGather, Seq: msg.Seq, Base: msg.Base}})
	}
	return m.refuseSkipped(out)
}

// refuseSkipped tells those who have voted in rounds that turned out to be
// UNDECIDED.
func (m *twoPhase) refuseSkipped(out []Action) []Action {
	keep := m.ahead[:0]
	for _, e := range m.ahead {
		if e.seq <= m.skip {
			out = m.refuseEarly(e.member, e.seq, out)
		} else {
			keep = append(keep, e)
		}
	}
	m.ahead = keep
	return out
}

// refuseEarly tells that a round after the current one is UNDECIDED.
func (m *twoPhase) refuseEarly(to Node, seq uint64, out []Action) []Action {
	msg := Msg{Kind: msgDecision, Outcome: Undecided, Seq: seq, Base: m.now.seq}
	return append(out, Action{Kind: Send, To: to, Seq: seq, Msg: msg})
}

// receiveVote handles the votes of node v's subtree. If mine are cast, they are
// among them already, in the vote of one between us.
func (m *twoPhase) receiveVote(v Node, msg *Msg, out []Action) []Action {
	if m.group.child(v) < 0 {
		m.await(v)
	}
	m.keep(v, ballot{msg.Vote, msg.Failed})
	return m.progress(out)
}

// await remembers that v wants the decision.
func (m *twoPhase) await(v Node) {
	if !slices.Contains(m.now.waiters, v) {
		m.now.waiters = append(m.now.waiters, v)
	}
}

// awaitContact makes my contact one who wants the decision, if I heard it from
// another: nobody asks those who have a living ancestor, and it may be in need.
func (m *twoPhase) awaitContact(from Node) {
	if c := m.now.contact; c != none && m.group.member(c) != from {
		m.await(c)
	}
}

// receiveQuery handles the question of an orphan, whose vote may have come inside
// of that of a parent who died afterwards.
func (m *twoPhase) receiveQuery(v Node, out []Action) []Action {
	m.await(v)
	if m.counted(v) {
		return m.send(v, Msg{Kind: msgWait}, out)
	}
	return m.send(v, Msg{Kind: msgGather}, out)
}

// counted says whether the vote of the living node v below me is in what I have:
// a vote holds those of all who live below the voter, and so does mine once cast.
func (m *twoPhase) counted(v Node) bool {
	for ; v > m.group.me; v = m.group.tree.Parent(v) {
		if m.now.frozen || m.ballotOf(v) != nil {
			return true
		}
	}
	return false
}

// receiveAnswer handles what node v says to my question.
func (m *twoPhase) receiveAnswer(v Node, msg *Msg, out []Action) []Action {
	r := &m.now
	switch {
	case msg.Kind == msgGather && v == r.contact:
		r.told = true
		return m.progress(out)
	case msg.Kind == msgUncertain && r.asking:
		return m.receiveUncertain(v, msg.Known, out)
	}
	return out
}

// receiveDecision handles the outcome of a round.
func (m *twoPhase) receiveDecision(from Node, msg *Msg, out []Action) []Action {
	r := &m.now
	switch {
	case msg.Seq < r.seq:
	case msg.Base == m.last.seq && msg.Outcome == Undecided:
		m.awaitContact(from)
		return m.undecidedBefore(msg.Seq+1, out)
	case msg.Base == m.last.seq && msg.Seq == r.seq && r.voted:
		r.ballot = ballot{msg.Vote, msg.Failed}
		m.dead = union(m.dead, msg.Failed) // whose children are mine
		return m.conclude(Decided, out)
	case msg.Base == r.seq && msg.Outcome == Undecided:
		m.skip = max(m.skip, msg.Seq)
		return m.refuseSkipped(out)
	}
	return out
}
