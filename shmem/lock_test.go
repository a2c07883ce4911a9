package shmem_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// until returns when cond holds, which other PEs see to, and ends the test if they do not.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for begun := time.Now(); !cond(); runtime.Gosched() {
		if time.Since(begun) > routinePatience {
			t.Fatalf("in vain: until %s", what)
		}
	}
}

// queued returns when so many PEs hold the lock or wait for it.
func queued(t *testing.T, w *shmem.World, l shmem.Lock, n int) {
	t.Helper()
	until(t, "all have come", func() bool { return shmem.Queued(w, l) == n })
}

// asleep returns when a PE sleeps in a wait.
func asleep(t *testing.T, w *shmem.World, pe int) {
	t.Helper()
	until(t, "the others sleep", func() bool { return shmem.Asleep(w, pe) })
}

// nobody is the grant of a lock that no PE died in, or that the call did not get.
var nobody = shmem.Grant{PE: -1}

// acquire gets the lock, in which no PE has died.
func acquire(t *testing.T, l shmem.Lock, c *shmem.Ctx) {
	t.Helper()
	if g := must(l.Acquire(c))(t); g != nobody {
		t.Errorf("Acquire: %+v, want %+v", g, nobody)
	}
}

// try says whether Try gets the lock, in which no PE has died.
func try(t *testing.T, l shmem.Lock, c *shmem.Ctx) bool {
	t.Helper()
	g, got, err := l.Try(c)
	ok(t, err)
	if g != nobody {
		t.Errorf("Try: %+v, want %+v", g, nobody)
	}
	return got
}

// counted is what the tests change under a lock: n and twice on a PE, which differ by a
// factor of 2 unless somebody is at it.
type counted struct {
	n, twice shmem.Sym[int64]
	pe       int
}

// change adds 1, with plain puts and gets, and checks that nobody else is at it.
func (g counted) change(t *testing.T, c *shmem.Ctx) {
	n, twice := must(shmem.G(c, g.n, g.pe))(t), must(shmem.G(c, g.twice, g.pe))(t)
	if twice != 2*n {
		t.Errorf("found %d and %d under the lock: somebody else is at it", n, twice)
	}
	ok(t, shmem.P(c, g.n, n+1, g.pe))
	runtime.Gosched()
	ok(t, shmem.P(c, g.twice, 2*n+2, g.pe))
}

// Many PEs count under a lock with plain puts and gets, by Acquire and by Try, and none
// gets lost.
func TestLockExcludes(t *testing.T) {
	const rounds = 400
	for _, npes := range []int{1, 2, 3, 8, 17} {
		shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
			c, l := w.Ctx(), must(shmem.NewLock(w))(t)
			x := must(shmem.Calloc[int64](w, 2))(t)
			g := counted{x.At(0), x.At(1), 0}
			for r := range rounds {
				if r%4 != 3 || !try(t, l, c) {
					acquire(t, l, c)
				}
				g.change(t, c)
				ok(t, l.Release(c))
			}
			ok(t, w.Barrier())
			if n := must(shmem.G(c, g.n, 0))(t); n != int64(rounds*npes) {
				t.Errorf("%d changes, want %d", n, rounds*npes)
			}
			index(t, "PEs left in the queue", shmem.Queued(w, l), 0)
		})
	}
}

// Those that wait get the lock in the order in which they came.
func TestLockOrder(t *testing.T) {
	const npes = 6
	shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
		c, l, me := w.Ctx(), must(shmem.NewLock(w))(t), w.MyPE()
		order := must(shmem.Calloc[int64](w, npes+1))(t) // on PE 0: how many, and who
		for _, first := range []int{0, 2, 5} {
			ok(t, w.Barrier())
			place := (me - first + npes) % npes
			queued(t, w, l, place)
			acquire(t, l, c)
			if place == 0 {
				queued(t, w, l, npes)
			}
			n := must(shmem.G(c, order, 0))(t)
			ok(t, shmem.P(c, order.At(1+int(n)), int64(me), 0))
			ok(t, shmem.P(c, order, n+1, 0))
			ok(t, l.Release(c))
			ok(t, w.Barrier())
			if me == 0 {
				for i, pe := range order.Local()[1:] {
					index(t, "holder", int(pe), (first+i)%npes)
				}
				clear(order.Local())
			}
		}
	})
}

// A lock is not for two calls of one PE, and only who holds it releases it.
func TestLockMisuse(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		c, l := w.Ctx(), must(shmem.NewLock(w))(t)
		refused(t, l.Release(c), shmem.ErrLockNotHeld, "Lock.Release")
		if w.MyPE() == 0 {
			acquire(t, l, c)
			refused(t, fails(l.Acquire(c)), shmem.ErrLockHeld, "Lock.Acquire", "PE 0")
			yes(t, "Try by the holder", try(t, l, c), false)
		}
		ok(t, w.Barrier())
		if w.MyPE() == 1 {
			refused(t, l.Release(c), shmem.ErrLockNotHeld, "PE 1")
			yes(t, "Try of what PE 0 holds", try(t, l, c), false)
		}
		ok(t, w.Barrier())
		if w.MyPE() == 0 {
			ok(t, l.Release(c))
			refused(t, l.Release(c), shmem.ErrLockNotHeld)
		}
		var none shmem.Lock
		refused(t, fails(none.Acquire(c)), shmem.ErrForeignHandle)
		_, _, err := none.Try(c)
		refused(t, err, shmem.ErrForeignHandle)
		refused(t, none.Release(c), shmem.ErrForeignHandle)
		ok(t, none.Free(w)) // specified to do nothing, as Free of the zero Sym
		refused(t, fails(l.Acquire(nil)), shmem.ErrArgument, "context is nil")
		refused(t, fails(shmem.NewLock(nil)), shmem.ErrArgument, "World is nil")
		ok(t, l.Free(w))
		refused(t, fails(l.Acquire(c)), shmem.ErrFreed)
		refused(t, l.Release(c), shmem.ErrFreed)
	})
}

// A wait that its context ends leaves the queue to those behind it; who comes again
// before it was passed over has the old place, and otherwise the last.
func TestLockDeadline(t *testing.T) {
	const npes = 4
	shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
		c, l, me := w.Ctx(), must(shmem.NewLock(w))(t), w.MyPE()
		late, cancel := context.WithCancel(t.Context())
		cancel()
		gives := func() {
			if g, err := l.Acquire(c.With(late)); !errors.Is(err, context.Canceled) || g != nobody {
				t.Errorf("%+v and error %v, want %+v and that of the context", g, err, nobody)
			}
			refused(t, l.Release(c), shmem.ErrLockNotHeld)
		}
		served := must(shmem.Calloc[int64](w, 1))(t) // on PE 0
		gone := must(shmem.Calloc[int64](w, 1))(t)   // on PE 0: how many have left
		next := func(want int) {
			acquire(t, l, c)
			index(t, "served before", int(must(shmem.AtomicFetchInc(c, served, 0))(t)), want)
			ok(t, l.Release(c))
		}
		if me == 0 {
			acquire(t, l, c)
		}
		ok(t, w.Barrier())
		switch me { // they come in the order 1, 2, 3, and 1 and 2 leave; 2 comes again
		case 1:
			gives()
			yes(t, "Try from an old place", try(t, l, c), false)
			ok(t, shmem.AtomicInc(c, gone, 0))
		case 2:
			queued(t, w, l, 2)
			gives()
			ok(t, shmem.AtomicInc(c, gone, 0))
			queued(t, w, l, 4)
			next(0)
		case 3:
			queued(t, w, l, 3)
			next(1)
		}
		if me == 0 {
			ok(t, shmem.WaitUntil(c, gone, shmem.EQ, 2)) // until then they may sleep for a moment
			queued(t, w, l, 4)
			asleep(t, w, 2)
			asleep(t, w, 3)
			ok(t, l.Release(c))
		}
		ok(t, w.Barrier())
		index(t, "PEs left in the queue", shmem.Queued(w, l), 0)
		ok(t, w.Barrier()) // all have looked
		if me == 1 {
			yes(t, "Try after being passed over", try(t, l, c), true)
			ok(t, l.Release(c))
			acquire(t, l, c.With(late)) // it is free, and that comes first
			ok(t, l.Release(c))
		}
	})
}

// inherits checks that a grant names the PE that died in the lock.
func inherits(t *testing.T, op string, got shmem.Grant, pe int) {
	t.Helper()
	if want := (shmem.Grant{HolderDied: true, PE: pe}); got != want {
		t.Errorf("%s: %+v, want %+v", op, got, want)
	}
}

// When the holder dies, the next one is told, and none after it; those that died waiting
// are passed over without a word. The queue's home may be among the dead.
func TestLockHolderDies(t *testing.T) {
	const npes, holder, waiter = 5, 1, 3
	for home := range npes {
		shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
			c, me := w.Ctx(), w.MyPE()
			var l shmem.Lock
			for range home + 1 { // each lock has another home
				l = must(shmem.NewLock(w))(t)
			}
			done := must(shmem.Calloc[int64](w, 1))(t) // on PE 4
			ok(t, w.Barrier())
			switch me { // 1 holds; 3, 2, 0, 4 wait
			case holder:
				acquire(t, l, c)
				until(t, "the waiter is dead", func() bool { return len(w.Failed()) > 0 })
				dieWhen(w, 0, 2, 4)
			case waiter:
				queued(t, w, l, 1)
				go func() {
					queued(t, w, l, npes)
					die()
				}()
				_, _ = l.Acquire(c)
				select {}
			case 2:
				queued(t, w, l, 2)
				inherits(t, "Acquire", must(l.Acquire(c))(t), holder)
				queued(t, w, l, 3) // the dead are gone
				ok(t, l.Release(c))
				refused(t, l.Release(c), shmem.ErrLockNotHeld)
			case 0:
				queued(t, w, l, 3)
				acquire(t, l, c)
				ok(t, l.Release(c))
			case 4:
				queued(t, w, l, 4)
				acquire(t, l, c)
				ok(t, l.Release(c))
			}
			w.AckFailed()
			ok(t, shmem.AtomicInc(c, done, 4))
			if me == 4 {
				until(t, "all are done", func() bool { return must(shmem.AtomicFetch(c, done, 4))(t) == 3 })
				index(t, "PEs left in the queue", shmem.Queued(w, l), 0)
			}
		}, shmemtest.Recover(holder, waiter))
	}
}

// Who comes after the holder died is told as well, by Acquire or by Try.
func TestLockAfterDeath(t *testing.T) {
	const npes, victim = 3, 1
	shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
		c, me := w.Ctx(), w.MyPE()
		var locks [2]shmem.Lock
		for i := range locks {
			locks[i] = must(shmem.NewLock(w))(t)
			if me == victim {
				acquire(t, locks[i], c)
			}
		}
		flag := must(shmem.Calloc[int64](w, 2))(t)
		ok(t, w.Barrier())
		if me == victim {
			dieWhen(w, 0, 2)
		}
		lost(t, "WaitUntil", shmem.WaitUntil(c, flag.At(1), shmem.NE, 0), victim)
		w.AckFailed()
		if me == 0 {
			inherits(t, "Acquire", must(locks[0].Acquire(c))(t), victim)
			g, got, err := locks[1].Try(c)
			ok(t, err)
			yes(t, "Try", got, true)
			inherits(t, "Try", g, victim)
			ok(t, shmem.P(c, flag, 1, 2))
			for _, l := range locks {
				ok(t, l.Release(c))
			}
		} else {
			ok(t, shmem.WaitUntil(c, flag, shmem.NE, 0))
			for _, l := range locks {
				acquire(t, l, c)
				ok(t, l.Release(c))
			}
		}
	}, shmemtest.Recover(victim))
}

// When the next holder dies as well, the one after it learns of that death, and nobody after it
// of any.
func TestLockDiesTwice(t *testing.T) {
	const npes, first, second = 3, 1, 2
	shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
		c, l := w.Ctx(), must(shmem.NewLock(w))(t)
		switch w.MyPE() {
		case first:
			acquire(t, l, c)
			queued(t, w, l, npes)
			die()
		case second:
			queued(t, w, l, 1)
			inherits(t, "Acquire", must(l.Acquire(c))(t), first)
			die()
		default:
			queued(t, w, l, 2)
			inherits(t, "Acquire", must(l.Acquire(c))(t), second)
			ok(t, l.Release(c))
			acquire(t, l, c)
			ok(t, l.Release(c))
			yes(t, "Try", try(t, l, c), true)
			ok(t, l.Release(c))
		}
	}, shmemtest.Recover(first, second))
}

// An error never holds the lock: the grant is nobody's, and there is nothing to release.
func TestLockErrorsHoldNothing(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		c, l := w.Ctx(), must(shmem.NewLock(w))(t)
		late, cancel := context.WithCancel(t.Context())
		cancel()
		gone := must(shmem.NewLock(w))(t)
		ok(t, gone.Free(w))
		if w.MyPE() == 0 {
			acquire(t, l, c)
		}
		ok(t, w.Barrier())
		if w.MyPE() == 1 {
			for _, x := range []struct {
				lock  shmem.Lock
				c     *shmem.Ctx
				cause error
			}{{l, c.With(late), context.Canceled}, {gone, c, shmem.ErrFreed}, {shmem.Lock{}, c, shmem.ErrForeignHandle}, {l, nil, shmem.ErrArgument}} {
				if g, err := x.lock.Acquire(x.c); g != nobody || !errors.Is(err, x.cause) {
					t.Errorf("Acquire: %+v and %v, want %+v and %v", g, err, nobody, x.cause)
				}
				if errors.Is(x.cause, context.Canceled) {
					x.cause = nil // Try does not wait
				}
				if g, got, err := x.lock.Try(x.c); g != nobody || got || !errors.Is(err, x.cause) {
					t.Errorf("Try: %+v, %v and %v, want %+v, false and %v", g, got, err, nobody, x.cause)
				}
			}
			refused(t, l.Release(c), shmem.ErrLockNotHeld)
		}
		ok(t, w.Barrier())
		if w.MyPE() == 0 {
			ok(t, l.Release(c))
		}
	})
}

// A lock that nobody else wants costs no allocation.
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
	w, err := aloneWorld()
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
