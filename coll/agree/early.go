package agree

import "github.com/goshmem/goshmem/coll/ftco"

// earlyReturning is one member's part in the agreements of a group by an allreduce that survives
// failures. The package documentation describes the protocol.
type earlyReturning struct {
	cfg     Config
	dead    []Node // members that are known to be dead, or that decisions listed
	entered uint64 // calls so far
	sides   [2]side
	current int           // index of the side of the next call
	strays  []stray       // messages for the side that the pending decision may make
	scratch []ftco.Action // room for actions of a side's machine
}

// side is a tree and the rounds that use it: base+1, base+2, and so on.
type side struct {
	base   uint64 // the round after which the side was made
	group  group
	m      *ftco.Machine // nil: there is no such side
	stores [4]store      // by round modulo 4
}

// store holds the values of one round. At most three rounds in succession are alive: the one that
// laggards ask for, the current one, and the one that members which have returned from that are in.
type store struct {
	seq    uint64 // the round, counted from the side's base
	own    ballot // the vote of the local member, later with those below it
	result ballot
	done   bool   // the local call has returned
	kids   []kid  // what came from the children, by index
	extra  []slot // what came from other nodes
}

// stray is a contribution to a side that is not made yet.
type stray struct {
	member Node
	msg    Msg
}

// newEarly makes a machine at rest.
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

// Step handles one event and appends to out what the driver is to do.
func (e *earlyReturning) Step(ev Event, out []Action) []Action {
	switch ev.Kind {
	case Enter:
		return e.beginCall(ev.Vote, out)
	case Recv:
		if e.cfg.isPeer(ev.From) && !contains(e.dead, ev.From) { // late: no other member will count it either
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

// beginCall begins the local call of the next round.
func (e *earlyReturning) beginCall(vote Vote, out []Action) []Action {
	s := &e.sides[e.current]
	seq := e.entered + 1 - s.base
	if e.isCalling() {
		return append(out, Action{Kind: Refuse, Seq: e.entered})
	}
	e.entered++
	s.store(seq).own = ballot{vote, e.dead}
	call := ftco.Call{Kind: ftco.Allreduce, Uniform: e.cfg.Durable}
	return e.step(s, ftco.Event{Kind: ftco.Enter, Call: call}, nil, out)
}

// isCalling reports whether the local call has not returned.
func (e *earlyReturning) isCalling() bool {
	s := &e.sides[e.current]
	return e.entered > s.base && !s.store(e.entered-s.base).done
}

// receive handles a message of the current side, of the former one, or of the next.
func (e *earlyReturning) receive(from Node, msg *Msg, out []Action) []Action {
	if msg.Kind != msgCollective {
		return out
	}
	for i := range e.sides {
		s := &e.sides[i]
		if s.m == nil || s.base != msg.Base {
			continue
		}
		v := s.group.node(from) // not none: the members that a side leaves out are in e.dead since it was made
		return e.step(s, ftco.Event{Kind: ftco.Recv, From: v, Msg: msg.Collective}, &ballot{msg.Vote, msg.Failed}, out)
	}
	if msg.Base == e.entered && e.isCalling() && msg.Collective.Kind == ftco.Up {
		e.keepStray(from, msg)
	}
	return out
}

// keepStray keeps the contribution of a member that has returned from the current round until the
// local call returns, too. The contribution comes only once: its sender sends it again only to
// another node above it, or when it is asked. All other messages are answers to messages of this
// member, or are repeated.
func (e *earlyReturning) keepStray(from Node, msg *Msg) {
	e.strays = append(e.strays, stray{from, *msg})
}

// peerFailed handles the death of member p on both sides, because laggards may still need the former
// one.
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

// deliver lets the local call return the decision of a round of s. If the decision lists new dead,
// deliver makes the side of the members that are left.
func (e *earlyReturning) deliver(s *side, a *ftco.Action, out []Action) []Action {
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
	if err != nil { // cannot be: the group has a member
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

// members returns the members at nodes.
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
