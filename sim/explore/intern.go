package explore

import (
	"fmt"
	"slices"
)

// space gives numbers to all that a search meets: states of members, messages, and the messages under
// way between two members. So a state of the whole system is a few words, and each event at each
// state of a member is computed once.
type space struct {
	sys     System
	members []Member
	ids     map[string]uint32 // numbers of members
	msgs    []Message
	msgIDs  map[string]uint32
	queues  []queue
	next    table[uint32]   // by queue<<32|message: the queue with the message appended
	steps   table[*outcome] // by step.key
	buf     []byte          // room
	effects []Effect        // room
}

// queue is what is under way from one member to another. Queue 0 is empty.
type queue struct {
	list   []uint32
	rest   uint32 // the queue without its first message
	popped bool   // rest is known
}

// step is one event at one state of a member.
type step struct {
	member, msg uint32 // msg is the number of a choice, if kind is Own
	kind        Kind
	from        int
}

// key returns a number that differs for each step and is never 0. There are fewer than 2^25 messages: a
// search with more would not fit into memory.
func (k step) key() uint64 {
	return uint64(k.member)<<32 | uint64(k.msg)<<7 | uint64(k.from)<<4 | uint64(k.kind)
}

// outcome is what a step does.
type outcome struct {
	next, remains uint32
	sends         []sending
	returns       bool
	uniform       bool // what the member has returned counts even if it dies
	err           error
}

// sending is a message and its receiver.
type sending struct {
	to  uint8
	msg uint32
}

// noRemains is a dead member without Remains.
const noRemains = 0

// newSpace makes an empty space.
func newSpace(sys System) *space {
	return &space{
		sys: sys, members: []Member{nil}, ids: map[string]uint32{}, msgs: []Message{nil}, msgIDs: map[string]uint32{},
		queues: []queue{{}},
	}
}

// member returns the number of the state of m, which is member p. Equal states of different members
// have different numbers.
func (s *space) member(m Member, p int) uint32 {
	s.buf = m.AppendState(append(s.buf[:0], byte(p)))
	if id, ok := s.ids[string(s.buf)]; ok {
		return id
	}
	id := uint32(len(s.members))
	s.members = append(s.members, m)
	s.ids[string(s.buf)] = id
	return id
}

// remains returns the number of what remains of m when it is dead.
func (s *space) remains(m Member, p int) uint32 {
	if r := m.Remains(); r != nil {
		return s.member(r, p)
	}
	return noRemains
}

// message returns the number of m.
func (s *space) message(m Message) uint32 {
	s.buf = m.AppendState(s.buf[:0])
	if id, ok := s.msgIDs[string(s.buf)]; ok {
		return id
	}
	id := uint32(len(s.msgs))
	s.msgs = append(s.msgs, m)
	s.msgIDs[string(s.buf)] = id
	return id
}

// push returns queue q with msg appended.
func (s *space) push(q, msg uint32) uint32 {
	key := uint64(q)<<32 | uint64(msg)
	if id := s.next.get(key); id != 0 {
		return id
	}
	id := uint32(len(s.queues))
	old := s.queues[q].list
	s.queues = append(s.queues, queue{list: append(slices.Clip(old), msg)})
	s.next.put(key, id)
	return id
}

// pop returns queue q without its first message.
func (s *space) pop(q uint32) uint32 {
	if it := &s.queues[q]; it.popped {
		return it.rest
	}
	rest := uint32(0)
	for _, msg := range s.queues[q].list[1:] {
		rest = s.push(rest, msg)
	}
	s.queues[q].rest, s.queues[q].popped = rest, true
	return rest
}

// step returns what event k does at member p.
func (s *space) step(p int, k step) *outcome {
	if o := s.steps.get(k.key()); o != nil {
		return o
	}
	m := s.members[k.member].Clone()
	s.effects = s.effects[:0]
	switch k.kind {
	case Enter:
		s.effects = m.Enter(s.effects)
	case Deliver:
		s.effects = m.Recv(k.from, s.msgs[k.msg], s.effects)
	case News:
		s.effects = m.PeerFailed(k.from, s.effects)
	case Own:
		s.effects = choose(m, int(k.msg), s.effects)
	default:
		s.effects = m.Tick(s.effects)
	}
	o := &outcome{}
	for i := range s.effects {
		switch e := &s.effects[i]; {
		case e.Broken != nil:
			o.err = fmt.Errorf("%w: %w", ErrMachine, e.Broken)
		case e.Return:
			o.returns = true
		default:
			o.sends = append(o.sends, sending{uint8(e.To), s.message(e.Msg)})
		}
	}
	o.next = s.member(m, p)
	o.remains = s.remains(m, p)
	o.uniform = o.remains != noRemains
	s.steps.put(k.key(), o)
	return o
}

// isChooser reports whether m may have choices of its own.
func isChooser(m Member) bool {
	_, ok := m.(Chooser)
	return ok
}

// own returns the choices of its own that m has.
func own(m Member) (choices, optional uint64) {
	if c, ok := m.(Chooser); ok {
		return c.Own()
	}
	return 0, 0
}

// choose lets m make a choice of its own, which it has.
func choose(m Member, number int, out []Effect) []Effect {
	if c, ok := m.(Chooser); ok {
		return c.Choose(number, out)
	}
	return append(out, Effect{Broken: fmt.Errorf("%T has no choices of its own", m)})
}

// fingerprint returns 128 bits that stand for a number at a place of a state.
func fingerprint(place int, number uint64) [2]uint64 {
	x := number ^ uint64(place+3)*0x9e3779b97f4a7c15
	return [2]uint64{scatter(x ^ 0x243f6a8885a308d3), scatter(x*0xd6e8feb86659fd93 + 0x13198a2e03707344)}
}

// scatter maps 64 bits to 64 bits, one to one, so that each bit depends on all.
func scatter(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// table is a map from numbers other than 0 to values other than the zero value.
type table[V comparable] struct {
	slots []entry[V]
	count int
}

// entry is a place of a table. Key 0 is a free one.
type entry[V comparable] struct {
	key   uint64
	value V
}

// find returns the entry of key, or the one where it would go. There is always a free one.
func (t *table[V]) find(key uint64) *entry[V] {
	mask := uint64(len(t.slots) - 1)
	for i := scatter(key) & mask; ; i = (i + 1) & mask {
		if e := &t.slots[i]; e.key == key || e.key == 0 {
			return e
		}
	}
}

// get returns the value of key, or the zero value.
func (t *table[V]) get(key uint64) V {
	if t.count == 0 {
		return *new(V)
	}
	return t.find(key).value
}

// put sets the value of a key that the table does not have.
func (t *table[V]) put(key uint64, value V) {
	if 2*t.count >= len(t.slots) {
		old := t.slots
		t.slots = make([]entry[V], max(1<<6, 2*len(old)))
		for _, e := range old {
			if e.key != 0 {
				*t.find(e.key) = e
			}
		}
	}
	*t.find(key) = entry[V]{key, value}
	t.count++
}

// visited is a set of hashes.
type visited struct {
	table [][2]uint64
	count int
}

// add adds h, and reports whether it is new.
func (v *visited) add(h [2]uint64) bool {
	if 4*v.count >= 3*len(v.table) {
		v.grow()
	}
	if !v.put(h) {
		return false
	}
	v.count++
	return true
}

// put does the same. There is room.
func (v *visited) put(h [2]uint64) bool {
	mask := uint64(len(v.table) - 1)
	for i := h[0] & mask; ; i = (i + 1) & mask {
		switch v.table[i] {
		case h:
			return false
		case [2]uint64{}:
			v.table[i] = h
			return true
		}
	}
}

// grow makes room.
func (v *visited) grow() {
	old := v.table
	v.table = make([][2]uint64, max(1<<10, 2*len(old)))
	for _, h := range old {
		if h != [2]uint64{} {
			v.put(h)
		}
	}
}
