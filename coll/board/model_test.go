package board

import (
	"errors"
	"fmt"
	"math/bits"
)

// The model is what package coll does with shared memory, one access after the other,
// on the decisions of this package. A state is all of the memory and where each
// member is; members move in any order, die between any two moves, and are published
// at any time afterwards.

const (
	most     = 5 // members
	elements = 5 // of a large reduction: each is a piece, so owners have several
	ops      = 4
	poison   = 1 << 15 // what a program may leave in a source behind a collective
)

// The kinds of collectives.
const (
	exchange  = iota // beside the arrival words: all read all
	broadcast        // member 0 to all, through its slot
	broadcast1
	reduction // a large one, in place
	agreement
)

// The places in a collective.
const (
	rest    = iota
	taking  // waits until its slot is free
	writing // its slot
	entering
	ringing
	meeting // waits for who enters the step
	reading // slots
	folding // a piece into its log
	saying  // that the piece is there
	pushing
	pushed
	making // what the dead left undone
	installing
)

// at is where a member is.
type at struct {
	op, pc, seq, to uint8 // to: the step that it enters or waits for
	next            uint8 // whom it waits for
	known           uint8 // deaths
	in              uint8 // who has entered to, of those before next
	first           uint8 // contributors
	wrote           [4]uint8
	piece, target   uint8
	asleep          bool
	short           uint8 // more by 1 than the word before it slept
	aside           [elements]uint16
}

// slot is what somebody has written for a step.
type slot struct{ step, epoch uint8 }

// state is everything.
type state struct {
	word   [most]uint8
	slots  [most][4]slot          // two on the line of the arrival word behind the others
	data   [most][elements]uint16 // source and destination
	log    [most]uint16
	said   [most]uint8
	dead   uint8
	epoch  uint8       // publications
	when   [most]uint8 // the epoch in which each was published; 0: it is not
	at     [most]at
	deaths uint8      // that may come still
	who    [ops]uint8 // contributors of each collective as the first to return found them, and returned
	failed [ops]uint8
}

const returned = 1 << 7

// rules are the protocol, or one with a mistake.
type rules struct {
	free     func(c *Cells, seq uint64, p Place) uint64
	recover  func(word uint64, piece int) Means
	makeFrom func(first, second uint8) uint8 // contributors of what is made again
	present  func(known, in uint8) uint8
	failed   func(epoch, known uint8, when *[most]uint8) uint8
	// stale: see old. saysFirst: logged before it is. saysPushed: pushed before it is. blind: who
	// enters does not look for deaths. hasty: what was made aside is put into place at
	// once. early: and that is the end.
	stale, saysFirst, saysPushed, blind, hasty, early bool
}

func right() rules {
	return rules{
		free:     func(c *Cells, seq uint64, p Place) uint64 { return c.Occupy(seq, p) },
		recover:  Recover,
		makeFrom: func(first, _ uint8) uint8 { return first },
		present:  func(_, in uint8) uint8 { return in },
		failed: func(epoch, _ uint8, when *[most]uint8) (f uint8) {
			for i, w := range when {
				if w != 0 && w <= epoch {
					f |= 1 << i
				}
			}
			return f
		},
	}
}

// model is a scenario.
type model struct {
	rules
	n    int
	prog []uint8
}

// place returns where a contribution to a step goes, and its index in slots.
func (m *model) place(a *at) (Place, uint8) {
	if m.prog[a.op] == exchange {
		return OnLine, 2 + a.seq&1
	}
	return InSlot, a.seq & 1
}

func (m *model) all() uint8 { return 1<<m.n - 1 }

func (m *model) published(s *state) (p uint8) {
	for i, w := range s.when {
		if w != 0 {
			p |= 1 << i
		}
	}
	return p
}

// begin starts member p's next collective.
func (m *model) begin(s *state, p int) {
	a := &s.at[p]
	a.known = m.published(s)
	a.seq++
	a.to, a.first = a.seq, 0
	kind := m.prog[a.op]
	switch {
	case kind == reduction:
		s.said[p] = 0
		for k := range s.data[p] {
			s.data[p][k] = 1 << (3 * p)
		}
		a.pc = entering
	case kind == broadcast && p != 0, kind == broadcast1 && p != 1:
		a.pc = entering
	default:
		var c Cells
		for i, w := range a.wrote {
			if w > 0 {
				c.Occupy(uint64(w), [...]Place{InSlot, OnLine}[i/2])
			}
		}
		place, cell := m.place(a)
		a.wrote[cell] = a.seq
		a.pc, a.to = taking, uint8(m.free(&c, uint64(a.seq), place))
		a.next, a.in = 0, 0
		if a.to == 0 { // nobody can see when it is written
			s.slots[p][cell] = slot{a.seq, s.epoch}
			a.pc, a.to = entering, a.seq
		}
	}
}

// step makes member p's next access. It returns false if p can do nothing.
func (m *model) step(s *state, p int) (moved bool, err error) {
	a := &s.at[p]
	switch a.pc {
	case rest:
		if int(a.op) == len(m.prog) {
			return false, nil
		}
		m.begin(s, p)
	case taking, meeting:
		return m.wait(s, p)
	case writing:
		_, cell := m.place(a)
		s.slots[p][cell] = slot{a.seq, s.epoch}
		a.pc, a.to = entering, a.seq
	case entering:
		s.word[p] = a.to
		a.pc = ringing
	case ringing:
		m.ring(s, p)
	case reading:
		return true, m.read(s, p)
	case folding, saying, pushing, pushed:
		m.push(s, p)
	case making:
		m.make(s, p)
	case installing:
		m.install(s, p)
		return true, m.leave(s, p, a.first)
	}
	return true, nil
}

// ring is what follows a store to the arrival word.
func (m *model) ring(s *state, p int) {
	a := &s.at[p]
	kind := m.prog[a.op]
	if !m.blind {
		a.known = m.published(s)
	}
	complete := kind == broadcast && p == 0 || kind == broadcast1 && p == 1
	if !complete {
		complete = true
		for i := range m.n {
			complete = complete && (s.word[i] >= a.to || a.known>>i&1 != 0)
		}
	}
	if complete {
		for i := range m.n {
			s.at[i].asleep = false
		}
	}
	a.pc, a.next, a.in = meeting, 0, 0
}

// wait is a member's wait for all, or for a broadcast's root: to the next look that
// decides nothing.
func (m *model) wait(s *state, p int) (moved bool, err error) {
	a := &s.at[p]
	if a.asleep {
		return false, nil
	}
	for m.old(s, p); !m.settled(s, p); {
		i := int(a.next)
		w := Wait{Seq: uint64(a.to)}
		w.SetWord(uint64(s.word[i]))
		if w.Next() == News {
			w.SetDead(a.known>>i&1 != 0)
		}
		if w.Next() == Word {
			w.SetWord(uint64(s.word[i]))
		}
		if w.Next() == Sleep {
			m.sleep(s, p)
			return true, nil
		}
		if w.Verdict() == Entered {
			a.in |= 1 << i
		}
		a.next++
	}
	m.met(s, p)
	return true, nil
}

// sleep is a look at the page and, if there are no news, sleep.
func (m *model) sleep(s *state, p int) {
	a := &s.at[p]
	if news := m.published(s); news != a.known {
		a.known = news
		return
	}
	if a.asleep = true; m.stale {
		a.short = s.word[a.next] + 1
	}
}

// old is a mistake: the death of whom a member has waited for ends that by the word
// that it saw before it slept.
func (m *model) old(s *state, p int) {
	a := &s.at[p]
	if a.short > 0 && a.short <= a.to && m.published(s)>>a.next&1 != 0 {
		a.known = m.published(s)
		a.next++
	}
	a.short = 0
}

// settled says whether there is nobody left to wait for.
func (m *model) settled(s *state, p int) bool {
	a := &s.at[p]
	if a.pc == meeting {
		root := -1
		switch m.prog[a.op] {
		case broadcast:
			root = 0
		case broadcast1:
			root = 1
		}
		if root == p {
			return true
		}
		if root >= 0 {
			if int(a.next) < root {
				a.next = uint8(root)
			}
			return int(a.next) > root
		}
	}
	return int(a.next) == m.n
}

// met is what follows a wait.
func (m *model) met(s *state, p int) {
	a := &s.at[p]
	switch {
	case a.pc == taking:
		a.pc = writing
	case m.prog[a.op] != reduction:
		a.pc = reading
	case a.first == 0:
		a.first = m.present(a.known, a.in)
		a.piece = 0
		m.nextPiece(p, a)
	case a.to == a.seq+1 && a.in&a.first != a.first:
		a.pc = making
	case a.to == a.seq+1:
		a.seq++
		a.pc = reading
	default:
		a.seq += 2
		a.pc = installing
	}
}

// share returns the pieces of the contributor i.
func share(who uint8, i int) (lo, hi int) {
	return Share(elements, bits.OnesCount8(who), bits.OnesCount8(who&(1<<i-1)))
}

// nextPiece goes to the next piece, or to the step behind the last.
func (m *model) nextPiece(p int, a *at) {
	if lo, hi := share(a.first, p); lo+int(a.piece) < hi {
		if a.pc = folding; m.saysFirst {
			a.pc = saying
		}
		return
	}
	a.pc, a.to = entering, a.seq+1
}

func (s *state) sum(who uint8, k int) (v uint16) {
	for i := range s.data {
		if who>>i&1 != 0 {
			v += s.data[i][k]
		}
	}
	return v
}

func (m *model) push(s *state, p int) {
	a := &s.at[p]
	lo, _ := share(a.first, p)
	k := lo + int(a.piece)
	switch a.pc {
	case folding:
		s.log[p] = s.sum(a.first, k)
		a.target = 0
		if a.pc = saying; m.saysFirst {
			a.pc = pushing
		}
	case saying:
		s.said[p] = uint8(Logged(int(a.piece)))
		if m.saysPushed {
			s.said[p] = uint8(Pushed(int(a.piece)))
		}
		a.target = 0
		if a.pc = pushing; m.saysFirst {
			a.pc = folding
		}
	case pushing:
		for a.first>>a.target&1 == 0 {
			a.target++
		}
		s.data[a.target][k] = s.log[p]
		if a.target++; a.first>>a.target == 0 {
			a.pc = pushed
		}
	case pushed:
		s.said[p] = uint8(Pushed(int(a.piece)))
		a.piece++
		m.nextPiece(p, a)
	}
}

// make makes aside all that is missing.
func (m *model) make(s *state, p int) {
	a := &s.at[p]
	for i := range m.n {
		if a.first>>i&1 == 0 || a.in>>i&1 != 0 {
			continue
		}
		lo, hi := share(a.first, i)
		for k := lo; k < hi; k++ {
			switch m.recover(uint64(s.said[i]), k-lo) {
			case Log:
				a.aside[k] = s.log[i]
			case Make:
				a.aside[k] = s.sum(m.makeFrom(a.first, a.in), k)
			default:
			}
		}
	}
	if m.hasty {
		m.install(s, p)
	}
	if a.pc, a.to = entering, a.seq+2; m.early {
		a.seq += 2
		s.word[p], a.pc = a.seq, installing
	}
}

func (m *model) install(s *state, p int) {
	for k, v := range s.at[p].aside {
		if v != 0 {
			s.data[p][k] = v
		}
	}
}

// read takes the result and returns.
func (m *model) read(s *state, p int) error {
	a := &s.at[p]
	kind := m.prog[a.op]
	if kind == reduction {
		return m.leave(s, p, a.first)
	}
	who := m.present(a.known, a.in)
	var epoch, failed uint8
	switch {
	case kind == broadcast && p == 0, kind == broadcast1 && p == 1:
		who = 1 << p
	case kind == exchange || kind == agreement:
		failed = m.all() &^ who
	}
	_, cell := m.place(a)
	for i := range m.n {
		if who>>i&1 != 0 {
			if got := s.slots[i][cell]; got.step != a.seq {
				return fmt.Errorf("member %d in step %d reads what member %d wrote for step %d", p, a.seq, i, got.step)
			}
			epoch = max(epoch, s.slots[i][cell].epoch)
		}
	}
	if kind == agreement {
		failed |= m.failed(epoch, a.known, &s.when)
		if old := s.failed[a.op]; old != 0 && old != failed|returned {
			return fmt.Errorf("member %d returns that %05b have died, another one %05b", p, failed, old&^returned)
		}
		s.failed[a.op] = failed | returned
	}
	return m.leave(s, p, who)
}

// leave returns from a collective, and checks P2 to P4 for whoever returns, also if it
// dies afterwards.
func (m *model) leave(s *state, p int, who uint8) error {
	a := &s.at[p]
	kind := m.prog[a.op]
	if old := s.who[a.op]; old != 0 && old != who|returned {
		return fmt.Errorf("member %d returns contributors %05b, another one %05b", p, who, old&^returned)
	}
	s.who[a.op] = who | returned
	if kind != broadcast && kind != broadcast1 && who>>p&1 == 0 {
		return fmt.Errorf("member %d is none of the contributors %05b", p, who)
	}
	if kind == reduction {
		var want uint16
		for i := range m.n {
			want += uint16(who>>i&1) << (3 * i)
		}
		for k, v := range s.data[p] {
			if v != want {
				return fmt.Errorf("member %d has %o in element %d, want %o", p, v, k, want)
			}
			s.data[p][k] = poison
		}
	}
	*a = at{op: a.op + 1, seq: a.seq, known: a.known, wrote: a.wrote}
	return nil
}

// errHang reports that nobody can move and somebody has not returned: P1.
var errHang = errors.New("somebody waits for ever")

// final checks a state in which nobody moves any more.
func (m *model) final(s *state) error {
	for p := range m.n {
		if s.dead>>p&1 == 0 && (int(s.at[p].op) != len(m.prog) || s.at[p].pc != rest) {
			return fmt.Errorf("%w: member %d", errHang, p)
		}
	}
	for c, kind := range m.prog {
		living := m.all() &^ s.dead
		if who := s.who[c] &^ returned; kind != broadcast && kind != broadcast1 && living&^who != 0 {
			return fmt.Errorf("collective %d is of %05b, alive are %05b", c, who, living)
		}
	}
	return nil
}
