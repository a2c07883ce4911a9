package board

import (
	"errors"
	"fmt"
	"math/bits"
)

// The model does what package coll does with shared memory, one access after the other, with the
// decisions of this package. A state is all of the memory and the position of each member. Members
// move in any order, die between any two moves, and their deaths are published at any later time.

const (
	maxMembers = 5 // members
	elements   = 5 // of a large reduction: each element is a piece, so owners have several
	ops        = 4
	poison     = 1 << 15 // what a program may write into a source after a collective
)

// The kinds of collectives.
const (
	exchange  = iota // next to the arrival words: all members read all
	broadcast        // from member 0 to all, through its slot
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
	meeting // waits for members to enter the step
	reading // slots
	folding // a piece into its log
	saying  // that the piece is there
	pushing
	pushed
	making // makes what the dead left undone
	installing
)

// at is the position of a member.
type at struct {
	op, pc, seq, to uint8 // to: the step that it enters or waits for
	next            uint8 // the member it waits for
	known           uint8 // deaths
	in              uint8 // the members before next that have entered to
	first           uint8 // contributors
	wrote           [4]uint8
	piece, target   uint8
	asleep          bool
	short           uint8 // 1 plus the word that it saw before it slept
	aside           [elements]uint16
}

// slot names the step for which a slot was written.
type slot struct{ step, epoch uint8 }

// state is all of the memory and all positions.
type state struct {
	word   [maxMembers]uint8
	slots  [maxMembers][4]slot          // the last two are on the line of the arrival word
	data   [maxMembers][elements]uint16 // source and destination
	log    [maxMembers]uint16
	said   [maxMembers]uint8
	dead   uint8
	epoch  uint8             // publications
	when   [maxMembers]uint8 // the epoch in which each death was published; 0: not published
	at     [maxMembers]at
	deaths uint8      // deaths that may still happen
	who    [ops]uint8 // the contributors of each collective, as the first member to return found them, and the returned mark
	failed [ops]uint8
}

const returned = 1 << 7

// rules are those of the protocol, or those with one mistake.
type rules struct {
	free     func(c *Cells, seq uint64, p Place) uint64
	recover  func(word uint64, piece int) Means
	makeFrom func(first, second uint8) uint8 // the contributors to what is made again
	present  func(known, in uint8) uint8
	failed   func(epoch, known uint8, when *[maxMembers]uint8) uint8
	// Mistakes. stale: see sleepStale. saysFirst: a piece is called logged before it is.
	// saysPushed: a piece is called pushed before it is. blind: a member that enters does not look
	// for deaths. hasty: what was made aside is installed at once. early: and the collective ends
	// there.
	stale, saysFirst, saysPushed, blind, hasty, early bool
}

func correctRules() rules {
	return rules{
		free:     func(c *Cells, seq uint64, p Place) uint64 { return c.Occupy(seq, p) },
		recover:  Recover,
		makeFrom: func(first, _ uint8) uint8 { return first },
		present:  func(_, in uint8) uint8 { return in },
		failed: func(epoch, _ uint8, when *[maxMembers]uint8) (f uint8) {
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
		if a.to == 0 { // no other member can see when it is written
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

// ring does what follows a store to the arrival word.
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

// wait continues a member's wait for all members, or for the root of a broadcast, up to the next
// look that decides nothing.
func (m *model) wait(s *state, p int) (moved bool, err error) {
	a := &s.at[p]
	if a.asleep {
		return false, nil
	}
	for m.applyStale(s, p); !m.doneWaiting(s, p); {
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
	m.afterWait(s, p)
	return true, nil
}

// sleep looks at the failure page and sleeps if there is no news.
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

// applyStale is a mistake: the death of the awaited member ends the wait with the word that was
// read before the sleep.
func (m *model) applyStale(s *state, p int) {
	a := &s.at[p]
	if a.short > 0 && a.short <= a.to && m.published(s)>>a.next&1 != 0 {
		a.known = m.published(s)
		a.next++
	}
	a.short = 0
}

// doneWaiting reports whether there is no member left to wait for.
func (m *model) doneWaiting(s *state, p int) bool {
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

// afterWait does what follows a wait.
func (m *model) afterWait(s *state, p int) {
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

// share returns the pieces of contributor i.
func share(who uint8, i int) (lo, hi int) {
	return Share(elements, bits.OnesCount8(who), bits.OnesCount8(who&(1<<i-1)))
}

// nextPiece goes on to the next piece, or to the step after the last one.
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

// make makes all missing pieces aside.
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

// read reads the result and returns.
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
			return fmt.Errorf("member %d returns failed %05b, another one %05b", p, failed, old&^returned)
		}
		s.failed[a.op] = failed | returned
	}
	return m.leave(s, p, who)
}

// leave returns from a collective. It checks P2 to P4 for each member that returns, even if it
// dies afterwards.
func (m *model) leave(s *state, p int, who uint8) error {
	a := &s.at[p]
	kind := m.prog[a.op]
	if old := s.who[a.op]; old != 0 && old != who|returned {
		return fmt.Errorf("member %d returns contributors %05b, another one %05b", p, who, old&^returned)
	}
	s.who[a.op] = who | returned
	if kind != broadcast && kind != broadcast1 && who>>p&1 == 0 {
		return fmt.Errorf("member %d is not among the contributors %05b", p, who)
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

// errHang reports a violation of P1: no member can move, and one has not returned.
var errHang = errors.New("a member waits forever")

// final checks a state in which no member can move.
func (m *model) final(s *state) error {
	for p := range m.n {
		if s.dead>>p&1 == 0 && (int(s.at[p].op) != len(m.prog) || s.at[p].pc != rest) {
			return fmt.Errorf("%w: member %d", errHang, p)
		}
	}
	for c, kind := range m.prog {
		living := m.all() &^ s.dead
		if who := s.who[c] &^ returned; kind != broadcast && kind != broadcast1 && living&^who != 0 {
			return fmt.Errorf("collective %d has the contributors %05b, but %05b are alive", c, who, living)
		}
	}
	return nil
}
