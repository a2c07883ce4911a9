package explore

import (
	"context"
	"fmt"
	"math/bits"
)

// MostExhaustive is the greatest number of members of an exhaustive search.
const MostExhaustive = 6

// Count has the size of a search.
type Count struct {
	States, Transitions int
	Ends                int // states in which nothing can happen any more
	MemberStates        int
}

// config is a state of the whole system. Members and queues are numbers of a space.
type config struct {
	sum     [2]uint64 // sum of the fingerprints of all members and queues; see hash
	member  [MostExhaustive]uint32
	queue   [MostExhaustive * MostExhaustive]uint32 // from q to p at q*MostExhaustive+p
	news    [MostExhaustive]uint8                   // the deaths that each member has not learned of
	dead    uint8
	deaths  uint8  // deaths that may still happen
	losses  uint8  // the same for losses
	ticks   uint8  // the same for ticks of single clocks
	timeout uint8  // the same for ticks of all clocks
	sent    uint16 // messages, counted in scenarios without faults
	faulty  bool   // a fault has happened
}

// setMember sets the state of member p.
func (c *config) setMember(p int, to uint32) {
	c.updateSum(p, c.member[p], to)
	c.member[p] = to
}

// setQueue sets a queue.
func (c *config) setQueue(at int, to uint32) {
	c.updateSum(MostExhaustive+at, c.queue[at], to)
	c.queue[at] = to
}

// updateSum updates the sum when the number at a place changes.
func (c *config) updateSum(place int, from, to uint32) {
	if from == to {
		return
	}
	old, now := fingerprint(place, uint64(from)), fingerprint(place, uint64(to))
	c.sum[0] += now[0] - old[0]
	c.sum[1] += now[1] - old[1]
}

// search is an exhaustive search of one scenario.
type search struct {
	ctx     context.Context
	sys     System
	n       int
	faults  Faults
	space   *space
	seen    visited
	count   Count
	path    []Choice // the choices up to the current state
	failure *Failure
	onEnd   func(*Group) // called at each end; for tests
	room    Group        // what group returns
}

// Exhaustive searches all runs of sys with faults, up to the first that goes wrong or until the context
// ends. docs/explore.md argues what it leaves out.
func Exhaustive(ctx context.Context, sys System, faults Faults) (Count, *Failure) {
	return newSearch(ctx, sys, faults).run()
}

// newSearch makes a search.
func newSearch(ctx context.Context, sys System, faults Faults) *search {
	return &search{ctx: ctx, sys: sys, n: sys.N(), faults: faults, space: newSpace(sys)}
}

// run searches from the state in which all members are at rest.
func (s *search) run() (Count, *Failure) {
	sys, faults := s.sys, s.faults
	if s.n > MostExhaustive {
		return Count{}, &Failure{System: sys, Err: fmt.Errorf("exhaustive search of %d members, want at most %d", s.n, MostExhaustive)}
	}
	c := config{deaths: uint8(faults.Deaths), losses: uint8(faults.Losses), ticks: uint8(faults.Ticks), timeout: uint8(faults.Timeouts)}
	for p := range s.n {
		m, err := sys.Member(p)
		if err != nil {
			return Count{}, &Failure{System: sys, Err: err}
		}
		c.setMember(p, s.space.member(m, p))
	}
	s.visitBeginnings(&c, 0)
	s.count.States, s.count.MemberStates = s.seen.count, len(s.space.members)-1
	return s.count, s.failure
}

// visitBeginnings searches from c, and from each set of members from the given one on that die before
// anything else happens.
func (s *search) visitBeginnings(c *config, from int) {
	s.visit(c)
	for p := from; p < s.n && c.deaths > 0 && s.living(c) > 1; p++ {
		s.visitDeath(c, p, noRemains, func(next *config) { s.visitBeginnings(next, p+1) })
	}
}

// living returns the number of living members.
func (s *search) living(c *config) int { return s.n - bits.OnesCount8(c.dead) }

// visit searches from c on, unless c was visited before.
func (s *search) visit(c *config) {
	if s.failure != nil || !s.seen.add(s.hash(c)) {
		return
	}
	if s.seen.count&0xfff == 0 && s.ctx.Err() != nil {
		s.failure = &Failure{System: s.sys, Err: s.ctx.Err()}
		return
	}
	moved := false
	for p := range s.n {
		if c.dead>>p&1 != 0 {
			continue
		}
		m := s.space.members[c.member[p]]
		if m.Entered() == m.Returned() && m.Entered() < s.sys.Calls() {
			s.try(c, Choice{Kind: Enter, P: p})
			moved = true
		}
		for q := range s.n {
			if c.queue[q*MostExhaustive+p] != 0 {
				s.try(c, Choice{Kind: Deliver, P: p, Q: q})
				moved = true
				if c.losses > 0 && c.dead>>q&1 == 0 {
					s.visitLoss(c, p, q)
				}
			}
			if c.news[p]>>q&1 != 0 {
				s.try(c, Choice{Kind: News, P: p, Q: q})
				moved = true
			}
		}
		choices, optional := own(m)
		moved = moved || choices&^optional != 0
		for ; choices != 0; choices &= choices - 1 {
			s.try(c, Choice{Kind: Own, P: p, Q: bits.TrailingZeros64(choices)})
		}
		if c.ticks > 0 {
			s.try(c, Choice{Kind: Tick, P: p})
		}
	}
	if !moved {
		s.visitIdle(c)
	}
}

// visitIdle searches from c, in which only time can move anything.
func (s *search) visitIdle(c *config) {
	unfinished := false
	for p := range s.n {
		unfinished = unfinished || c.dead>>p&1 == 0 && s.space.members[c.member[p]].Returned() < s.sys.Calls()
	}
	if !unfinished || c.timeout == 0 {
		s.count.Ends++
		if s.onEnd != nil {
			s.onEnd(s.group(c, -1))
		}
		if err := s.sys.Check(s.group(c, -1)); err != nil {
			s.fail(err)
		}
		return
	}
	s.visitIdleDeaths(c)
	next := *c
	next.timeout--
	next.faulty = true
	s.path = append(s.path, Choice{Kind: TickAll})
	var done [MostExhaustive]*outcome
	for p := range s.n {
		if c.dead>>p&1 == 0 {
			done[p] = s.space.step(p, step{member: next.member[p], kind: Tick})
			s.apply(&next, p, done[p])
		}
	}
	s.count.Transitions++
	s.visitTickDeaths(&next, &done, 0)
	s.path = s.path[:len(s.path)-1]
}

// visitIdleDeaths lets each member die before the clocks tick: what others do at a tick does not commute
// with the news of a death before it.
func (s *search) visitIdleDeaths(c *config) {
	for p := s.n - 1; p >= 0 && c.deaths > 0 && s.living(c) > 1; p-- {
		if c.dead>>p&1 == 0 && s.failure == nil {
			s.count.Transitions++
			s.visitDeath(c, p, s.space.remains(s.space.members[c.member[p]], p), s.visit)
		}
	}
}

// visitTickDeaths searches from c, in which all clocks have ticked, and from each set of members from the
// given one on that die after the tick. Only members whose tick others can notice need to.
func (s *search) visitTickDeaths(c *config, done *[MostExhaustive]*outcome, from int) {
	s.visit(c)
	for p := from; p < s.n && c.deaths > 0 && s.living(c) > 1 && s.failure == nil; p++ {
		if c.dead>>p&1 == 0 && s.isNoticed(c, done[p]) {
			s.count.Transitions++
			s.visitDeath(c, p, done[p].remains, func(next *config) { s.visitTickDeaths(next, done, p+1) })
		}
	}
}

// visitDeath lets p die in c, and goes on with then.
func (s *search) visitDeath(c *config, p int, remains uint32, then func(*config)) {
	next := *c
	s.kill(&next, p, remains)
	s.path = append(s.path, Choice{Kind: Die, P: p})
	then(&next)
	s.path = s.path[:len(s.path)-1]
}

// visitLoss loses the first message from q to p, and searches on.
func (s *search) visitLoss(c *config, p, q int) {
	next := *c
	next.losses--
	next.faulty = true
	at := q*MostExhaustive + p
	next.setQueue(at, s.space.pop(next.queue[at]))
	s.path = append(s.path, Choice{Kind: Lose, P: p, Q: q})
	s.count.Transitions++
	s.visit(&next)
	s.path = s.path[:len(s.path)-1]
}

// try lets ch happen in c and searches on. Then it lets ch's member die right after ch, unless no other
// member could tell that from a death before ch.
func (s *search) try(c *config, ch Choice) {
	if s.failure != nil {
		return
	}
	s.path = append(s.path, ch)
	s.happen(c, ch)
	s.path = s.path[:len(s.path)-1]
}

// happen does what try says.
func (s *search) happen(c *config, ch Choice) {
	next := *c
	p, q := ch.P, ch.Q
	k := step{member: c.member[p], kind: ch.Kind, from: q}
	switch ch.Kind {
	case Deliver:
		at := q*MostExhaustive + p
		k.msg = s.space.queues[c.queue[at]].list[0]
		next.setQueue(at, s.space.pop(c.queue[at]))
	case News:
		next.news[p] &^= 1 << q
	case Tick:
		next.ticks--
		next.faulty = true
	case Own:
		k.msg, k.from = uint32(q), 0
	default:
	}
	o := s.space.step(p, k)
	err := o.err
	if err == nil && ch.Kind == News {
		err = s.checkLate(&next, p, q, o.next)
		next.setQueue(q*MostExhaustive+p, 0)
	}
	s.count.Transitions++
	s.apply(&next, p, o)
	if err == nil && o.returns {
		err = s.sys.Check(s.group(&next, p))
	}
	if err != nil {
		s.fail(err)
		return
	}
	s.visit(&next)
	if s.failure == nil && c.deaths > 0 && s.living(c) > 1 && s.isNoticed(c, o) {
		s.path[len(s.path)-1].Dies, s.path[len(s.path)-1].Keep = true, afterAll
		s.kill(&next, p, o.remains)
		s.count.Transitions++
		s.visit(&next)
	}
}

// isNoticed reports whether others can notice that o happened before its member died.
func (s *search) isNoticed(c *config, o *outcome) bool {
	for _, send := range o.sends {
		if c.dead>>send.to&1 == 0 {
			return true
		}
	}
	return o.returns && o.uniform
}

// checkLate checks that no message of q changes member p after the news of q's death. So the search may
// drop what q has sent and p has not received.
func (s *search) checkLate(c *config, p, q int, member uint32) error {
	for _, msg := range s.space.queues[c.queue[q*MostExhaustive+p]].list {
		o := s.space.step(p, step{member: member, msg: msg, kind: Deliver, from: q})
		if o.next != member || len(o.sends) > 0 || o.returns || o.err != nil {
			s.path = append(s.path, Choice{Kind: Deliver, P: p, Q: q})
			return fmt.Errorf("%w: %v from %d at %d", ErrLate, s.space.msgs[msg], q, p)
		}
	}
	return nil
}

// apply makes the effects of o visible in c.
func (s *search) apply(c *config, p int, o *outcome) {
	c.setMember(p, o.next)
	for _, send := range o.sends {
		if c.dead>>send.to&1 == 0 {
			at := p*MostExhaustive + int(send.to)
			c.setQueue(at, s.space.push(c.queue[at], send.msg))
		}
	}
	if s.faults == (Faults{}) {
		c.sent += uint16(len(o.sends))
	}
}

// kill lets p die in c.
func (s *search) kill(c *config, p int, remains uint32) {
	c.dead |= 1 << p
	c.deaths--
	c.faulty = true
	c.setMember(p, remains)
	c.news[p] = 0
	for q := range s.n {
		c.setQueue(q*MostExhaustive+p, 0)
		if c.dead>>q&1 == 0 {
			c.news[q] |= 1 << p
		}
	}
}

// group returns c as Check sees it, when member returned has returned from a call or, if that is -1, at
// the end. The result is valid until the next call of group.
func (s *search) group(c *config, returned int) *Group {
	list := s.room.Members[:0]
	for p := range s.n {
		list = append(list, s.space.members[c.member[p]])
	}
	s.room = Group{Members: list, Dead: uint64(c.dead), Sent: int(c.sent), Who: returned, Final: returned < 0, Faultless: s.faults == Faults{}}
	return &s.room
}

// fail ends the search with an error.
func (s *search) fail(err error) {
	if s.failure == nil {
		s.failure = &Failure{s.sys, append([]Choice(nil), s.path...), err}
	}
}

// hash returns 128 bits that stand for c. They are sums of fingerprints of its parts, so an event costs
// only as much as it changes.
func (s *search) hash(c *config) [2]uint64 {
	news := uint64(0)
	for p, set := range c.news {
		news |= uint64(set) << (8 * p)
	}
	left := uint64(c.dead) | uint64(c.deaths)<<8 | uint64(c.losses)<<16 | uint64(c.ticks)<<24 | uint64(c.timeout)<<32 | uint64(c.sent)<<40
	a, b := fingerprint(-1, news), fingerprint(-2, left)
	return [2]uint64{c.sum[0] + a[0] + b[0], (c.sum[1] + a[1] + b[1]) | 1} // never 0
}
