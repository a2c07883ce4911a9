package shmem_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// waitFor waits for a condition that other PEs make true, and fails the test if they do not.
func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for begun := time.Now(); !cond(); runtime.Gosched() {
		if time.Since(begun) > routinePatience {
			t.Fatalf("never happened: %s", what)
		}
	}
}

// waitForQueue waits until n PEs hold the lock or wait for it.
func waitForQueue(t *testing.T, w *shmem.World, l shmem.Lock, n int) {
	t.Helper()
	waitFor(t, "all PEs are in the queue", func() bool { return shmem.Queued(w, l) == n })
}

// waitForSleeper waits until a PE sleeps in a wait.
func waitForSleeper(t *testing.T, w *shmem.World, pe int) {
	t.Helper()
	waitFor(t, "the PE sleeps", func() bool { return shmem.Asleep(w, pe) })
}

// newLockBeside returns a lock whose queue survives the PEs that die: on several nodes, its home is none of them.
func newLockBeside(t *testing.T, w *shmem.World, dying ...int) shmem.Lock {
	t.Helper()
	for {
		l := must(shmem.NewLock(w))(t)
		if !spans(w) || !slices.Contains(dying, shmem.Home(l)) {
			return l
		}
	}
}

// noDeath is the grant of a lock whose holder did not die, or of a call that did not get the lock.
var noDeath = shmem.Grant{PE: -1}

// mustAcquire gets the lock, whose holder must not have died.
func mustAcquire(t *testing.T, l shmem.Lock, c *shmem.Ctx) {
	t.Helper()
	if g := must(l.Acquire(c))(t); g != noDeath {
		t.Errorf("Acquire: %+v, want %+v", g, noDeath)
	}
}

// tryLock reports whether Try gets the lock, whose holder must not have died.
func tryLock(t *testing.T, l shmem.Lock, c *shmem.Ctx) bool {
	t.Helper()
	g, got, err := l.Try(c)
	ok(t, err)
	if g != noDeath {
		t.Errorf("Try: %+v, want %+v", g, noDeath)
	}
	return got
}

// lockedCounter is the data that the tests change under a lock: n and twice on one PE. twice is 2n
// unless a PE is in the middle of a change.
type lockedCounter struct {
	n, twice shmem.Sym[int64]
	pe       int
}

// increment adds 1 with plain puts and gets, and checks that no other PE changes the data
// meanwhile.
func (g lockedCounter) increment(t *testing.T, c *shmem.Ctx) {
	n, twice := must(shmem.G(c, g.n, g.pe))(t), must(shmem.G(c, g.twice, g.pe))(t)
	if twice != 2*n {
		t.Errorf("found %d and %d under the lock, want the second to be twice the first", n, twice)
	}
	ok(t, shmem.P(c, g.n, n+1, g.pe))
	runtime.Gosched()
	ok(t, shmem.P(c, g.twice, 2*n+2, g.pe))
}

// Many PEs count under a lock with plain puts and gets, by Acquire and by Try. No change is lost.
func TestLockExcludes(t *testing.T) {
	rounds := 400
	if testing.Short() {
		rounds = 100
	}
	for _, npes := range []int{1, 2, 3, 8, 17} {
		shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
			c, l := w.Ctx(), must(shmem.NewLock(w))(t)
			x := must(shmem.Calloc[int64](w, 2))(t)
			g := lockedCounter{x.At(0), x.At(1), 0}
			for r := range rounds {
				if r%4 != 3 || !tryLock(t, l, c) {
					mustAcquire(t, l, c)
				}
				g.increment(t, c)
				ok(t, l.Release(c))
			}
			ok(t, w.Barrier())
			if n := must(shmem.G(c, g.n, 0))(t); n != int64(rounds*npes) {
				t.Errorf("%d changes, want %d", n, rounds*npes)
			}
			checkInt(t, "PEs left in the queue", shmem.Queued(w, l), 0)
		})
	}
}

// Waiting PEs get the lock in the order in which they came.
func TestLockOrder(t *testing.T) {
	const npes = 6
	shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
		c, l, me := w.Ctx(), must(shmem.NewLock(w))(t), w.MyPE()
		order := must(shmem.Calloc[int64](w, npes+1))(t) // on PE 0: their number, then the PEs in order
		for _, first := range []int{0, 2, 5} {
			ok(t, w.Barrier())
			place := (me - first + npes) % npes
			waitForQueue(t, w, l, place)
			mustAcquire(t, l, c)
			if place == 0 {
				waitForQueue(t, w, l, npes)
			}
			n := must(shmem.G(c, order, 0))(t)
			ok(t, shmem.P(c, order.At(1+int(n)), int64(me), 0))
			ok(t, shmem.P(c, order, n+1, 0))
			ok(t, l.Release(c))
			ok(t, w.Barrier())
			if me == 0 {
				for i, pe := range order.Local()[1:] {
					checkInt(t, "holder", int(pe), (first+i)%npes)
				}
				clear(order.Local())
			}
		}
	})
}

// A PE cannot acquire a lock twice, and only the holder can release it.
func TestLockMisuse(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		c, l := w.Ctx(), must(shmem.NewLock(w))(t)
		wantError(t, l.Release(c), shmem.ErrLockNotHeld, "Lock.Release")
		if w.MyPE() == 0 {
			mustAcquire(t, l, c)
			wantError(t, errOf(l.Acquire(c)), shmem.ErrLockHeld, "Lock.Acquire", "PE 0")
			checkBool(t, "Try by the holder", tryLock(t, l, c), false)
		}
		ok(t, w.Barrier())
		if w.MyPE() == 1 {
			wantError(t, l.Release(c), shmem.ErrLockNotHeld, "PE 1")
			checkBool(t, "Try of a lock that PE 0 holds", tryLock(t, l, c), false)
		}
		ok(t, w.Barrier())
		if w.MyPE() == 0 {
			ok(t, l.Release(c))
			wantError(t, l.Release(c), shmem.ErrLockNotHeld)
		}
		var none shmem.Lock
		wantError(t, errOf(none.Acquire(c)), shmem.ErrForeignHandle)
		_, _, err := none.Try(c)
		wantError(t, err, shmem.ErrForeignHandle)
		wantError(t, none.Release(c), shmem.ErrForeignHandle)
		ok(t, none.Free(w)) // specified as a no-op, like Free of the zero Sym
		wantError(t, errOf(l.Acquire(nil)), shmem.ErrArgument, "context is nil")
		wantError(t, errOf(shmem.NewLock(nil)), shmem.ErrArgument, "World is nil")
		ok(t, l.Free(w))
		wantError(t, errOf(l.Acquire(c)), shmem.ErrFreed)
		wantError(t, l.Release(c), shmem.ErrFreed)
	})
}

// A PE whose context ends leaves the queue to those behind it. If it returns before the queue has
// passed over it, it has its old place; otherwise it is last.
func TestLockDeadline(t *testing.T) {
	const npes = 4
	shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
		c, l, me := w.Ctx(), must(shmem.NewLock(w))(t), w.MyPE()
		late, cancel := context.WithCancel(t.Context())
		cancel()
		timesOut := func() {
			if g, err := l.Acquire(c.With(late)); !errors.Is(err, context.Canceled) || g != noDeath {
				t.Errorf("got %+v and error %v, want %+v and the error of the context", g, err, noDeath)
			}
			wantError(t, l.Release(c), shmem.ErrLockNotHeld)
		}
		served := must(shmem.Calloc[int64](w, 1))(t) // on PE 0
		gone := must(shmem.Calloc[int64](w, 1))(t)   // on PE 0: how many PEs have left the queue
		next := func(want int) {
			mustAcquire(t, l, c)
			checkInt(t, "PEs served before", int(must(shmem.AtomicFetchInc(c, served, 0))(t)), want)
			ok(t, l.Release(c))
		}
		if me == 0 {
			mustAcquire(t, l, c)
		}
		ok(t, w.Barrier())
		switch me { // they come in the order 1, 2, 3; 1 and 2 leave; 2 returns
		case 1:
			timesOut()
			checkBool(t, "Try from an old place", tryLock(t, l, c), false)
			ok(t, shmem.AtomicInc(c, gone, 0))
		case 2:
			waitForQueue(t, w, l, 2)
			timesOut()
			ok(t, shmem.AtomicInc(c, gone, 0))
			waitForQueue(t, w, l, 4)
			next(0)
		case 3:
			waitForQueue(t, w, l, 3)
			next(1)
		}
		if me == 0 {
			ok(t, shmem.WaitUntil(c, gone, shmem.EQ, 2)) // until then they may sleep for a moment
			waitForQueue(t, w, l, 4)
			waitFor(t, "PE 2 has its place back", func() bool { return shmem.Waits(w, l, 2) })
			waitForSleeper(t, w, 2)
			waitForSleeper(t, w, 3)
			ok(t, l.Release(c))
		}
		ok(t, w.Barrier())
		checkInt(t, "PEs left in the queue", shmem.Queued(w, l), 0)
		ok(t, w.Barrier()) // all have checked the queue
		if me == 1 {
			checkBool(t, "Try after being passed over", tryLock(t, l, c), true)
			ok(t, l.Release(c))
			mustAcquire(t, l, c.With(late)) // a free lock comes before the end of the context
			ok(t, l.Release(c))
		}
	})
}

// wantGrantFrom checks that a grant says that PE pe died while it held the lock.
func wantGrantFrom(t *testing.T, op string, got shmem.Grant, pe int) {
	t.Helper()
	if want := (shmem.Grant{HolderDied: true, PE: pe}); got != want {
		t.Errorf("%s: %+v, want %+v", op, got, want)
	}
}

// When the holder dies, the next PE is told, and none after it. PEs that died while waiting are
// passed over silently. On one node, the home of the queue may be among the dead.
func TestLockHolderDies(t *testing.T) {
	const npes, holder, waiter = 5, 1, 3
	for home := range npes {
		shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
			c, me := w.Ctx(), w.MyPE()
			var l shmem.Lock
			for range home + 1 { // each lock has a different home
				l = newLockBeside(t, w, holder, waiter)
			}
			done := must(shmem.Calloc[int64](w, 1))(t) // on PE 4
			ok(t, w.Barrier())
			switch me { // 1 holds the lock; 3, 2, 0, 4 wait
			case holder:
				mustAcquire(t, l, c)
				waitFor(t, "the waiter is dead", func() bool { return len(w.Failed()) > 0 })
				dieWhenAsleep(w, 0, 2, 4)
			case waiter:
				waitForQueue(t, w, l, 1)
				go func() {
					waitForQueue(t, w, l, npes)
					die()
				}()
				_, _ = l.Acquire(c)
				select {}
			case 2:
				waitForQueue(t, w, l, 2)
				wantGrantFrom(t, "Acquire", must(l.Acquire(c))(t), holder)
				waitForQueue(t, w, l, 3) // the queue has passed over the dead
				ok(t, l.Release(c))
				wantError(t, l.Release(c), shmem.ErrLockNotHeld)
			case 0:
				waitForQueue(t, w, l, 3)
				mustAcquire(t, l, c)
				ok(t, l.Release(c))
			case 4:
				waitForQueue(t, w, l, 4)
				mustAcquire(t, l, c)
				ok(t, l.Release(c))
			}
			w.AckFailed()
			ok(t, shmem.AtomicInc(c, done, 4))
			if me == 4 {
				waitFor(t, "all are done", func() bool { return must(shmem.AtomicFetch(c, done, 4))(t) == 3 })
				checkInt(t, "PEs left in the queue", shmem.Queued(w, l), 0)
			}
		}, shmemtest.Recover(holder, waiter))
	}
}

// A PE that comes after the holder died is told as well, by Acquire or by Try.
func TestLockAfterDeath(t *testing.T) {
	const npes, victim = 3, 1
	shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
		c, me := w.Ctx(), w.MyPE()
		var locks [2]shmem.Lock
		for i := range locks {
			locks[i] = newLockBeside(t, w, victim)
			if me == victim {
				mustAcquire(t, locks[i], c)
			}
		}
		flag := must(shmem.Calloc[int64](w, 2))(t)
		ok(t, w.Barrier())
		if me == victim {
			dieWhenAsleep(w, 0, 2)
		}
		wantDeathError(t, "WaitUntil", shmem.WaitUntil(c, flag.At(1), shmem.NE, 0), victim)
		w.AckFailed()
		if me == 0 {
			wantGrantFrom(t, "Acquire", must(locks[0].Acquire(c))(t), victim)
			g, got, err := locks[1].Try(c)
			ok(t, err)
			checkBool(t, "Try", got, true)
			wantGrantFrom(t, "Try", g, victim)
			ok(t, shmem.P(c, flag, 1, 2))
			for _, l := range locks {
				ok(t, l.Release(c))
			}
		} else {
			ok(t, shmem.WaitUntil(c, flag, shmem.NE, 0))
			for _, l := range locks {
				mustAcquire(t, l, c)
				ok(t, l.Release(c))
			}
		}
	}, shmemtest.Recover(victim))
}

// When the next holder dies as well, the PE after it learns of that death, and no later PE of any.
func TestLockDiesTwice(t *testing.T) {
	const npes, first, second = 3, 1, 2
	shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
		c, l := w.Ctx(), newLockBeside(t, w, first, second)
		switch w.MyPE() {
		case first:
			mustAcquire(t, l, c)
			waitForQueue(t, w, l, npes)
			die()
		case second:
			waitForQueue(t, w, l, 1)
			wantGrantFrom(t, "Acquire", must(l.Acquire(c))(t), first)
			die()
		default:
			waitForQueue(t, w, l, 2)
			wantGrantFrom(t, "Acquire", must(l.Acquire(c))(t), second)
			ok(t, l.Release(c))
			mustAcquire(t, l, c)
			ok(t, l.Release(c))
			checkBool(t, "Try", tryLock(t, l, c), true)
			ok(t, l.Release(c))
		}
	}, shmemtest.Recover(first, second))
}

// A call that returns an error never holds the lock: its grant is empty, and there is nothing to
// release.
func TestLockErrorsHoldNothing(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		c, l := w.Ctx(), must(shmem.NewLock(w))(t)
		late, cancel := context.WithCancel(t.Context())
		cancel()
		gone := must(shmem.NewLock(w))(t)
		ok(t, gone.Free(w))
		if w.MyPE() == 0 {
			mustAcquire(t, l, c)
		}
		ok(t, w.Barrier())
		if w.MyPE() == 1 {
			for _, x := range []struct {
				lock  shmem.Lock
				c     *shmem.Ctx
				cause error
			}{{l, c.With(late), context.Canceled}, {gone, c, shmem.ErrFreed}, {shmem.Lock{}, c, shmem.ErrForeignHandle}, {l, nil, shmem.ErrArgument}} {
				if g, err := x.lock.Acquire(x.c); g != noDeath || !errors.Is(err, x.cause) {
					t.Errorf("Acquire: got %+v and %v, want %+v and %v", g, err, noDeath, x.cause)
				}
				if errors.Is(x.cause, context.Canceled) {
					x.cause = nil // Try does not wait
				}
				if g, got, err := x.lock.Try(x.c); g != noDeath || got || !errors.Is(err, x.cause) {
					t.Errorf("Try: got %+v, %v and %v, want %+v, false and %v", g, got, err, noDeath, x.cause)
				}
			}
			wantError(t, l.Release(c), shmem.ErrLockNotHeld)
		}
		ok(t, w.Barrier())
		if w.MyPE() == 0 {
			ok(t, l.Release(c))
		}
	})
}

// An uncontended lock does not allocate.
func TestLockAllocatesNothing(t *testing.T) {
	shmemtest.Run(t, 1, func(t *testing.T, w *shmem.World) {
		c, l := w.Ctx(), must(shmem.NewLock(w))(t)
		if n := testing.AllocsPerRun(100, func() {
			_, _ = l.Acquire(c)
			_ = l.Release(c)
			_, _, _ = l.Try(c)
			_ = l.Release(c)
		}); n != 0 {
			t.Errorf("%v allocations, want none", n)
		}
	})
}

func BenchmarkLock(b *testing.B) {
	w, err := benchWorld()
	if err != nil {
		b.Fatal(err)
	}
	l, err := shmem.NewLock(w)
	if err != nil {
		b.Fatal(err)
	}
	c := w.Ctx()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Acquire(c); err != nil {
			b.Fatal(err)
		}
		if err := l.Release(c); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Free(w); err != nil {
		b.Error(err)
	}
}
