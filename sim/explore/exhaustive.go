package explore

import (
	"context"
	"fmt"
	"math/bits"
)

// MostExhaustive is how many members an exhaustive search can have.
const MostExhaustive = 6

// Count says how much was searched.
type Count struct {
	States, Transitions int
	Ends                int // states in which nothing can happen any more
	MemberStates        int
}

// config is a state of the whole: the numbers that a space gave.
type config struct {
	sum     [2]uint64 // of what stands for each of the members and queues: see hash
	member  [MostExhaustive]uint32
	queue   [MostExhaustive * MostExhaustive]uint32 // from q to p at q*MostExhaustive+p
	news    [MostExhaustive]uint8                   // of whose death each has still to be told
	dead    uint8
	deaths  uint8 // what may still go wrong
	losses  uint8
	ticks   uint8
	timeout uint8
	sent    uint16 // counted as long as nothing can go wrong
	faulty  bool
}

func (c *config) setMember(p int, to uint32) {
	c.change(p, c.member[p], to)
	c.member[p] = to
}

func (c *config) setQueue(at int, to uint32) {
	c.change(MostExhaustive+at, c.queue[at], to)
	c.queue[at] = to
}

// change brings the sum up to date when the number at a place changes.
func (c *config) change(place int, from, to uint32) {
	if from == to {
		return
	}
	old, now := stands(place, uint64(from)), stands(place, uint64(to))
	c.sum[0] += now[0] - old[0]
	c.sum[1] += now[1] - old[1]
}

// search is an exhaustive one of one scenario.
type search struct {
	ctx     context.Context
	sys     System
	n       int
	faults  Faults
	space   *space
	seen    visited
	count   Count
	path    []Choice
	failure *Failure
	onEnd   func(*Group) // for tests
	room    Group
}

// Exhaustive searches all runs of sys with faults, up to the first that goes
// wrong or until the context ends. docs/explore.md argues what it leaves out.
func Exhaustive(ctx context.Context, sys System, faults Faults) (Count, *Failure) {
	return newSearch(ctx, sys, faults).run()
}

func newSearch(ctx context.Context, sys System, faults Faults) *search {
	return &search{ctx: ctx, sys: sys, n: sys.N(), faults: faults, space: newSpace(sys)}
}

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
	s.beginnings(&c, 0)
	s.count.States, s.count.MemberStates = s.seen.count, len(s.space.members)-1
	return s.count, s.failure
}

// beginnings searches from each set of members that die before all else.
func (s *search) beginnings(c *config, from int) {
	s.visit(c)
	for p := from; p < s.n && c.deaths > 0 && s.living(c) > 1; p++ {
		s.dieNow(c, p, nobody, func(next *config) { s.beginnings(next, p+1) })
	}
}

func (s *search) living(c *config) int { return s.n - bits.OnesCount8(c.dead) }

// visit searches from c on.
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
					s.lose(c, p, q)
				}
			}
			if c.news[p]>>q&1 != 0 {
				s.try(c, Choice{Kind: News, P: p, Q: q})
				moved = true
			}
		}
		if c.ticks > 0 {
			s.try(c, Choice{Kind: Tick, P: p})
		}
	}
	if !moved {
		s.rest(c)
	}
}

// rest is where only time can move anything.
func (s *search) rest(c *config) {
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
	s.restless(c)
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
	s.endings(&next, &done, 0)
	s.path = s.path[:len(s.path)-1]
}

// restless lets each member die where the clocks are about to tick: what the
// others do by the clock does not commute with the news of a death before.
func (s *search) restless(c *config) {
	for p := s.n - 1; p >= 0 && c.deaths > 0 && s.living(c) > 1; p-- {
		if c.dead>>p&1 == 0 && s.failure == nil {
			s.count.Transitions++
			s.dieNow(c, p, s.space.buried(s.space.members[c.member[p]], p), s.visit)
		}
	}
}

// endings searches on where all clocks have ticked, from each set of members that
// die of it, of those that have sent something.
func (s *search) endings(c *config, done *[MostExhaustive]*outcome, from int) {
	s.visit(c)
	for p := from; p < s.n && c.deaths > 0 && s.living(c) > 1 && s.failure == nil; p++ {
		if c.dead>>p&1 == 0 && s.tells(c, done[p]) {
			s.count.Transitions++
			s.dieNow(c, p, done[p].buried, func(next *config) { s.endings(next, done, p+1) })
		}
	}
}

func (s *search) dieNow(c *config, p int, buried uint32, then func(*config)) {
	next := *c
	s.die(&next, p, buried)
	s.path = append(s.path, Choice{Kind: Die, P: p})
	then(&next)
	s.path = s.path[:len(s.path)-1]
}

func (s *search) lose(c *config, p, q int) {
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

// try lets ch happen in c, and searches on; then again with its member dying of
// it, if anybody could tell that from its having died before.
func (s *search) try(c *config, ch Choice) {
	if s.failure != nil {
		return
	}
	s.path = append(s.path, ch)
	s.happen(c, ch)
	s.path = s.path[:len(s.path)-1]
}

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
	default:
	}
	o := s.space.step(p, k)
	err := o.err
	if err == nil && ch.Kind == News {
		err = s.late(&next, p, q, o.next)
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
	if s.failure == nil && c.deaths > 0 && s.living(c) > 1 && s.tells(c, o) {
		s.path[len(s.path)-1].Dies, s.path[len(s.path)-1].Keep = true, afterAll
		s.die(&next, p, o.buried)
		s.count.Transitions++
		s.visit(&next)
	}
}

// tells says whether others can notice that o happened before its member died.
func (s *search) tells(c *config, o *outcome) bool {
	for _, send := range o.sends {
		if c.dead>>send.to&1 == 0 {
			return true
		}
	}
	return o.returns && o.uniform
}

// late checks that member p, told of q's death, takes no message of it any more.
// So whatever q has sent and p not received may be forgotten.
func (s *search) late(c *config, p, q int, member uint32) error {
	for _, msg := range s.space.queues[c.queue[q*MostExhaustive+p]].list {
		o := s.space.step(p, step{member: member, msg: msg, kind: Deliver, from: q})
		if o.next != member || len(o.sends) > 0 || o.returns || o.err != nil {
			s.path = append(s.path, Choice{Kind: Deliver, P: p, Q: q})
			return fmt.Errorf("%w: %v from %d at %d", ErrLate, s.space.msgs[msg], q, p)
		}
	}
	return nil
}

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

func (s *search) die(c *config, p int, buried uint32) {
	c.dead |= 1 << p
	c.deaths--
	c.faulty = true
	c.setMember(p, buried)
	c.news[p] = 0
	for q := range s.n {
		c.setQueue(q*MostExhaustive+p, 0)
		if c.dead>>q&1 == 0 {
			c.news[q] |= 1 << p
		}
	}
}

// group is c as Check sees it, until the next is asked for.
func (s *search) group(c *config, who int) *Group {
	list := s.room.Members[:0]
	for p := range s.n {
		list = append(list, s.space.members[c.member[p]])
	}
	s.room = Group{Members: list, Dead: uint64(c.dead), Sent: int(c.sent), Who: who, Final: who < 0, Faultless: s.faults == Faults{}}
	return &s.room
}

func (s *search) fail(err error) {
	if s.failure == nil {
		s.failure = &Failure{s.sys, append([]Choice(nil), s.path...), err}
	}
}

// hash is 128 bits of all that c is: sums of what stands for each of its parts, so that
// an event costs no more than what it changes.
func (s *search) hash(c *config) [2]uint64 {
	news := uint64(0)
	for p, set := range c.news {
		news |= uint64(set) << (8 * p)
	}
	left := uint64(c.dead) | uint64(c.deaths)<<8 | uint64(c.losses)<<16 | uint64(c.ticks)<<24 | uint64(c.timeout)<<32 | uint64(c.sent)<<40
	a, b := stands(-1, news), stands(-2, left)
	return [2]uint64{c.sum[0] + a[0] + b[0], (c.sum[1] + a[1] + b[1]) | 1} // never 0
}
