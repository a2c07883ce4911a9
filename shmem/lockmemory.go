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
	m := lockMemory{c: c, home: unsafe.Add(home, int(l.x.off)), own: c.mine(l.x.off), off: l.x.off}
	return lockQueue{m: m, me: h.me, ring: lockRing(h.npes)}, nil
}

// lockMemory is the memory of a lock of a world. It asks for a model each time rather
// than being one: a call through an interface takes as long as the instruction it is for.
type lockMemory struct {
	c     *Ctx
	home  unsafe.Pointer // the lock's words there
	own   unsafe.Pointer // on this PE
	off   uint64         // and in every segment
	model lockModel      // nil but in the test that explores the queue
}

func lockWord(base unsafe.Pointer, i int) *uint64 { return (*uint64)(unsafe.Add(base, i*8)) }

// grantOf returns where the grant of a PE is.
func (m *lockMemory) grantOf(pe int) *uint64 {
	if m.model != nil {
		return nil
	}
	return lockWord(unsafe.Add(m.c.h.job.Map.Segment(pe), int(m.off)), lockGrant)
}

func (m *lockMemory) load(p lockPlace) uint64 {
	if m.model != nil {
		return m.model.load(p)
	}
	return atomic.LoadUint64(p.at)
}

func (m *lockMemory) move(p lockPlace, from, to uint64) bool {
	if m.model != nil {
		return m.model.move(p, from, to)
	}
	return atomic.CompareAndSwapUint64(p.at, from, to)
}

func (m *lockMemory) store(p lockPlace, v uint64) {
	if m.model != nil {
		m.model.store(p, v)
		return
	}
	rma.StoreRelease(p.at, v)
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
	at := unsafe.Pointer(lockWord(m.own, lockGrant))
	x, err := m.c.h.job.Waiter.Wait(rma.Cond{Addr: at, Val: g, Seen: seen, Width: 8, Cmp: rma.NE}, m.c.ctx)
	if errors.Is(err, rma.ErrFailure) {
		m.c.h.notice()
	}
	return x, err
}
