package shmem

import (
	"errors"
	"math/bits"

	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/symheap/layout"
)

// The queue of a lock is a ring of slots on the lock's home PE. Who comes takes the
// next ticket and the slot that belongs to it; the lock is held by the PE in the slot
// of the ticket that is served, and free if nobody is there. One word, head, says which
// ticket that is, and every change of it is one compare-and-swap: so there is one
// holder, whenever and wherever PEs die, and whoever finds the queue halfway through a
// change can complete it. Nothing that others need is in a PE's own memory.
//
//	home PE    word 0       tail: the next ticket. May lag behind the slots, by those whose
//	                        PE was about to move it; whoever comes next moves it.
//	           word 8       head: the ticket that is served, and in the low half of whom
//	                        its holder has to learn that he died holding the lock.
//	           word 24...   slots: of ticket t, number t mod their number: t+1, the PE that
//	                        has it, and two flags: it has left; it will be passed over.
//	each PE    word 16      grant: written by others, a copy of a head that served this PE,
//	                        with t+1. It is what the PE waits on, so that it is woken
//	                        alone; it proves nothing but that head was there.
//	           word 17      state, and 18 the ticket, for this PE alone.
//
// All words of the queue are accessed by sequentially consistent instructions. All
// orders of these accesses of a few PEs, with deaths anywhere, are explored by a test.
//
// To come: compare-and-swap of the slot at tail from what an earlier ticket left there,
// then of tail, then a look at head. To release: compare-and-swap of head, then a look at
// the slot of the new head, and a grant to the PE in it. So of one who releases and the
// next who comes, at least one sees the other.
//
// There are as many slots as PEs or more, and a PE has at most one ticket that head has
// not passed. So the slot of the ticket at tail is never one of those still waiting.
//
// To leave: set the flag left in the slot, then look at head. If it is served by then,
// it is passed over: set the flag passed over, and move head. He who left and comes again
// clears the flag left, if that of passing over is not set: each is a compare-and-swap of
// the whole slot, so that he has his place back or is passed over. Only the ticket that is
// served is passed over, so that the flag is never set where the queue stands still.
//
// The dead: whoever finds that the PE at head is dead moves head, with its number, to the
// next that is alive; the dead between them are jumped, as they held nothing. Everybody
// who waits does so after each death (settle), which wakes all, and everybody who comes
// when there was one. That repairs also what a PE left undone that died behind its change
// of head: the grant.
//
// A grant that is late does no harm: it is written only if the word did not change since
// before a look at head that found it as it was granted. For if that PE waits with a
// later ticket now, then either its grant is not written, and will be, over this one; or
// the word has changed.

// The words of a lock.
const (
	lockTail   = 0
	lockHead   = 8
	lockGrant  = 16
	lockState  = 17
	lockTicket = 18
	lockSlots  = 24
)

// Tickets are counted modulo 2^40, above a PE's number and the flags.
const (
	ticketShift = 24
	ticketMask  = 1<<40 - 1
	lockLeft    = 1 << 0 // its PE does not wait any more
	lockPassed  = 1 << 1 // it will not be served: head is on its way
	lockFlags   = lockLeft | lockPassed
)

// The states of a PE towards a lock.
const (
	lockIdle = iota // has no ticket
	lockBusy        // a call is under way
	lockHeld
	lockGone // has a ticket, or had, and does not wait
)

// lockWords returns the number of words of a lock in a job of npes PEs.
func lockWords(npes int) int { return lockSlots + lockRing(npes) }

// lockRing returns the number of slots: a power of two, as tickets begin again at 0.
func lockRing(npes int) int { return 1 << bits.Len(uint(max(npes, 1)-1)) }

// lockModel is what a test has of a queue: it is told of each access to a word before
// that is made, and is all else of the world outside.
type lockModel interface {
	load(p *uint64)
	move(p *uint64, from, to uint64) // compare-and-swap
	store(p *uint64, v uint64)       // with release order, to a word that no other PE accesses
	grantOf(pe layout.PE) *uint64
	dead(pe layout.PE) bool
	epoch() uint64                                 // of the failures that dead knows
	wait(g, seen uint64) (grant uint64, err error) // as wait.Waiter.Wait, until this PE's grant is not g
	ring(pe layout.PE)
}

// lockQueue is the queue of a lock as one call sees it.
type lockQueue struct {
	m    lockMemory
	me   layout.PE // this PE
	ring int       // number of slots
}

func (q *lockQueue) tail() *uint64 { return lockWord(q.m.home, lockTail) }

func (q *lockQueue) head() *uint64 { return lockWord(q.m.home, lockHead) }

// slot returns the slot of a ticket.
func (q *lockQueue) slot(t uint64) *uint64 {
	return lockWord(q.m.home, lockSlots+int(t)&(q.ring-1))
}

// own returns a word of this PE.
func (q *lockQueue) own(i int) *uint64 { return lockWord(q.m.own, i) }

// pack makes a word of a ticket and a PE, -1 for none.
func pack(t uint64, pe layout.PE) uint64 { return t<<ticketShift | uint64(pe+1)<<2 }

// ticketOf and peOf take it apart.
func ticketOf(w uint64) uint64 { return w >> ticketShift }
func peOf(w uint64) layout.PE  { return layout.PE(w&(1<<ticketShift-1)>>2) - 1 }

// after returns the ticket behind t.
func after(t uint64) uint64 { return (t + 1) & ticketMask }

// filled says whether the word of a slot has ticket t in it.
func filled(slot, t uint64) bool { return ticketOf(slot) == after(t) }

// acquire returns when this PE holds the lock, with the PE that died in it, or -1. It is
// false if it holds it already, or a call of it is under way.
func (q *lockQueue) acquire() (died layout.PE, ok bool, err error) {
	t, ok := q.enter()
	if !ok {
		return -1, false, nil
	}
	if died, err = q.wait(t); err != nil {
		q.leave(t)
		return -1, true, err
	}
	q.hold(t)
	return died, true, nil
}

// hold makes this PE, whose ticket is served, one that may release.
func (q *lockQueue) hold(t uint64) {
	q.m.store(q.own(lockTicket), t)
	q.m.store(q.own(lockState), lockHeld)
}

// enter gives this PE a ticket, or the one back that it has left. It is false if it holds
// the lock, or a call of it is under way.
func (q *lockQueue) enter() (t uint64, ok bool) {
	switch {
	case q.m.move(q.own(lockState), lockIdle, lockBusy):
	case q.m.move(q.own(lockState), lockGone, lockBusy):
		t = q.m.load(q.own(lockTicket))
		mine := pack(after(t), q.me)
		if q.m.move(q.slot(t), mine|lockLeft, mine) {
			return t, true
		}
		q.pass(t)
	default:
		return 0, false
	}
	return q.draw(), true
}

// draw takes the ticket at tail.
func (q *lockQueue) draw() uint64 {
	for {
		t := q.m.load(q.tail())
		p := q.slot(t)
		s := q.m.load(p)
		switch {
		case q.m.load(q.tail()) != t: // what is in the slot may be of a later ticket
		case filled(s, t):
			q.m.move(q.tail(), t, after(t))
		case q.m.move(p, s, pack(after(t), q.me)):
			q.m.move(q.tail(), t, after(t))
			return t
		}
	}
}

// pass returns when head has passed ticket t of this PE, which is being passed over.
func (q *lockQueue) pass(t uint64) {
	for ticketOf(q.m.load(q.head())) == t {
		q.settle()
	}
}

// wait returns when ticket t of this PE is served, and the PE that died before it in
// the lock, or -1.
func (q *lockQueue) wait(t uint64) (died layout.PE, err error) {
	for {
		seen := q.m.epoch()             // of all up to here settle knows
		g := q.m.load(q.own(lockGrant)) // a grant that is written later wakes, an earlier one is seen at head
		head := q.m.load(q.head())
		if ticketOf(head) != t && seen != 0 {
			q.settle()
			head = q.m.load(q.head())
		}
		if ticketOf(head) == t {
			return peOf(head), nil
		}
		g, err = q.m.wait(g, seen)
		switch {
		case err == nil && filled(g, t):
			return peOf(g), nil
		case err != nil && !errors.Is(err, wait.ErrFailure):
			return -1, err
		}
	}
}

// leave gives up ticket t.
func (q *lockQueue) leave(t uint64) {
	mine := pack(after(t), q.me)
	q.m.move(q.slot(t), mine, mine|lockLeft) // nobody else writes it while it is so
	q.settle()
	q.m.store(q.own(lockTicket), t)
	q.m.store(q.own(lockState), lockGone)
}

// try is acquire if nobody holds the lock, and otherwise false.
func (q *lockQueue) try() (died layout.PE, ok bool) {
	switch {
	case q.m.move(q.own(lockState), lockIdle, lockBusy):
	case q.m.move(q.own(lockState), lockGone, lockBusy):
		q.settle()
		t := q.m.load(q.own(lockTicket))
		if q.m.load(q.slot(t)) == pack(after(t), q.me)|lockLeft { // others are before it
			q.m.store(q.own(lockState), lockGone)
			return -1, false
		}
		q.pass(t)
	default:
		return -1, false
	}
	for {
		head := q.m.load(q.head())
		t := ticketOf(head)
		p := q.slot(t)
		s := q.m.load(p)
		switch {
		case q.m.load(q.head()) != head: // what is in the slot may be of a later ticket
		case filled(s, t) && (s&lockFlags != 0 || q.m.dead(peOf(s))):
			q.settle()
		case filled(s, t):
			q.m.store(q.own(lockState), lockIdle)
			return -1, false
		case q.m.move(p, s, pack(after(t), q.me)):
			q.m.move(q.tail(), t, after(t))
			q.hold(t)
			return peOf(head), true
		}
	}
}

// release serves the next. It is false if this PE does not hold the lock.
func (q *lockQueue) release() bool {
	if !q.m.move(q.own(lockState), lockHeld, lockBusy) {
		return false
	}
	q.advance(q.m.load(q.head()), -1)
	q.settle()
	q.m.store(q.own(lockState), lockIdle)
	return true
}

// advance moves head from a word whose ticket is done with to the next, past the dead
// that wait there, and tells its holder who has died in the lock, unless -1.
func (q *lockQueue) advance(head uint64, died layout.PE) {
	t := after(ticketOf(head))
	for {
		s := q.m.load(q.slot(t))
		if !filled(s, t) || s&lockFlags != 0 || !q.m.dead(peOf(s)) {
			break
		}
		t = after(t)
	}
	q.m.move(q.head(), head, pack(t, died))
}

// settle moves head on to a PE that waits or holds, if there is one, and grants it the
// lock, again perhaps.
func (q *lockQueue) settle() {
	for {
		head := q.m.load(q.head())
		t := ticketOf(head)
		p := q.slot(t)
		s := q.m.load(p)
		switch {
		case q.m.load(q.head()) != head:
		case !filled(s, t):
			return
		case s&lockPassed != 0:
			q.advance(head, peOf(head))
		case s&lockLeft != 0:
			q.m.move(p, s, s|lockPassed)
		case q.m.dead(peOf(s)):
			q.advance(head, peOf(s))
		default:
			q.grant(head, peOf(s))
			return
		}
	}
}

// grant tells a PE that head has come to it.
func (q *lockQueue) grant(head uint64, pe layout.PE) {
	if pe == q.me {
		return // it looks itself
	}
	p := q.m.grantOf(pe)
	word := pack(after(ticketOf(head)), peOf(head))
	for {
		g := q.m.load(p)
		if g == word || q.m.load(q.head()) != head {
			return
		}
		if q.m.move(p, g, word) {
			q.m.ring(pe)
			return
		}
	}
}
