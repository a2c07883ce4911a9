package shmem

import (
	"errors"
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/internal/far"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// openQueue checks a lock and makes q its queue. It writes q in place, field by field. A copied queue would be read
// in larger parts than it was just written in, and the processor would stall until the writes have left the store
// buffer.
func (l Lock) openQueue(q *lockQueue, c *Ctx, op string) error {
	if !c.passesHere(l.words.tag) {
		return c.check(op, l.words.alignedRef(), lockSlots+1, 0)
	}
	h, off := c.h, int(l.words.off)
	m := h.job.Map
	q.mem.c, q.mem.off, q.mem.homePE = c, off, l.home
	q.mem.home, q.mem.own = h.lockBase(l.home, off), unsafe.Add(m.Segment(h.job.Local), off)
	q.me, q.slotCount = h.me, lockSlotCount(h.npes)
	return nil
}

// lockBase returns the address of a lock's words on a PE, or nil if the PE is on another node.
func (h *heap) lockBase(pe layout.PE, off int) unsafe.Pointer {
	local, near := h.job.Place.Local(pe)
	if !near {
		return nil
	}
	return unsafe.Add(h.job.Map.Segment(local), off)
}

// lockHome returns the PE that has the queue of the lock at an offset. It hashes the offset: locks tend to lie a
// power of two apart, so the offset itself would give many of them one home.
func lockHome(off uint64, npes int) layout.PE {
	return layout.PE(off / 64 * golden >> 32 * uint64(npes) >> 32)
}

// lockMemory is the access to the words of a lock.
//
// A call accesses the words of near PEs in place, in the exploring test as well, whose model is called before each
// access. Without a model that costs a comparison. A call through an interface would take as long as the instruction
// that it stands for.
//
// Words of PEs on other nodes are accessed by operations of package far, in the order of the calls: each access is over
// before the next one begins. An access that has failed sets err. Loads are then 0, and nothing is changed any more. So
// every loop ends when err is set.
type lockMemory struct {
	c      *Ctx
	home   unsafe.Pointer // the lock's words on its home PE; nil if that is on another node
	own    unsafe.Pointer // the lock's words on this PE
	off    int            // of the lock's words in every segment
	homePE layout.PE
	err    error
	model  lockModel // nil, except in the test that explores the queue
}

// lockWord is a word of a lock.
type lockWord struct {
	at *uint64   // nil: the word is on another node
	pe layout.PE // if at is nil: the PE that has the word
	i  int       // if at is nil: which one
}

// wordOf returns word i of a lock whose words on PE pe begin at base.
func wordOf(base unsafe.Pointer, pe layout.PE, i int) lockWord {
	if base == nil {
		return lockWord{pe: pe, i: i}
	}
	return lockWord{at: (*uint64)(unsafe.Add(base, i*8))}
}

// grantOf returns a PE's grant word.
func (m *lockMemory) grantOf(pe layout.PE) lockWord {
	if m.model != nil {
		return lockWord{at: m.model.grantOf(pe)}
	}
	return wordOf(m.c.h.lockBase(pe, m.off), pe, lockGrant)
}

// load loads a word with sequential consistency.
func (m *lockMemory) load(w lockWord) uint64 {
	if m.model != nil {
		m.model.load(w.at)
	}
	if w.at == nil {
		return m.fetch(w, record.AtomicLoad, 0, 0)
	}
	return atomic.LoadUint64(w.at)
}

// cas is an atomic compare-and-swap.
func (m *lockMemory) cas(w lockWord, from, to uint64) bool {
	if m.model != nil {
		m.model.cas(w.at, from, to)
	}
	if w.at == nil {
		return m.fetch(w, record.AtomicCompareSwap, to, from) == from && m.err == nil
	}
	return atomic.CompareAndSwapUint64(w.at, from, to)
}

// store stores a word that only this PE accesses, with release order.
func (m *lockMemory) store(w lockWord, v uint64) {
	if m.model != nil {
		m.model.store(w.at, v)
	}
	rma.StoreRelease(w.at, v)
}

// fetch is an atomic operation on a word of another node. The end of the context's With does not end it, as the queue
// would not know whether the word was changed.
func (m *lockMemory) fetch(w lockWord, code record.AtomicCode, operand, cond uint64) (old uint64) {
	if m.err == nil {
		old, m.err = m.c.h.far.Fetch(nil, &m.c.shared.touched, w.pe, uint64(m.off+w.i*8), code, 8, operand, cond) //nolint:staticcheck // nil: no context ends the wait
	}
	return old
}

// checkHome sets err in a job of several nodes if the home is known to be dead. PEs of its node could go on with the
// queue, which is in memory. But a PE of another node that holds the lock can never release it.
func (m *lockMemory) checkHome() {
	if m.model == nil && m.c.h.far != nil && m.err == nil && m.c.h.isDead(m.homePE) {
		m.err = &far.DeadError{PE: m.homePE}
	}
}

// forgiveDeath reports whether an access has failed because a PE has died, and forgets that.
func (m *lockMemory) forgiveDeath(pe layout.PE) bool {
	dead, is := errors.AsType[*far.DeadError](m.err)
	if !is || dead.PE != pe || pe == m.homePE {
		return false
	}
	m.err = nil
	return true
}

// isDead reports whether a PE is known to be dead.
func (m *lockMemory) isDead(pe layout.PE) bool {
	if m.model != nil {
		return m.model.isDead(pe)
	}
	return m.c.h.isDead(pe)
}

// epoch returns the epoch of the deaths that isDead knows.
func (m *lockMemory) epoch() uint64 {
	if m.model != nil {
		return m.model.epoch()
	}
	return m.c.h.job.Failures.Epoch()
}

// ringBell wakes a PE if it sleeps.
func (m *lockMemory) ringBell(pe layout.PE) {
	if m.model != nil {
		m.model.ringBell(pe)
		return
	}
	h := m.c.h
	if local, near := h.job.Place.Local(pe); near { // the agent of another node rings after each atomic operation
		rma.RingBell(&h.job.Map.Control(local).Bell)
	}
}

// awaitGrant returns this PE's grant word once it is not g. A death after epoch seen ends the wait with
// wait.ErrFailure.
func (m *lockMemory) awaitGrant(g, seen uint64) (uint64, error) {
	if m.model != nil {
		return m.model.awaitGrant(g, seen)
	}
	at := unsafe.Add(m.own, lockGrant*8)
	x, err := m.c.h.job.Waiter.Wait(&wait.Cond{Addr: at, Val: g, Seen: seen, Width: 8, Cmp: wait.NE, Peer: wait.AwaitsLock}, m.c.ctx)
	if errors.Is(err, wait.ErrFailure) {
		m.c.h.alertLayers()
	}
	return x, err
}

// lockHolder returns the PE that holds a lock, or -1 if none does. The lock is given by the address of this PE's
// grant word. The answer is for reports: the lock may change hands meanwhile. It is -1 as well if the lock's home is on
// another node, as a report must not wait for that.
func (h *heap) lockHolder(grant uintptr) layout.PE {
	off := grant - uintptr(h.job.Map.Segment(h.job.Local)) - lockGrant*8
	home := h.lockBase(lockHome(uint64(off), h.npes), int(off))
	if home == nil {
		return -1
	}
	q := lockQueue{mem: lockMemory{home: home}, slotCount: lockSlotCount(h.npes)}
	head := q.mem.load(q.head())
	if slot := q.mem.load(q.slot(ticketOf(head))); holdsTicket(slot, ticketOf(head)) {
		return peOf(slot)
	}
	return -1
}
