package explore

import (
	"bytes"
	"fmt"
	"math/bits"
)

// world is one run: members, the messages between them, and the news that they have not learned yet.
// All that may happen is a Choice.
type world struct {
	sys      System
	n        int
	members  []Member
	links    [][]Message // from q to p at q*n+p, first in first out
	told     []uint64    // the deaths that each member has learned of
	entered  []int       // calls of each member
	own      []uint64    // the choices of its own that each member has
	may      []uint64    // those of them that are optional
	optional int         // how many of all ready choices are
	dead     uint64
	left     Faults                           // faults that may still happen
	faulty   bool                             // a fault has happened
	sent     int                              // messages
	ready    bag                              // choices that may happen, by slot
	effects  []Effect                         // room
	before   []byte                           // room
	after    []byte                           // room
	log      func(format string, args ...any) // nil: no log
}

// newWorld makes the members at rest.
func newWorld(sys System, faults Faults) (*world, error) {
	n := sys.N()
	w := &world{
		sys: sys, n: n, left: faults, members: make([]Member, n), links: make([][]Message, n*n),
		told: make([]uint64, n), entered: make([]int, n), own: make([]uint64, n), may: make([]uint64, n),
	}
	slots := 2*n*n + n
	for p := range n {
		m, err := sys.Member(p)
		if err != nil {
			return nil, err
		}
		if w.members[p] = m; isChooser(m) {
			slots = 2*n*n + n + n*MostOwn
		}
	}
	w.ready = newBag(slots)
	for p := range n {
		if sys.Calls() > 0 {
			w.ready.add(w.slot(Choice{Kind: Enter, P: p}))
		}
		w.updateOwn(p)
	}
	return w, nil
}

// slot returns the number in the bag of a choice: a message, news or a call.
func (w *world) slot(c Choice) int {
	switch c.Kind {
	case Deliver:
		return c.Q*w.n + c.P
	case News:
		return w.n*w.n + c.Q*w.n + c.P
	case Own:
		return 2*w.n*w.n + w.n + c.P*MostOwn + c.Q
	default:
		return 2*w.n*w.n + c.P
	}
}

// choice returns the choice with a number.
func (w *world) choice(slot int) Choice {
	switch square := w.n * w.n; {
	case slot < square:
		return Choice{Kind: Deliver, Q: slot / w.n, P: slot % w.n}
	case slot < 2*square:
		return Choice{Kind: News, Q: (slot - square) / w.n, P: slot % w.n}
	case slot < 2*square+w.n:
		return Choice{Kind: Enter, P: slot - 2*square}
	default:
		slot -= 2*square + w.n
		return Choice{Kind: Own, P: slot / MostOwn, Q: slot % MostOwn}
	}
}

// isDead reports whether member p is dead.
func (w *world) isDead(p int) bool { return w.dead>>p&1 != 0 }

// living returns the number of living members.
func (w *world) living() int {
	n := 0
	for p := range w.n {
		if !w.isDead(p) {
			n++
		}
	}
	return n
}

// can reports whether c may happen now.
func (w *world) can(c Choice) bool {
	switch c.Kind {
	case Enter, Deliver, News, Own:
		return w.ready.has(w.slot(c)) && (!c.Dies || w.left.Deaths > 0 && w.living() > 1)
	case Die:
		return !w.isDead(c.P) && w.left.Deaths > 0 && w.living() > 1
	case Cut:
		return w.isDead(c.Q) && len(w.links[c.Q*w.n+c.P]) > c.Keep
	case Lose:
		return !w.isDead(c.Q) && !w.isDead(c.P) && w.left.Losses > 0 && len(w.links[c.Q*w.n+c.P]) > 0
	case Tick:
		return !w.isDead(c.P) && w.left.Ticks > 0
	case TickAll:
		return w.left.Timeouts > 0 && w.isIdle()
	}
	return false
}

// do lets c happen, which has to be possible, and returns what is wrong then.
func (w *world) do(c Choice) error {
	if w.log != nil { // without the test, the arguments alone would cost time
		w.note("%v", c)
	}
	switch c.Kind {
	case Enter:
		w.ready.remove(w.slot(c))
		w.entered[c.P]++
		return w.apply(c, w.members[c.P].Enter(w.effects[:0]))
	case Deliver:
		return w.deliver(c)
	case News:
		w.ready.remove(w.slot(c))
		w.told[c.P] |= 1 << c.Q
		return w.apply(c, w.members[c.P].PeerFailed(c.Q, w.effects[:0]))
	case Die:
		w.left.Deaths--
		w.kill(c.P)
	case Cut:
		w.cut(c.Q, c.P, c.Keep)
	case Lose:
		w.left.Losses--
		w.faulty = true
		w.pop(c.Q, c.P)
	case Tick:
		w.left.Ticks--
		w.faulty = true
		return w.apply(c, w.members[c.P].Tick(w.effects[:0]))
	case Own:
		return w.apply(c, choose(w.members[c.P], c.Q, w.effects[:0]))
	case TickAll:
		w.left.Timeouts--
		return w.tickAll()
	}
	return nil
}

// tickAll lets all clocks tick.
func (w *world) tickAll() error {
	w.faulty = true
	for p := range w.n {
		if !w.isDead(p) {
			if err := w.apply(Choice{Kind: Tick, P: p}, w.members[p].Tick(w.effects[:0])); err != nil {
				return err
			}
		}
	}
	return nil
}

// deliver delivers a message. It must change nothing if its receiver knows its sender to be dead.
func (w *world) deliver(c Choice) error {
	msg := w.pop(c.Q, c.P)
	m := w.members[c.P]
	if w.told[c.P]>>c.Q&1 == 0 {
		return w.apply(c, m.Recv(c.Q, msg, w.effects[:0]))
	}
	w.before = m.AppendState(w.before[:0])
	w.effects = m.Recv(c.Q, msg, w.effects[:0])
	w.after = m.AppendState(w.after[:0])
	if len(w.effects) > 0 || !bytes.Equal(w.before, w.after) {
		return fmt.Errorf("%w: %v from %d at %d", ErrLate, msg, c.Q, c.P)
	}
	return nil
}

// apply makes the effects of c visible: all of them or, if its member dies, the first c.Keep.
func (w *world) apply(c Choice, effects []Effect) error {
	w.effects = effects
	if c.Dies {
		effects = effects[:min(len(effects), c.Keep)]
	}
	returned := false
	for i := range effects {
		switch e := &effects[i]; {
		case e.Broken != nil:
			return fmt.Errorf("%w: %w", ErrMachine, e.Broken)
		case e.Return:
			returned = true
			w.note("    %d %s", c.P, resultAt{w.members[c.P], w.sys.Calls()})
		default:
			w.send(c.P, e.To, e.Msg)
		}
	}
	w.updateOwn(c.P)
	m := w.members[c.P]
	if m.Returned() == w.entered[c.P] && w.entered[c.P] < w.sys.Calls() {
		w.ready.add(w.slot(Choice{Kind: Enter, P: c.P}))
	}
	if c.Dies {
		w.left.Deaths--
		if !returned && m.Returned() > 0 && dropsReturn(w.effects, len(effects)) {
			w.members[c.P] = nil // no one has seen what it would have returned
		}
		w.kill(c.P)
	}
	if returned {
		if w.isDead(c.P) && w.members[c.P] == nil {
			return nil // nothing remains to be checked
		}
		g := w.group(false)
		g.Who = c.P
		return w.sys.Check(g)
	}
	return nil
}

// updateOwn updates which choices of its own member p has.
func (w *world) updateOwn(p int) {
	has, optional := uint64(0), uint64(0)
	if !w.isDead(p) {
		has, optional = own(w.members[p])
	}
	w.optional += bits.OnesCount64(optional) - bits.OnesCount64(w.may[p])
	w.may[p] = optional
	if had := w.own[p]; has != had {
		for q := range MostOwn {
			switch slot := w.slot(Choice{Kind: Own, P: p, Q: q}); {
			case has>>q&1 == had>>q&1:
			case has>>q&1 != 0:
				w.ready.add(slot)
			default:
				w.ready.remove(slot)
			}
		}
		w.own[p] = has
	}
}

// isIdle reports whether nothing has to happen any more, apart from ticks.
func (w *world) isIdle() bool { return w.ready.len() == w.optional }

// isOptional reports whether the choice with a number is optional.
func (w *world) isOptional(slot int) bool {
	c := w.choice(slot)
	return c.Kind == Own && w.may[c.P]>>c.Q&1 != 0
}

// dropsReturn reports whether a return is among the effects from an index on.
func dropsReturn(effects []Effect, from int) bool {
	for i := from; i < len(effects); i++ {
		if effects[i].Return {
			return true
		}
	}
	return false
}

// resultAt prints the latest result of a member.
type resultAt struct {
	m     Member
	calls int
}

// String returns the result in readable form.
func (r resultAt) String() string { return r.m.Result(r.m.Returned() - 1) }

// send puts a message under way.
func (w *world) send(from, to int, msg Message) {
	w.sent++
	if w.log != nil {
		w.note("    %d -> %d  %v", from, to, msg)
	}
	if w.isDead(to) {
		return
	}
	at := from*w.n + to
	w.links[at] = append(w.links[at], msg)
	w.ready.add(at)
}

// pop removes and returns the first message under way.
func (w *world) pop(from, to int) Message {
	at := from*w.n + to
	msg := w.links[at][0]
	if w.log != nil {
		w.note("    %v", msg)
	}
	if w.links[at] = w.links[at][1:]; len(w.links[at]) == 0 {
		w.links[at] = nil
		w.ready.remove(at)
	}
	return msg
}

// cut loses all but the first messages under way.
func (w *world) cut(from, to, keep int) {
	at := from*w.n + to
	if w.links[at] = w.links[at][:keep]; keep == 0 {
		w.ready.remove(at)
	}
}

// kill lets member p die. Its messages under way stay.
func (w *world) kill(p int) {
	w.note("    %d is dead", p)
	w.dead |= 1 << p
	w.faulty = true
	if w.members[p] != nil {
		w.members[p] = w.members[p].Remains()
	}
	w.ready.remove(w.slot(Choice{Kind: Enter, P: p}))
	w.updateOwn(p)
	for q := range w.n {
		w.links[q*w.n+p] = nil
		w.ready.remove(q*w.n + p)
		w.ready.remove(w.slot(Choice{Kind: News, P: p, Q: q}))
		if !w.isDead(q) {
			w.ready.add(w.slot(Choice{Kind: News, P: q, Q: p}))
		}
	}
}

// group returns the world as Check sees it.
func (w *world) group(final bool) *Group {
	return &Group{Members: w.members, Dead: w.dead, Sent: w.sent, Faultless: !w.faulty, Final: final}
}

// unfinished reports whether a living member has not returned from all calls.
func (w *world) unfinished() bool {
	for p, m := range w.members {
		if !w.isDead(p) && m.Returned() < w.sys.Calls() {
			return true
		}
	}
	return false
}

// note writes to the log.
func (w *world) note(format string, args ...any) {
	if w.log != nil {
		w.log(format, args...)
	}
}

// bag is a set of small numbers from which any can be drawn in one step.
type bag struct {
	list []int32
	at   []int32 // index of each number in list, plus 1; 0: not in the set
}

// newBag makes an empty bag for numbers below n.
func newBag(n int) bag { return bag{at: make([]int32, n)} }

func (b *bag) len() int       { return len(b.list) }
func (b *bag) has(x int) bool { return b.at[x] != 0 }

// add adds x.
func (b *bag) add(x int) {
	if b.at[x] == 0 {
		b.list = append(b.list, int32(x))
		b.at[x] = int32(len(b.list))
	}
}

// remove removes x.
func (b *bag) remove(x int) {
	i := b.at[x]
	if i == 0 {
		return
	}
	last := b.list[len(b.list)-1]
	b.list[i-1], b.at[last] = last, i
	b.list = b.list[:len(b.list)-1]
	b.at[x] = 0
}
