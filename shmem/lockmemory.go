package shmem

import (
	"errors"
	"sync/atomic"
	"unsafe"

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
	q.mem.c, q.mem.off = c, off
	q.mem.home, q.mem.own = unsafe.Add(h.segment(l.home), off), unsafe.Add(m.Segment(h.job.Local), off)
	q.me, q.slotCount = h.me, lockSlotCount(h.npes)
	return nil
}

// lockHome returns the PE that has the queue of the lock at an offset. It hashes the offset: locks tend to lie a
// power of two apart, so the offset itself would give many of them one home.
func lockHome(off uint64, npes int) layout.PE {
	return layout.PE(off / 64 * golden >> 32 * uint64(npes) >> 32)
}

// lockMemory is the access to the words of a lock.
//
// A call accesses the words in place, in the exploring test as well, whose model is called before each access.
// Without a model that costs a comparison. A call through an interface would take as long as the instruction that it
// stands for.
type lockMemory struct {
	c     *Ctx
	home  unsafe.Pointer // the lock's words on its home PE
	own   unsafe.Pointer // the lock's words on this PE
	off   int            // of the lock's words in every segment
	model lockModel      // nil, except in the test that explores the queue
}

// lockWord returns the address of word i of a lock whose words begin at base.
func lockWord(base unsafe.Pointer, i int) *uint64 { return (*uint64)(unsafe.Add(base, i*8)) }

// grantOf returns the address of a PE's grant word.
func (m *lockMemory) grantOf(pe layout.PE) *uint64 {
	if m.model != nil {
		return m.model.grantOf(pe)
	}
	return lockWord(unsafe.Add(m.c.h.segment(pe), m.off), lockGrant)
}

// load loads a word with sequential consistency.
func (m *lockMemory) load(p *uint64) uint64 {
	if m.model != nil {
		m.model.load(p)
	}
	return atomic.LoadUint64(p)
}

// cas is an atomic compare-and-swap.
func (m *lockMemory) cas(p *uint64, from, to uint64) bool {
	if m.model != nil {
		m.model.cas(p, from, to)
	}
	return atomic.CompareAndSwapUint64(p, from, to)
}

// store stores a word that only this PE accesses, with release order.
func (m *lockMemory) store(p *uint64, v uint64) {
	if m.model != nil {
		m.model.store(p, v)
	}
	rma.StoreRelease(p, v)
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
	rma.RingBell(&h.job.Map.Control(h.job.Place.NearLocal(pe)).Bell)
}

// awaitGrant returns this PE's grant word once it is not g. A death after epoch seen ends the wait with
// wait.ErrFailure.
func (m *lockMemory) awaitGrant(g, seen uint64) (uint64, error) {
	if m.model != nil {
		return m.model.awaitGrant(g, seen)
	}
	at := unsafe.Pointer(lockWord(m.own, lockGrant))
	x, err := m.c.h.job.Waiter.Wait(&wait.Cond{Addr: at, Val: g, Seen: seen, Width: 8, Cmp: wait.NE, Peer: wait.AwaitsLock}, m.c.ctx)
	if errors.Is(err, wait.ErrFailure) {
		m.c.h.alertLayers()
	}
	return x, err
}

// lockHolder returns the PE that holds a lock, or -1 if none does. The lock is given by the address of this PE's
// grant word. The answer is for reports: the lock may change hands meanwhile.
func (h *heap) lockHolder(grant uintptr) layout.PE {
	off := grant - uintptr(h.job.Map.Segment(h.job.Local)) - lockGrant*8
	home := unsafe.Add(h.segment(lockHome(uint64(off), h.npes)), int(off))
	q := lockQueue{mem: lockMemory{home: home}, slotCount: lockSlotCount(h.npes)}
	head := q.mem.load(q.head())
	if slot := q.mem.load(q.slot(ticketOf(head))); holdsTicket(slot, ticketOf(head)) {
		return peOf(slot)
	}
	return -1
}
