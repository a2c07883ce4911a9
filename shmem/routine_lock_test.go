package shmem_test

import (
	"testing"

	"github.com/goshmem/goshmem/shmem"
)

var _ = routine("shmem_set_lock", func(t *testing.T, w *shmem.World) {
	c, l := w.Ctx(), must(shmem.NewLock(w))(t)
	x := must(shmem.Calloc[int64](w, 4))(t)
	g := counted{x.At(0), x.At(1), 0}
	const rounds = 20
	for range rounds {
		acquire(t, l, c)
		g.change(t, c)
		ok(t, l.Release(c))
	}
	ok(t, w.Barrier())
	index(t, "changes", int(must(shmem.G(c, g.n, 0))(t)), rounds*w.NPEs())
	refused(t, l.Release(c), shmem.ErrLockNotHeld)
	ok(t, w.Barrier())
	come, turn := x.At(2), x.At(3)
	if w.MyPE() == 0 { // all others wait while it holds the lock, and get it in turn
		acquire(t, l, c)
		for pe := 1; pe < w.NPEs(); pe++ {
			queued(t, w, l, pe)
			ok(t, shmem.AtomicSet(c, come, 1, pe))
		}
		queued(t, w, l, w.NPEs())
		index(t, "PEs that passed the holder", int(must(shmem.AtomicFetch(c, turn, 0))(t)), 0)
		ok(t, l.Release(c))
	} else {
		ok(t, shmem.WaitUntil(c, come, shmem.EQ, 1))
		acquire(t, l, c)
		index(t, "turn", int(must(shmem.AtomicFetchInc(c, turn, 0))(t)), w.MyPE()-1)
		ok(t, l.Release(c))
	}
	ok(t, w.Barrier())
	released(t, w, x)
	ok(t, l.Free(w))
})

var _ = routine("shmem_test_lock", func(t *testing.T, w *shmem.World) {
	c, l := w.Ctx(), must(shmem.NewLock(w))(t)
	won := must(shmem.Calloc[int64](w, 1))(t) // on PE 0
	if try(t, l, c) {                         // nobody gives it back: one has it
		ok(t, shmem.AtomicInc(c, won, 0))
		yes(t, "Try by the holder", try(t, l, c), false)
		ok(t, w.Barrier())
		ok(t, l.Release(c))
	} else {
		ok(t, w.Barrier())
	}
	ok(t, w.Barrier())
	index(t, "PEs that got the lock", int(must(shmem.AtomicFetch(c, won, 0))(t)), 1)
	for pe := range w.NPEs() {
		if pe == w.MyPE() { // it is free for each in turn
			yes(t, "Try", try(t, l, c), true)
			ok(t, l.Release(c))
		}
		ok(t, w.Barrier())
	}
	released(t, w, won)
	ok(t, l.Free(w))
})

var _ = routine("shmem_clear_lock", func(t *testing.T, w *shmem.World) {
	c, l, me, n := w.Ctx(), must(shmem.NewLock(w))(t), w.MyPE(), w.NPEs()
	x := must(shmem.Calloc[int64](w, 100))(t)
	refused(t, l.Release(c), shmem.ErrLockNotHeld)
	ok(t, w.Barrier())
	for round := range int64(5) { // what was put under the lock is there for the next
		acquire(t, l, c)
		for pe := range n {
			seen, next := make([]int64, 100), make([]int64, 100)
			ok(t, shmem.Get(c, seen, x, pe))
			for i, v := range seen {
				if v != seen[0] {
					t.Fatalf("round %d: element %d is %d, the first %d: not all was put", round, i, v, seen[0])
				}
				next[i] = v + 1
			}
			ok(t, shmem.PutNBI(c, x, next, pe))
		}
		ok(t, l.Release(c))
		refused(t, l.Release(c), shmem.ErrLockNotHeld)
	}
	ok(t, w.Barrier())
	index(t, "rounds of all", int(x.Local()[99]), 5*n)
	index(t, "PEs in the queue", shmem.Queued(w, l), 0)
	ok(t, w.Barrier())
	if me == n-1 { // it wakes who sleeps
		acquire(t, l, c)
		for pe := range n - 1 {
			asleep(t, w, pe)
		}
		queued(t, w, l, n)
		ok(t, l.Release(c))
	} else {
		queued(t, w, l, me+1)
		acquire(t, l, c)
		ok(t, l.Release(c))
	}
	ok(t, w.Barrier())
	released(t, w, x)
	ok(t, l.Free(w))
})
