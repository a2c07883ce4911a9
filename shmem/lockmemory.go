package shmem

import (
	"errors"
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/rma"
)

// queue checks a lock and returns its queue.
func (l Lock) queue(c *Ctx, op string) (q lockQueue, err error) {
	if !c.own(l.x.tag) {
		return q, c.check(op, l.x.aligned(), lockSlots+1, 0)
	}
	h := c.h
	home := h.job.Map.Segment(int(l.x.off / 64 % uint64(h.npes)))
	m := lockMemory{c: c, home: unsafe.Add(home, int(l.x.off)), off: l.x.off}
	return lockQueue{m: m, me: h.me, ring: lockRing(h.npes)}, nil
}

// lockMemory is the memory of a lock of a world. It asks for a model each time rather
// than being one: a call through an interface takes as long as the instruction it is for.
type lockMemory struct {
	c     *Ctx
	home  unsafe.Pointer // the lock's words there
	off   uint64         // and in every segment
	model lockModel      // nil but in the test that explores the queue
}

func (m *lockMemory) at(p lockPlace) *uint64 {
	base := m.home
	if p.pe >= 0 {
		base = unsafe.Add(m.c.h.job.Map.Segment(p.pe), int(m.off))
	}
	return (*uint64)(unsafe.Add(base, p.word*8))
}

func (m *lockMemory) load(p lockPlace) uint64 {
	if m.model != nil {
		return m.model.load(p)
	}
	return atomic.LoadUint64(m.at(p))
}

func (m *lockMemory) move(p lockPlace, from, to uint64) bool {
	if m.model != nil {
		return m.model.move(p, from, to)
	}
	return atomic.CompareAndSwapUint64(m.at(p), from, to)
}

func (m *lockMemory) store(p lockPlace, v uint64) {
	if m.model != nil {
		m.model.store(p, v)
		return
	}
	rma.StoreRelease(m.at(p), v)
}

func (m *lockMemory) dead(pe int) bool {
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

func (m *lockMemory) ring(pe int) {
	if m.model != nil {
		m.model.ring(pe)
		return
	}
	rma.RingBell(&m.c.h.job.Map.Control(pe).Bell)
}

func (m *lockMemory) wait(g, seen uint64) (uint64, error) {
	if m.model != nil {
		return m.model.wait(g, seen)
	}
	at := unsafe.Pointer(m.at(lockPlace{m.c.h.me, lockGrant}))
	x, err := m.c.h.job.Waiter.Wait(rma.Cond{Addr: at, Val: g, Seen: seen, Width: 8, Cmp: rma.NE}, m.c.ctx)
	if errors.Is(err, rma.ErrFailure) {
		m.c.h.notice()
	}
	return x, err
}
