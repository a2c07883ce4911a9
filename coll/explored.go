//go:build explore

package coll

import (
	"context"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/reach"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// The functions here stand for this package's accesses to shared memory in a build for
// exploration. Package internal/weave puts their names into the sources; nothing else calls
// them. Without an Explorer they do what the sources say.

// Explorer runs members of teams one at a time. Each of its methods may stop the caller and
// let others run, or end the caller as a death does.
type Explorer interface {
	Point()                                                // before the caller accesses memory
	Barrier()                                              // what the caller has stored is seen by all
	Release(p *uint64, v uint64)                           // a store that may be seen later
	Load(p *uint64) uint64                                 // sees what the caller has stored
	Ring(b *layout.Bell)                                   // wakes a sleeper
	Epoch() uint64                                         // as failure.View.Epoch
	Dead(pe int) bool                                      // as failure.View.Dead
	Failure(pe int) (failure.Failure, bool)                // as failure.View.Failure
	Wait(ctx context.Context, c wait.Cond) (uint64, error) // as wait.Waiter.Wait
	Reach() (stranger bool, err error)                     // of an access to the private memory of the other member of two
	Processor() uint32                                     // as rma.Processor
}

// Explored takes part in the accesses of this package, nil: nobody does.
var Explored Explorer

// ForgetTeams forgets the teams and areas that members of an earlier run have left.
func ForgetTeams() { ids.released, areas.reductions, areas.broadcasts = nil, nil, nil }

// TakeArea lends this member's area, as a reduction of another team does.
func (t *Team) TakeArea() bool { return area{t}.claim() }

// ReturnArea gives it back, when nobody looks at it.
func (t *Team) ReturnArea() { delete(areas.reductions, t.members[t.me]) }

func exploredPoint() { exploredLocked() }

func exploredLoad(p *uint64) uint64 {
	if Explored == nil {
		return atomic.LoadUint64(p)
	}
	Explored.Point()
	return Explored.Load(p)
}

func exploredRelease(p *uint64, v uint64) {
	if Explored == nil {
		rma.StoreRelease(p, v)
		return
	}
	Explored.Point()
	Explored.Release(p, v)
}

// exploredLocked is what a sequentially consistent access begins with.
func exploredLocked() {
	if Explored != nil {
		Explored.Point()
		Explored.Barrier()
	}
}

func exploredStore(p *uint64, v uint64) {
	exploredLocked()
	atomic.StoreUint64(p, v)
}

func exploredSwap(p *uint64, v uint64) uint64 {
	exploredLocked()
	return atomic.SwapUint64(p, v)
}

func exploredOr(p *uint64, v uint64) uint64 {
	exploredLocked()
	return atomic.OrUint64(p, v)
}

func exploredRing(b *layout.Bell) {
	if Explored == nil {
		rma.RingBell(b)
		return
	}
	Explored.Point()
	Explored.Ring(b)
}

func exploredWait(w *wait.Waiter, c *wait.Cond, ctx context.Context) (uint64, error) { //nolint:revive // as wait.Waiter.Wait
	if Explored == nil {
		return w.Wait(c, ctx)
	}
	Explored.Point()
	return Explored.Wait(ctx, *c)
}

func exploredProcessor() uint32 {
	if Explored == nil {
		return rma.Processor()
	}
	return Explored.Processor()
}

func exploredEpoch(v *failure.View) uint64 {
	if Explored == nil {
		return v.Epoch()
	}
	Explored.Point()
	return Explored.Epoch()
}

func exploredDead(v *failure.View, pe int, incarnation uint32) bool {
	if Explored == nil {
		return v.Dead(pe, incarnation)
	}
	Explored.Point()
	return Explored.Dead(pe)
}

func exploredFailure(v *failure.View, pe int) (failure.Failure, bool) {
	if Explored == nil {
		return v.Failure(pe)
	}
	Explored.Point()
	return Explored.Failure(pe)
}

// exploredRead reads what a process holds that has got the number of a dead one, if the explorer says so.
func exploredRead(p reach.Process, dst unsafe.Pointer, src uint64, n int) error {
	if Explored == nil {
		return p.Read(dst, src, n)
	}
	Explored.Point()
	stranger, err := Explored.Reach()
	if stranger {
		for i := range n {
			*(*byte)(unsafe.Add(dst, i)) = 0xee
		}
	}
	if stranger || err != nil {
		return err
	}
	return p.Read(dst, src, n)
}

func exploredWrite(p reach.Process, dst uint64, src unsafe.Pointer, n int) error {
	if Explored == nil {
		return p.Write(dst, src, n)
	}
	Explored.Point()
	if stranger, err := Explored.Reach(); stranger || err != nil {
		return err
	}
	return p.Write(dst, src, n)
}

// exploredLock locks nothing in an exploration, as members are processes there, which do
// not share what it guards.
func exploredLock(m *sync.Mutex) {
	if Explored == nil {
		m.Lock()
		return
	}
	Explored.Point()
}

func exploredUnlock(m *sync.Mutex) {
	if Explored == nil {
		m.Unlock()
	}
}
