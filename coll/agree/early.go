package agree

import "github.com/goshmem/goshmem/coll/ftco"

// earlyReturning is one member's part in the agreements of a group by an allreduce
// that survives failures. See the package's documentation for the protocol.
type earlyReturning struct {
	cfg     Config
	dead    []Node // who is known to be, and whom decisions listed
	entered uint64 // calls so far
	sides   [2]side
	current int     // which of them takes the next call
	strays  []stray // what came for the side that the pending decision will make
	scratch []ftco.Action
}

// side is a tree and what travels along it: rounds base+1, base+2, and so on.
type side struct {
	base   uint64 // the round after which it was made
	group  group
	m      *ftco.Machine // nil: no such side
	stores [4]store
}

// store holds the values of one round. Calls are in step, so that at most three
// rounds in succession are alive: the one that laggards ask for, the one that
// goes on, and the one that those who have returned from it are in already.
type store struct {
	seq    uint64 // in its side
	own    ballot
	result ballot
	done   bool // the call has returned
	kids   []kid
	extra  []slot
}

// stray is a contribution that came too early.
type stray struct {
	member Node
	msg    Msg
}

// newEarly makes a machine, at rest.
func newEarly(cfg Config) (*earlyReturning, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	e := &earlyReturning{cfg: cfg}
	g, err := newGroup(cfg.N, cfg.Radix, Node(cfg.Me), nil)
	if err != nil {
		return nil, err
	}
	if e.sides[0], err = e.newSide(0, g); err != nil {
		return nil, err
	}
	return e, nil
}

// newSide makes the side for the rounds after base.
func (e *earlyReturning) newSide(base uint64, g group) (side, error) {
	m, err := ftco.New(ftco.Config{N: g.tree.Len(), Me: int(g.me), Radix: e.cfg.Radix, Ticks: e.cfg.Ticks})
	if err != nil {
		return side{}, err
	}
	s := side{base: base, group: g, m: m}
	degree := g.tree.Degree(g.me)
	for i := range s.stores {
		s.stores[i].kids = make([]kid, degree)
	}
	return s, nil
}

// Step tells the machine of one event and appends to out what is to be done.
func (e *earlyReturning) Step(ev Event, out []Action) []Action {
	switch ev.Kind {
	case Enter:
		return e.enter(ev.Vote, out)
	case Recv:
		if e.cfg.isPeer(ev.From) && !contains(e.dead, ev.From) { // late: nobody else will count it either
			return e.receive(ev.From, &ev.Msg, out)
		}
	case PeerFailed:
		if e.cfg.isPeer(ev.From) && ev.Inc >= e.cfg.incarnation(ev.From) {
			return e.peerFailed(ev.From, out)
		}
	case Tick:
		s := &e.sides[e.current]
		return e.step(s, ftco.Event{Kind: ftco.Tick}, nil, out)
	}
	return out
}

// enter begins the local call.
func (e *earlyReturning) enter(vote Vote, out []Action) []Action {
	s := &e.sides[e.current]
	seq := e.entered + 1 - s.base
	if e.waits() {
		return append(out, Action{Kind: Refuse, Seq: e.entered})
	}
	e.entered++
	s.store(seq).own = ballot{vote, e.dead}
	call := ftco.Call{Kind: ftco.Allreduce, Uniform: e.cfg.Durable}
	return e.step(s, ftco.Event{Kind: ftco.Enter, Call: call}, nil, out)
}

// waits says whether the local call has not returned.
func (e *earlyReturning) waits() bool {
	s := &e.sides[e.current]
	return e.entered > s.base && !s.store(e.entered-s.base).done
}

// receive handles a message: of this tree, of the one before, or of the one after.
func (e *earlyReturning) receive(from Node, msg *Msg, out []Action) []Action {
	if msg.Kind != msgCollective {
		return out
	}
	for i := range e.sides {
		s := &e.sides[i]
		if s.m == nil || s.base != msg.Base {
			continue
		}
		v := s.group.node(from) // it stands there: who does not is dead to me since I made this side
		return e.step(s, ftco.Event{Kind: ftco.Recv, From: v, Msg: msg.Collective}, &ballot{msg.Vote, msg.Failed}, out)
	}
	if msg.Base == e.entered && e.waits() && msg.Collective.Kind == ftco.Up {
		e.keepStray(from, msg)
	}
	return out
}

// keepStray keeps the contribution of a member that has returned from the round
// that I am in, until I return from it too. It comes once: I am the contact of its
// sender, which says it again to another contact only, or to me if I ask. Any other
// message for me is the answer to one of mine, or is repeated.
func (e *earlyReturning) keepStray(from Node, msg *Msg) {
	e.strays = append(e.strays, stray{from, *msg})
}

// peerFailed tells both sides, because a laggard may still need the former one.
func (e *earlyReturning) peerFailed(p Node, out []Action) []Action {
	e.dead = with(e.dead, p)
	current := e.current
	for _, i := range [...]int{1 - current, current} {
		s := &e.sides[i]
		if s.m == nil {
			continue
		}
		if v := s.group.node(p); v != none {
			out = e.step(s, ftco.Event{Kind: ftco.PeerFailed, From: v, Inc: 1}, nil, out)
		}
	}
	return out
}

// returned turns the decision of a round of s into that of the call and, if it
// lists new dead, makes the side of those that are left.
func (e *earlyReturning) returned(s *side, a *ftco.Action, out []Action) []Action {
	st := s.store(a.Seq)
	failed := st.result.failed
	if sets := a.Msg.Sets; sets != nil {
		failed = union(failed, s.members(sets.Failed))
	}
	st.done = true
	seq := s.base + a.Seq
	d := Decision{Seq: seq, Outcome: Decided, Vote: st.result.vote, Failed: failed}
	e.dead = union(e.dead, failed)
	out = append(out, Action{Kind: Deliver, Seq: seq, Decision: d})
	strays := e.strays
	e.strays = nil
	if !e.cfg.Rebalance || len(failed) == len(s.group.gone) {
		return out
	}
	next, err := e.newSide(seq, s.group.without(failed))
	if err != nil { // there is one for every group with a member
		return out
	}
	e.current = 1 - e.current
	e.sides[e.current] = next
	n := &e.sides[e.current]
	for _, p := range e.dead {
		if v := n.group.node(p); v != none {
			out = e.step(n, ftco.Event{Kind: ftco.PeerFailed, From: v, Inc: 1}, nil, out)
		}
	}
	for i := range strays {
		out = e.receive(strays[i].member, &strays[i].msg, out)
	}
	return out
}

// members are the members at nodes.
func (s *side) members(nodes []Node) []Node {
	if len(s.group.gone) == 0 {
		return nodes
	}
	list := make([]Node, len(nodes))
	for i, v := range nodes {
		list[i] = s.group.member(v)
	}
	return list
}
