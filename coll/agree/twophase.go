package agree

// twoPhase is one member's part in the agreements of a group by two-phase commit.
// See the package's documentation for the protocol.
type twoPhase struct {
	cfg     Config
	dead    []Node // who is known to be
	entered uint64 // calls so far
	group   group  // of the current round

	// The log, of two entries.
	last entry
	now  round

	// What came from rounds after the current one, from members for whom that was
	// DECIDED. Only failures make anybody run so far ahead.
	ahead []early
	skip  uint64 // rounds up to this one are UNDECIDED then
}

// ballot is votes combined, and the dead that the voters know.
type ballot struct {
	vote   Vote
	failed []Node
}

// entry is the last DECIDED round. Those between it and the current one are
// UNDECIDED.
type entry struct {
	seq, base uint64
	ballot    ballot
}

// round is the current one: the first of which nothing is decided here.
type round struct {
	seq     uint64
	entered bool
	frozen  bool // ballot holds all that lives below me
	voted   bool // and was sent: I am uncertain
	told    bool // I may vote to contact
	asking  bool // the termination protocol
	blocked bool

	contact Node // my nearest living ancestor
	sentTo  Node // who got my vote last
	ballot  ballot
	kids    []kid  // of my children, by index
	direct  int    // how many of them have voted
	extra   []slot // of others
	waiters []Node // who else wants the decision from me
	asked   []ask  // ascending
	open    int    // how many of them have not answered
}

// kid is what came from a child.
type kid struct {
	here   bool
	ballot ballot
}

// slot is what came from a node.
type slot struct {
	node   Node
	ballot ballot
}

// early is a vote in a round to come.
type early struct {
	member Node
	seq    uint64
	ballot ballot
}

// ask is a termination query: how many dead it told of, and to how many the
// answer was.
type ask struct {
	node        Node
	told, known int32
}

// newTwoPhase makes a machine, at rest.
func newTwoPhase(cfg Config) (*twoPhase, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	g, err := newGroup(cfg.N, cfg.Radix, Node(cfg.Me), nil)
	if err != nil {
		return nil, err
	}
	m := &twoPhase{cfg: cfg, group: g}
	m.open(1)
	return m, nil
}

// open makes seq the current round.
func (m *twoPhase) open(seq uint64) {
	r := &m.now
	degree := m.group.tree.Degree(m.group.me)
	if cap(r.kids) < degree {
		r.kids = make([]kid, degree)
	}
	kids := r.kids[:degree]
	clear(kids)
	*r = round{seq: seq, kids: kids, extra: r.extra[:0], waiters: r.waiters[:0], asked: r.asked[:0], contact: none, sentTo: none}
}

// Step tells the machine of one event and appends to out what is to be done.
func (m *twoPhase) Step(ev Event, out []Action) []Action {
	switch ev.Kind {
	case Enter:
		return m.enter(ev.Vote, out)
	case Recv:
		if !m.valid(ev.From) || m.isDead(ev.From) { // late: nobody else will count it either
			return out
		}
		return m.receive(ev.From, &ev.Msg, out)
	case PeerFailed:
		if !m.valid(ev.From) || m.isDead(ev.From) || ev.Inc < m.cfg.incarnation(ev.From) {
			return out
		}
		m.dead = with(m.dead, ev.From)
		return m.progress(out)
	case Tick: // a perfect detector tells of all that is worth waking for
	}
	return out
}

func (c *Config) incarnation(p Node) uint32 {
	if c.Incs == nil {
		return 1
	}
	return c.Incs[p]
}

func (m *twoPhase) valid(p Node) bool { return p >= 0 && int(p) < m.cfg.N && int(p) != m.cfg.Me }

func (m *twoPhase) isDead(p Node) bool { return contains(m.dead, p) }

// gone says whether node v is dead.
func (m *twoPhase) gone(v Node) bool { return len(m.dead) > 0 && m.isDead(m.group.member(v)) }

// enter begins the local call.
func (m *twoPhase) enter(vote Vote, out []Action) []Action {
	r := &m.now
	if r.entered {
		return append(out, Action{Kind: Refuse, Seq: m.entered})
	}
	m.entered++
	if m.entered < r.seq { // it was decided without me
		return append(out, Action{Kind: Deliver, Seq: m.entered, Decision: Decision{Seq: m.entered, Outcome: Undecided}})
	}
	r.entered = true
	r.ballot.vote = vote
	r.contact, r.told = m.above(), true
	return m.progress(out)
}

// above is my nearest living ancestor, or none.
func (m *twoPhase) above() Node {
	v := m.group.tree.Parent(m.group.me)
	for v >= 0 && m.gone(v) {
		v = m.group.tree.Parent(v)
	}
	return v
}

// progress does what can be done after something was learned.
func (m *twoPhase) progress(out []Action) []Action {
	r := &m.now
	if !r.entered {
		return out
	}
	if m.group.me == 0 {
		if !m.gathered() {
			return out
		}
		m.freeze()
		return m.conclude(Decided, out)
	}
	if !r.voted && m.gone(0) { // without my vote it has decided nothing
		return m.conclude(Undecided, out)
	}
	if above := m.above(); above != r.contact {
		r.contact, r.told = above, false
		if above != none {
			out = m.send(above, Msg{Kind: msgQuery}, out)
		}
	}
	if r.contact == none {
		return m.terminate(out)
	}
	if !r.frozen && m.gathered() {
		m.freeze()
	}
	if !r.frozen || !r.told || r.sentTo == r.contact {
		return out
	}
	r.voted, r.sentTo = true, r.contact
	return m.send(r.contact, Msg{Kind: MsgVote, Vote: r.ballot.vote, Failed: r.ballot.failed}, out)
}

// send sends a message of the current round to node v.
func (m *twoPhase) send(v Node, msg Msg, out []Action) []Action {
	msg.Seq, msg.Base = m.now.seq, m.last.seq
	return append(out, Action{Kind: Send, To: m.group.member(v), Seq: msg.Seq, Msg: msg})
}
