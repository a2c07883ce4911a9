package shmem_test

import (
	"testing"

	"github.com/goshmem/goshmem/shmem"
)

var _ = routine("shmem_set_lock", func(t *testing.T, w *shmem.World) {
	c, l := w.Ctx(), must(shmem.NewLock(w))(t)
	x := must(shmem.Calloc[int64](w, 4))(t)
	g := lockedCounter{x.At(0), x.At(1), 0}
	const rounds = 20
	for range rounds {
		mustAcquire(t, l, c)
		g.increment(t, c)
		ok(t, l.Release(c))
	}
	ok(t, w.Barrier())
	checkInt(t, "changes", int(must(shmem.G(c, g.n, 0))(t)), rounds*w.NPEs())
	wantError(t, l.Release(c), shmem.ErrLockNotHeld)
	ok(t, w.Barrier())
	come, turn := x.At(2), x.At(3)
	if w.MyPE() == 0 { // all others wait while PE 0 holds the lock, and then get it in turn
		mustAcquire(t, l, c)
		for pe := 1; pe < w.NPEs(); pe++ {
			waitForQueue(t, w, l, pe)
			ok(t, shmem.AtomicSet(c, come, 1, pe))
		}
		waitForQueue(t, w, l, w.NPEs())
		checkInt(t, "PEs that passed the holder", int(must(shmem.AtomicFetch(c, turn, 0))(t)), 0)
		ok(t, l.Release(c))
	} else {
		ok(t, shmem.WaitUntil(c, come, shmem.EQ, 1))
		mustAcquire(t, l, c)
		checkInt(t, "turn", int(must(shmem.AtomicFetchInc(c, turn, 0))(t)), w.MyPE()-1)
		ok(t, l.Release(c))
	}
	ok(t, w.Barrier())
	freeWhenDone(t, w, x)
	ok(t, l.Free(w))
})

var _ = routine("shmem_test_lock", func(t *testing.T, w *shmem.World) {
	c, l := w.Ctx(), must(shmem.NewLock(w))(t)
	won := must(shmem.Calloc[int64](w, 1))(t) // on PE 0
	if tryLock(t, l, c) {                     // the winner keeps the lock, so only one PE gets it
		ok(t, shmem.AtomicInc(c, won, 0))
		checkBool(t, "Try by the holder", tryLock(t, l, c), false)
		ok(t, w.Barrier())
		ok(t, l.Release(c))
	} else {
		ok(t, w.Barrier())
	}
	ok(t, w.Barrier())
	checkInt(t, "PEs that got the lock", int(must(shmem.AtomicFetch(c, won, 0))(t)), 1)
	for pe := range w.NPEs() {
		if pe == w.MyPE() { // the lock is free for each PE in turn
			checkBool(t, "Try", tryLock(t, l, c), true)
			ok(t, l.Release(c))
		}
		ok(t, w.Barrier())
	}
	freeWhenDone(t, w, won)
	ok(t, l.Free(w))
})

var _ = routine("shmem_clear_lock", func(t *testing.T, w *shmem.World) {
	c, l, me, n := w.Ctx(), must(shmem.NewLock(w))(t), w.MyPE(), w.NPEs()
	x := must(shmem.Calloc[int64](w, 100))(t)
	wantError(t, l.Release(c), shmem.ErrLockNotHeld)
	ok(t, w.Barrier())
	for round := range int64(5) { // the next holder sees what was put under the lock
		mustAcquire(t, l, c)
		for pe := range n {
			seen, next := make([]int64, 100), make([]int64, 100)
			ok(t, shmem.Get(c, seen, x, pe))
			for i, v := range seen {
				if v != seen[0] {
					t.Fatalf("round %d: element %d is %d, but the first is %d: some puts are missing", round, i, v, seen[0])
				}
				next[i] = v + 1
			}
			ok(t, shmem.PutNBI(c, x, next, pe))
		}
		ok(t, l.Release(c))
		wantError(t, l.Release(c), shmem.ErrLockNotHeld)
	}
	ok(t, w.Barrier())
	checkInt(t, "rounds of all PEs", int(x.Local()[99]), 5*n)
	checkInt(t, "PEs in the queue", shmem.Queued(w, l), 0)
	ok(t, w.Barrier())
	if me == n-1 { // it wakes the sleepers
		mustAcquire(t, l, c)
		for pe := range n - 1 {
			waitForSleeper(t, w, pe)
		}
		waitForQueue(t, w, l, n)
		ok(t, l.Release(c))
	} else {
		waitForQueue(t, w, l, me+1)
		mustAcquire(t, l, c)
		ok(t, l.Release(c))
	}
	ok(t, w.Barrier())
	freeWhenDone(t, w, x)
	ok(t, l.Free(w))
})
