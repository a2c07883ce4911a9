package shmem

import (
	"errors"
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// open checks a lock and makes q its queue, field by field where q lies: a queue that is
// copied is read in larger parts than it was just written in, and the processor waits
// until it has left the store buffer.
func (l Lock) open(q *lockQueue, c *Ctx, op string) error {
	if !c.own(l.x.tag) {
		return c.check(op, l.x.aligned(), lockSlots+1, 0)
	}
	h, off := c.h, int(l.x.off)
	m := h.job.Map
	q.m.c, q.m.off = c, off
	q.m.home, q.m.own = unsafe.Add(h.segment(l.home), off), unsafe.Add(m.Segment(h.job.Local), off)
	q.me, q.ring = h.me, lockRing(h.npes)
	return nil
}

// lockHome returns the PE that has the queue of a lock at an offset. Locks tend to lie a
// power of two apart, and so do not take turns by the offset itself.
func lockHome(off uint64, npes int) layout.PE {
	return layout.PE(off / 64 * golden >> 32 * uint64(npes) >> 32)
}

// lockMemory is the memory of a lock of a world. Words are accessed where they lie, in
// a test as well, which is told before each access: that costs a comparison, where a call
// through an interface takes as long as the instruction it is for.
type lockMemory struct {
	c     *Ctx
	home  unsafe.Pointer // the lock's words there
	own   unsafe.Pointer // on this PE
	off   int            // and in every segment
	model lockModel      // nil but in the test that explores the queue
}

func lockWord(base unsafe.Pointer, i int) *uint64 { return (*uint64)(unsafe.Add(base, i*8)) }

// grantOf returns where the grant of a PE is.
func (m *lockMemory) grantOf(pe layout.PE) *uint64 {
	if m.model != nil {
		return m.model.grantOf(pe)
	}
	return lockWord(unsafe.Add(m.c.h.segment(pe), m.off), lockGrant)
}

func (m *lockMemory) load(p *uint64) uint64 {
	if m.model != nil {
		m.model.load(p)
	}
	return atomic.LoadUint64(p)
}

func (m *lockMemory) move(p *uint64, from, to uint64) bool {
	if m.model != nil {
		m.model.move(p, from, to)
	}
	return atomic.CompareAndSwapUint64(p, from, to)
}

func (m *lockMemory) store(p *uint64, v uint64) {
	if m.model != nil {
		m.model.store(p, v)
	}
	rma.StoreRelease(p, v)
}

func (m *lockMemory) dead(pe layout.PE) bool {
	if m.model != nil {
		return m.model.dead(pe)
	}
	return m.c.h.dead(pe)
}

func (m *lockMemory) epoch() uint64 {
	if m.model != nil {
		return m.model.epoch()
	}
	return m.c.h.job.Failures.Epoch()
}

func (m *lockMemory) ring(pe layout.PE) {
	if m.model != nil {
		m.model.ring(pe)
		return
	}
	h := m.c.h
	rma.RingBell(&h.job.Map.Control(h.job.Place.NearLocal(pe)).Bell)
}

func (m *lockMemory) wait(g, seen uint64) (uint64, error) {
	if m.model != nil {
		return m.model.wait(g, seen)
	}
	at := unsafe.Pointer(lockWord(m.own, lockGrant))
	x, err := m.c.h.job.Waiter.Wait(&wait.Cond{Addr: at, Val: g, Seen: seen, Width: 8, Cmp: wait.NE, Peer: wait.AwaitsLock}, m.c.ctx)
	if errors.Is(err, wait.ErrFailure) {
		m.c.h.notice()
	}
	return x, err
}

// lockHolder returns the PE that has a lock, by the address of this PE's grant of it; -1 if
// nobody has it. It is for reports: the lock may change hands meanwhile.
func (h *heap) lockHolder(grant uintptr) layout.PE {
	off := grant - uintptr(h.job.Map.Segment(h.job.Local)) - lockGrant*8
	home := unsafe.Add(h.segment(lockHome(uint64(off), h.npes)), int(off))
	q := lockQueue{m: lockMemory{home: home}, ring: lockRing(h.npes)}
	head := q.m.load(q.head())
	if slot := q.m.load(q.slot(ticketOf(head))); filled(slot, ticketOf(head)) {
		return peOf(slot)
	}
	return -1
}
