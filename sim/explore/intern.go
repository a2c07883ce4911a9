package explore

import (
	"fmt"
	"math/bits"
	"slices"
)

// space numbers all that a search meets: states of members, messages and what is
// under way between two members. So a state of the whole is a few words, and each
// event of each state of a member is computed once.
type space struct {
	sys     System
	members []Member
	ids     map[string]uint32
	msgs    []Message
	msgIDs  map[string]uint32
	queues  []queue
	next    map[uint64]uint32 // of queue<<32|message: the queue with the message behind
	steps   map[step]*outcome
	buf     []byte
	effects []Effect
}

// queue is what is under way from one member to another. Number 0 is empty.
type queue struct{ list []uint32 }

// step is one event at one member's state.
type step struct {
	member, msg uint32
	kind, from  uint8
}

// outcome is what a step does.
type outcome struct {
	next, buried uint32
	sends        []sending
	returns      bool
	uniform      bool // somebody remembers what it returned even if it dies
	err          error
}

type sending struct {
	to  uint8
	msg uint32
}

// nobody is a dead member of whom nothing is remembered.
const nobody = 0

func newSpace(sys System) *space {
	return &space{
		sys: sys, members: []Member{nil}, ids: map[string]uint32{}, msgs: []Message{nil}, msgIDs: map[string]uint32{},
		queues: []queue{{}}, next: map[uint64]uint32{}, steps: map[step]*outcome{},
	}
}

// member is the number of m's state. It depends on whose it is.
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

// buried is the number of what is remembered of m when it is dead.
func (s *space) buried(m Member, p int) uint32 {
	if b := m.Buried(); b != nil {
		return s.member(b, p)
	}
	return nobody
}

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

// push is queue q with msg behind.
func (s *space) push(q, msg uint32) uint32 {
	key := uint64(q)<<32 | uint64(msg)
	if id, ok := s.next[key]; ok {
		return id
	}
	id := uint32(len(s.queues))
	old := s.queues[q].list
	s.queues = append(s.queues, queue{append(slices.Clip(old), msg)})
	s.next[key] = id
	return id
}

// pop is queue q without its first message.
func (s *space) pop(q uint32) uint32 {
	rest := uint32(0)
	for _, msg := range s.queues[q].list[1:] {
		rest = s.push(rest, msg)
	}
	return rest
}

// step is what event k does at member p.
func (s *space) step(p int, k step) *outcome {
	if o := s.steps[k]; o != nil {
		return o
	}
	m := s.members[k.member].Clone()
	s.effects = s.effects[:0]
	switch Kind(k.kind) {
	case Enter:
		s.effects = m.Enter(s.effects)
	case Deliver:
		s.effects = m.Recv(int(k.from), s.msgs[k.msg], s.effects)
	case News:
		s.effects = m.PeerFailed(int(k.from), s.effects)
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
	o.buried = s.buried(m, p)
	o.uniform = o.buried != nobody
	s.steps[k] = o
	return o
}

// hash is 128 bits of a state's words.
func hash(words []uint32) [2]uint64 {
	a, b := uint64(0x243f6a8885a308d3), uint64(0x13198a2e03707344)
	for i := 0; i < len(words); i += 2 {
		x := uint64(words[i])
		if i+1 < len(words) {
			x |= uint64(words[i+1]) << 32
		}
		hi, lo := bits.Mul64(a^x, 0x9e3779b97f4a7c15)
		a = bits.RotateLeft64(hi^lo, 23) + x
		hi, lo = bits.Mul64(b^x, 0xd6e8feb86659fd93)
		b = bits.RotateLeft64(hi+lo, 41) ^ x
	}
	return [2]uint64{mix(a, 0xa4093822299f31d1), mix(b, 0x082efa98ec4e6c89) | 1} // never 0
}

// visited is a set of hashes.
type visited struct {
	table [][2]uint64
	count int
}

// add says whether h is new.
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

func (v *visited) grow() {
	old := v.table
	v.table = make([][2]uint64, max(1<<10, 2*len(old)))
	for _, h := range old {
		if h != [2]uint64{} {
			v.put(h)
		}
	}
}
