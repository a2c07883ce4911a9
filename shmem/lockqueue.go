package shmem

import (
	"errors"
	"math/bits"

	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/symheap/layout"
)

// The queue of a lock is a ring of slots on the lock's home PE. A PE that comes takes the next ticket, and the slot
// of that ticket. The word head says which ticket is served. The PE in the slot of that ticket holds the lock; if the
// slot has no PE, the lock is free.
//
//	home PE    word 0       tail: the next ticket. May lag behind the slots, by PEs that have
//	                        filled a slot and not yet moved tail. The next PE to come moves it.
//	           word 8       head: the ticket that is served. Its low half names the previous
//	                        holder if that died holding the lock.
//	           word 24...   slots: ticket t has slot t mod their number. The word is t+1, the PE,
//	                        and two flags: left (its PE does not wait any more) and passed
//	                        (head will pass it over).
//	each PE    word 16      grant: a copy of head from when it reached a ticket of this PE, with
//	                        t+1. Other PEs write it, and this PE waits on it, so that it is
//	                        woken alone. It proves only that head had that value.
//	           word 17      state, which only this PE accesses
//	           word 18      ticket, which only this PE accesses
//
// # One holder
//
// Every change of head is one compare-and-swap. So there is one holder at any time, whichever PEs die, and any PE
// that finds the queue half changed can complete the change. Nothing that other PEs need is in a PE's own memory.
//
// All words of the queue are accessed by sequentially consistent instructions. A test explores all orders of these
// accesses of a few PEs, with deaths anywhere.
//
// # To come and to release
//
//	come       compare-and-swap the slot at tail, from what an earlier ticket left there;
//	           compare-and-swap tail; read head
//	release    compare-and-swap head; read the slot of the new head; grant to the PE in it
//
// Both sides write first, and then read. So of a PE that releases and the next PE that comes, at least one sees the
// other.
//
// There are at least as many slots as PEs, and a PE has at most one ticket that head has not passed. So the slot at
// tail never belongs to a ticket that still waits.
//
// # To leave
//
// A PE that leaves sets the flag left in its slot, and then reads head. If head is at its ticket, it sets the flag
// passed, and moves head on. Otherwise the PE that moves head to the ticket later does so. A PE that left and comes
// again clears the flag left, unless passed is set. Each of these is a compare-and-swap of the whole slot, so
// exactly one wins: the PE has its place back, or it is passed over. passed is set only on the ticket that is
// served, so head is about to move over a ticket that has it.
//
// # Deaths
//
// A PE that finds the PE at head dead moves head to the next ticket whose PE is alive, and puts the dead holder's
// number into head. It skips the dead PEs between, which held nothing.
//
// Every waiting PE does so after each death, which wakes all of them (serveHead). So does every PE that comes after
// there was a death. This also repairs what a PE left undone that died right after it moved head: the grant.
//
// # A late grant
//
// A grant that is written late does no harm. It is a compare-and-swap of the grant word from the value that the word
// had before a look that found head still at the granted ticket. Suppose that the PE waits with a later ticket now.
// Then head has reached that ticket or will.
//
//   - If the grant of the later ticket was written before, the word has changed, and the late grant fails.
//   - If not, it will be written over the late one.

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
	lockLeft    = 1 << 0 // the PE does not wait any more
	lockPassed  = 1 << 1 // the ticket will not be served: head is about to move on
	lockFlags   = lockLeft | lockPassed
)

// The states of a PE towards a lock.
const (
	lockIdle = iota // it has no ticket
	lockBusy        // a call of it is under way
	lockHeld        // it holds the lock
	lockGone        // it left the queue; its ticket may have been passed over since
)

// lockWords returns the number of words of a lock in a job of npes PEs.
func lockWords(npes int) int { return lockSlots + lockSlotCount(npes) }

// lockSlotCount returns the number of slots in a job of npes PEs. It is a power of two, which divides the number of
// tickets: so slots keep their order when tickets wrap around.
func lockSlotCount(npes int) int { return 1 << bits.Len(uint(max(npes, 1)-1)) }

// lockModel replaces the world around a queue in the exploring test. It is called before each access to a word.
type lockModel interface {
	load(p *uint64)
	cas(p *uint64, from, to uint64) // compare-and-swap
	store(p *uint64, v uint64)      // with release order, of a word that no other PE accesses
	grantOf(pe layout.PE) *uint64
	isDead(pe layout.PE) bool
	epoch() uint64                                       // of the deaths that isDead knows
	awaitGrant(g, seen uint64) (grant uint64, err error) // as lockMemory.awaitGrant
	ringBell(pe layout.PE)
}

// lockQueue is the queue of a lock, as one call uses it.
type lockQueue struct {
	mem       lockMemory
	me        layout.PE // this PE
	slotCount int
}

// tail and head return these words.
func (q *lockQueue) tail() lockWord { return wordOf(q.mem.home, q.mem.homePE, lockTail) }
func (q *lockQueue) head() lockWord { return wordOf(q.mem.home, q.mem.homePE, lockHead) }

// slot returns a ticket's slot.
func (q *lockQueue) slot(t uint64) lockWord {
	return wordOf(q.mem.home, q.mem.homePE, lockSlots+int(t)&(q.slotCount-1))
}

// ownWord returns one of this PE's own words.
func (q *lockQueue) ownWord(i int) lockWord { return wordOf(q.mem.own, q.me, i) }

// packWord makes a word of a ticket and a PE, -1 for no PE.
func packWord(t uint64, pe layout.PE) uint64 { return t<<ticketShift | uint64(pe+1)<<2 }

// ticketOf and peOf return the ticket and the PE of a word.
func ticketOf(w uint64) uint64 { return w >> ticketShift }
func peOf(w uint64) layout.PE  { return layout.PE(w&(1<<ticketShift-1)>>2) - 1 }

// ticketAfter returns the ticket after t.
func ticketAfter(t uint64) uint64 { return (t + 1) & ticketMask }

// holdsTicket reports whether the word of a slot has ticket t in it.
func holdsTicket(slot, t uint64) bool { return ticketOf(slot) == ticketAfter(t) }

// acquire returns when this PE holds the lock. died is the previous holder if that died holding the lock, otherwise
// -1. ok is false if this PE already holds the lock, or another call of it is under way.
func (q *lockQueue) acquire() (died layout.PE, ok bool, err error) {
	t, ok := q.takeTicket()
	if !ok {
		return -1, false, nil
	}
	if died, err = q.awaitHead(t); err != nil {
		q.giveUpTicket(t)
	}
	if q.mem.err != nil {
		return -1, true, q.lose()
	}
	if err != nil {
		return -1, true, err
	}
	q.recordHold(t)
	return died, true, nil
}

// lose returns the error of an access to a word on another node. The queue is lost then; a later call finds that anew.
func (q *lockQueue) lose() error {
	q.mem.store(q.ownWord(lockState), lockIdle)
	return q.mem.err
}

// recordHold notes in this PE's own words that it holds the lock, with ticket t.
func (q *lockQueue) recordHold(t uint64) {
	q.mem.store(q.ownWord(lockTicket), t)
	q.mem.store(q.ownWord(lockState), lockHeld)
}

// takeTicket gives this PE the ticket that it left the queue with, if that was not passed over, or a new one. ok is
// false if this PE holds the lock, or another call of it is under way.
func (q *lockQueue) takeTicket() (t uint64, ok bool) {
	switch {
	case q.mem.cas(q.ownWord(lockState), lockIdle, lockBusy):
	case q.mem.cas(q.ownWord(lockState), lockGone, lockBusy):
		t = q.mem.load(q.ownWord(lockTicket))
		mine := packWord(ticketAfter(t), q.me)
		if q.mem.cas(q.slot(t), mine|lockLeft, mine) {
			return t, true
		}
		q.awaitPassing(t)
	default:
		return 0, false
	}
	return q.drawTicket(), true
}

// drawTicket takes the ticket at tail.
func (q *lockQueue) drawTicket() uint64 {
	for q.mem.err == nil {
		t := q.mem.load(q.tail())
		p := q.slot(t)
		s := q.mem.load(p)
		switch {
		case q.mem.load(q.tail()) != t: // the slot may already belong to a later ticket
		case holdsTicket(s, t):
			q.mem.cas(q.tail(), t, ticketAfter(t))
		case q.mem.cas(p, s, packWord(ticketAfter(t), q.me)):
			q.mem.cas(q.tail(), t, ticketAfter(t))
			return t
		}
	}
	return 0
}

// awaitPassing returns when head has passed ticket t of this PE, which has the flag passed or will never be served.
func (q *lockQueue) awaitPassing(t uint64) {
	for ticketOf(q.mem.load(q.head())) == t && q.mem.err == nil {
		q.serveHead()
	}
}

// awaitHead returns when ticket t of this PE is served. died is the previous holder if that died holding the lock,
// otherwise -1.
func (q *lockQueue) awaitHead(t uint64) (died layout.PE, err error) {
	for {
		seen := q.mem.epoch()                 // serveHead below knows all deaths up to this epoch
		g := q.mem.load(q.ownWord(lockGrant)) // read before head: a later grant wakes this PE, an earlier one shows at head
		head := q.mem.load(q.head())
		if ticketOf(head) != t && seen != 0 {
			q.mem.checkHome()
			q.serveHead()
			head = q.mem.load(q.head())
		}
		if q.mem.err != nil {
			return -1, q.mem.err
		}
		if ticketOf(head) == t {
			return peOf(head), nil
		}
		g, err = q.mem.awaitGrant(g, seen)
		switch {
		case err == nil && holdsTicket(g, t):
			return peOf(g), nil
		case err != nil && !errors.Is(err, wait.ErrFailure):
			return -1, err
		}
	}
}

// giveUpTicket leaves the queue with ticket t.
func (q *lockQueue) giveUpTicket(t uint64) {
	mine := packWord(ticketAfter(t), q.me)
	q.mem.cas(q.slot(t), mine, mine|lockLeft) // cannot fail: no other PE changes the slot before it has the flag left
	q.serveHead()
	q.mem.store(q.ownWord(lockTicket), t)
	q.mem.store(q.ownWord(lockState), lockGone)
}

// try is acquire if nobody holds the lock. Otherwise it returns false. The caller looks at q.mem.err.
func (q *lockQueue) try() (died layout.PE, ok bool) {
	switch {
	case q.mem.cas(q.ownWord(lockState), lockIdle, lockBusy):
	case q.mem.cas(q.ownWord(lockState), lockGone, lockBusy):
		q.serveHead()
		t := q.mem.load(q.ownWord(lockTicket))
		if q.mem.load(q.slot(t)) == packWord(ticketAfter(t), q.me)|lockLeft { // head has not reached it: another PE has the lock
			q.mem.store(q.ownWord(lockState), lockGone)
			return -1, false
		}
		q.awaitPassing(t)
	default:
		return -1, false
	}
	for q.mem.err == nil {
		head := q.mem.load(q.head())
		t := ticketOf(head)
		p := q.slot(t)
		s := q.mem.load(p)
		switch {
		case q.mem.load(q.head()) != head: // the slot may already belong to a later ticket
		case holdsTicket(s, t) && (s&lockFlags != 0 || q.mem.isDead(peOf(s))):
			q.serveHead()
		case holdsTicket(s, t):
			q.mem.store(q.ownWord(lockState), lockIdle)
			return -1, false
		case q.mem.cas(p, s, packWord(ticketAfter(t), q.me)):
			q.mem.cas(q.tail(), t, ticketAfter(t))
			q.recordHold(t)
			return peOf(head), true
		}
	}
	return -1, false
}

// release gives the lock to the next PE. It returns false if this PE does not hold the lock. The caller looks at
// q.mem.err.
func (q *lockQueue) release() bool {
	if !q.mem.cas(q.ownWord(lockState), lockHeld, lockBusy) {
		return false
	}
	q.advanceHead(q.mem.load(q.head()), -1)
	q.serveHead()
	q.mem.store(q.ownWord(lockState), lockIdle)
	return true
}

// advanceHead moves head from the word head, whose ticket is done, to the next ticket. It skips dead PEs that waited.
// died is the previous holder if that died holding the lock, otherwise -1: the next holder learns it from head.
func (q *lockQueue) advanceHead(head uint64, died layout.PE) {
	t := ticketAfter(ticketOf(head))
	for q.mem.err == nil {
		s := q.mem.load(q.slot(t))
		if !holdsTicket(s, t) || s&lockFlags != 0 || !q.mem.isDead(peOf(s)) {
			break
		}
		t = ticketAfter(t)
	}
	q.mem.cas(q.head(), head, packWord(t, died))
}

// serveHead moves head on to the first ticket whose PE is alive and has not left, if there is one, and grants the
// lock to that PE. It repeats a grant that was made before.
func (q *lockQueue) serveHead() {
	for q.mem.err == nil {
		head := q.mem.load(q.head())
		t := ticketOf(head)
		p := q.slot(t)
		s := q.mem.load(p)
		switch {
		case q.mem.load(q.head()) != head:
		case !holdsTicket(s, t):
			return
		case s&lockPassed != 0:
			q.advanceHead(head, peOf(head))
		case s&lockLeft != 0:
			q.mem.cas(p, s, s|lockPassed)
		case q.mem.isDead(peOf(s)):
			q.advanceHead(head, peOf(s))
		default:
			q.grantLock(head, peOf(s))
			return
		}
	}
}

// grantLock tells a PE that the word head serves its ticket.
func (q *lockQueue) grantLock(head uint64, pe layout.PE) {
	if pe == q.me {
		return // this PE reads head itself
	}
	p := q.mem.grantOf(pe)
	word := packWord(ticketAfter(ticketOf(head)), peOf(head))
	for {
		g := q.mem.load(p)
		if q.mem.err != nil {
			q.mem.forgiveDeath(pe) // its death wakes a PE that serves the head again
			return
		}
		if g == word || q.mem.load(q.head()) != head {
			return
		}
		if q.mem.cas(p, g, word) {
			q.mem.ringBell(pe)
			return
		}
	}
}
