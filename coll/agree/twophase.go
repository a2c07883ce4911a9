package agree

import "slices"

// twoPhase is one member's part in the agreements of a group by two-phase commit. The package
// documentation describes the protocol.
type twoPhase struct {
	cfg     Config
	entered uint64 // calls so far
	view    view

	// The log has two entries: the last DECIDED round and the current one. The rounds between
	// them are UNDECIDED.
	last entry
	now  round

	later later
}

// entry is the last DECIDED round.
type entry struct {
	seq, base uint64
	ballot    ballot
}

// round is the current round: the first of which nothing is decided here.
type round struct {
	seq     uint64
	entered bool // the local member has called it
	frozen  bool // ballot holds the votes of all living nodes below
	voted   bool // ballot was sent: this member is uncertain
	mayVote bool // the contact has asked for the vote, or needs no question

	contact Node // the nearest living ancestor
	sentTo  Node // the node that got the vote last
	ballot  ballot
	ballots ballots
	waiters []Node // nodes that get the outcome beside those that have this member as contact

	termination termination
}

// addWaiter notes that node v wants the outcome.
func (r *round) addWaiter(v Node) {
	if !slices.Contains(r.waiters, v) {
		r.waiters = append(r.waiters, v)
	}
}

// counts reports whether the vote of the living node v below this member is in a ballot here. A
// ballot holds the votes of all living nodes below the voter, and so does this member's once it is
// frozen.
func (r *round) counts(g *group, v Node) bool {
	for ; v > g.me; v = g.tree.Parent(v) {
		if r.frozen || r.ballots.of(g, v) != nil {
			return true
		}
	}
	return false
}

// newTwoPhase makes a machine at rest.
func newTwoPhase(cfg Config) (*twoPhase, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	g, err := newGroup(cfg.N, cfg.Radix, Node(cfg.Me), nil)
	if err != nil {
		return nil, err
	}
	m := &twoPhase{cfg: cfg, view: view{group: g}}
	m.openRound(1)
	return m, nil
}

// openRound makes seq the current round.
func (m *twoPhase) openRound(seq uint64) {
	r := &m.now
	degree := m.view.group.tree.Degree(m.view.group.me)
	kids := r.ballots.kids
	if cap(kids) < degree {
		kids = make([]kid, degree)
	}
	kids = kids[:degree]
	clear(kids)
	*r = round{
		seq: seq, contact: none, sentTo: none, waiters: r.waiters[:0],
		ballots:     ballots{kids: kids, extra: r.ballots.extra[:0]},
		termination: termination{asked: r.termination.asked[:0]},
	}
}

// Step handles one event and appends to out what the driver is to do.
func (m *twoPhase) Step(ev Event, out []Action) []Action {
	switch ev.Kind {
	case Enter:
		return m.beginCall(ev.Vote, out)
	case Recv:
		if !m.cfg.isPeer(ev.From) || m.view.hasFailed(ev.From) { // late: no other member will count it either
			return out
		}
		return m.receive(ev.From, &ev.Msg, out)
	case PeerFailed:
		if !m.cfg.isPeer(ev.From) || m.view.hasFailed(ev.From) || ev.Inc < m.cfg.incarnation(ev.From) {
			return out
		}
		m.view.dead = with(m.view.dead, ev.From)
		return m.progress(out)
	case Tick: // the detector is perfect, so only its news can end a wait
	}
	return out
}

// beginCall begins the local call of the next round.
func (m *twoPhase) beginCall(vote Vote, out []Action) []Action {
	r := &m.now
	if r.entered {
		return append(out, Action{Kind: Refuse, Seq: m.entered})
	}
	m.entered++
	if m.entered < r.seq { // it has ended without this member's vote
		return append(out, Action{Kind: Deliver, Seq: m.entered, Decision: Decision{Seq: m.entered, Outcome: Undecided}})
	}
	r.entered = true
	r.ballot.vote = vote
	r.contact, r.mayVote = m.view.contact(), true
	return m.progress(out)
}

// progress does what can be done after this member has learned something.
func (m *twoPhase) progress(out []Action) []Action {
	r := &m.now
	if !r.entered {
		return out
	}
	if m.view.group.me == 0 {
		if !r.ballots.areComplete(&m.view) {
			return out
		}
		m.freeze()
		return m.conclude(Decided, out)
	}
	if !r.voted && m.view.isDead(0) { // the coordinator cannot have decided without this vote
		return m.conclude(Undecided, out)
	}
	if contact := m.view.contact(); contact != r.contact {
		r.contact, r.mayVote = contact, false
		if contact != none {
			out = m.send(contact, Msg{Kind: msgQuery}, out)
		}
	}
	if r.contact == none {
		return m.terminate(out)
	}
	if !r.frozen && r.ballots.areComplete(&m.view) {
		m.freeze()
	}
	if !r.frozen || !r.mayVote || r.sentTo == r.contact {
		return out
	}
	r.voted, r.sentTo = true, r.contact
	return m.send(r.contact, Msg{Kind: MsgVote, Vote: r.ballot.vote, Failed: r.ballot.failed}, out)
}

// freeze makes this member's ballot of its vote and of all that came from below. From now on the
// ballot travels as it is. So any two ballots that a member sees are disjoint, or one contains the
// other, and no vote counts twice.
func (m *twoPhase) freeze() {
	r := &m.now
	r.frozen = true
	r.ballot.failed = union(r.ballot.failed, m.view.dead)
	r.ballots.addBelow(&m.view, m.view.group.me, &r.ballot, &m.cfg)
}

// send sends a message of the current round to node v.
func (m *twoPhase) send(v Node, msg Msg, out []Action) []Action {
	msg.Seq, msg.Base = m.now.seq, m.last.seq
	return append(out, Action{Kind: Send, To: m.view.group.member(v), Seq: msg.Seq, Msg: msg})
}
