package agree

// later is what came from rounds after the current one, from members for which the current round
// ended as DECIDED. Only failures let a member run so far ahead.
type later struct {
	votes       []laterVote
	undecidedTo uint64 // the rounds from the next one up to this one are UNDECIDED
}

// laterVote is a vote in a round after the current one.
type laterVote struct {
	member Node
	seq    uint64
	ballot ballot
}

// receive handles a message of a round after current. This member has voted in the current round,
// which the sender knows to be DECIDED, and in no round after it. So the rounds that the sender has
// left behind since have ended as UNDECIDED.
func (l *later) receive(current uint64, from Node, msg *Msg, out []Action) []Action {
	if msg.Kind == msgTermQuery {
		l.undecidedTo = max(l.undecidedTo, msg.Seq) // this member will not vote in it
	}
	l.undecidedTo = max(l.undecidedTo, msg.Seq-1)
	switch {
	case msg.Seq <= l.undecidedTo:
		out = refuse(current, from, msg.Seq, out)
	case msg.Kind == MsgVote:
		l.votes = append(l.votes, laterVote{from, msg.Seq, ballot{msg.Vote, msg.Failed}})
	case msg.Kind == msgQuery:
		out = append(out, Action{Kind: Send, To: from, Seq: msg.Seq, Msg: Msg{Kind: msgGather, Seq: msg.Seq, Base: msg.Base}})
	}
	return l.refuseUndecided(current, out)
}

// markUndecided notes that the rounds up to seq are UNDECIDED.
func (l *later) markUndecided(current, seq uint64, out []Action) []Action {
	l.undecidedTo = max(l.undecidedTo, seq)
	return l.refuseUndecided(current, out)
}

// refuseUndecided answers the voters in rounds that have turned out to be UNDECIDED.
func (l *later) refuseUndecided(current uint64, out []Action) []Action {
	keep := l.votes[:0]
	for _, e := range l.votes {
		if e.seq <= l.undecidedTo {
			out = refuse(current, e.member, e.seq, out)
		} else {
			keep = append(keep, e)
		}
	}
	l.votes = keep
	return out
}

// refuse tells member to that round seq, after the current one, is UNDECIDED.
func refuse(current uint64, to Node, seq uint64, out []Action) []Action {
	msg := Msg{Kind: msgDecision, Outcome: Undecided, Seq: seq, Base: current}
	return append(out, Action{Kind: Send, To: to, Seq: seq, Msg: msg})
}
