package win_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/goshmem/goshmem/interop"
	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/mpi/win"
	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// A death ends Fence on all that live. Operations on ranks that live go on.
func TestDeathInFence(t *testing.T) {
	run(t, 3, func(t *testing.T, s *shmem.World, c *mpi.Comm) {
		w := must(win.Allocate[int](c, 1))(t)
		ok(t, w.Fence())
		if c.Rank() == 1 {
			die()
		}
		isDeath(t, "Fence", w.Fence(), 1)
		isDeath(t, "the next Fence", w.Fence(), 1)
		isDeath(t, "Put", w.Put([]int{1}, 1, 0), 1)
		isDeath(t, "Accumulate", win.Accumulate(w, []int{1}, 1, 0, win.Max), 1)
		isDeath(t, "Lock", errOf(w.Lock(1, true)), 1)
		isDeath(t, "shared Lock", errOf(w.Lock(1, false)), 1)
		isDeath(t, "LockAll", errOf(w.LockAll()), 1)
		isDeath(t, "Start", w.Start(1), 1)
		isDeath(t, "Allocate", errOf(win.Allocate[int](c, 1)), 1)
		interop.AckFailed(s, c)
		other := 2 - c.Rank()
		ok(t, w.Put([]int{10 + c.Rank()}, other, 0))
		ok(t, w.Flush(other))
		ok(t, w.Post(other))
		ok(t, w.Start(other))
		ok(t, w.Complete())
		ok(t, w.Wait())
		if want := 10 + other; w.Local()[0] != want {
			t.Errorf("element %d, want %d", w.Local()[0], want)
		}
		isDeath(t, "Post", w.Post(1, other), 1)
		ok(t, w.Start(other))
		ok(t, w.Complete())
		isDeath(t, "Wait", w.Wait(), 1)
		ok(t, w.Free())
	}, shmemtest.Recover(1))
}

// A rank that dies with a lock leaves it to the next one, which learns of it.
func TestDeathWithLock(t *testing.T) {
	for _, exclusive := range []bool{true, false} {
		name := map[bool]string{true: "exclusive", false: "shared"}[exclusive]
		t.Run(name, func(t *testing.T) {
			run(t, 3, func(t *testing.T, s *shmem.World, c *mpi.Comm) {
				w := must(win.Allocate[int](c, 1))(t)
				clear(w.Local())
				if c.Rank() == 1 {
					must(w.Lock(0, exclusive))(t)
				}
				ok(t, w.Fence())
				if c.Rank() == 1 {
					time.Sleep(30 * time.Millisecond) // the others wait for the lock
					die()
				}
				g, err := w.Lock(0, true)
				if errors.Is(err, mpi.ErrDied) { // a death that is not acknowledged ends the wait for the other one's shared lock
					isDeath(t, "Lock", err, 1)
					interop.AckFailed(s, c)
					g, err = w.Lock(0, true)
				}
				if errors.Is(err, mpi.ErrDied) && s.Shared().NPEs() < 3 {
					return // on several nodes a lock ends with its home
				}
				ok(t, err)
				if g.HolderDied {
					if g.Rank != 1 {
						t.Errorf("grant %+v, want that of the death of rank 1", g)
					}
					must(win.FetchAndOp(w, 1, 0, 0, win.Sum))(t)
				} else if v := must(win.FetchAndOp(w, 0, 0, 0, win.NoOp))(t); v != 1 {
					t.Errorf("grant %+v, and no rank has got one before that tells of the death", g)
				}
				ok(t, w.Unlock(0))
				must(w.Lock(0, false))(t)
				ok(t, w.Unlock(0))
				other := 2 - c.Rank() // Free waits for nobody
				for len(c.Failed()) == 0 {
					runtime.Gosched() // the lock's home may have told this node of the death before its failure page does
				}
				interop.AckFailed(s, c)
				ok(t, w.Post(other))
				ok(t, w.Start(other))
				ok(t, w.Complete())
				ok(t, w.Wait())
				if v := must(win.FetchAndOp(w, 0, 0, 0, win.NoOp))(t); v != 1 {
					t.Errorf("%d grants tell of the death, want one", v)
				}
				ok(t, w.Free())
			}, shmemtest.Recover(1))
		})
	}
}

// A death ends Wait and Start, which name the rank, also if another goroutine acknowledges deaths at once.
func TestDeathInWait(t *testing.T) {
	run(t, 3, func(t *testing.T, s *shmem.World, c *mpi.Comm) {
		w := must(win.Allocate[int](c, 1))(t)
		me := c.Rank()
		if me == 0 {
			defer s.OnFailure(func(shmem.Failure) { interop.AckFailed(s, c) })()
		}
		ok(t, w.Fence())
		switch me {
		case 1:
			ok(t, w.Start(0, 2))
			time.Sleep(30 * time.Millisecond) // they wait
			die()
		default:
			ok(t, w.Post(1))
			isDeath(t, "Wait", w.Wait(), 1)
			isDeath(t, "Start", w.Start(1), 1)
			isDeath(t, "Post", w.Post(1), 1)
			for {
				if over, err := w.Test(); over {
					isDeath(t, "Test", err, 1)
					break
				}
			}
		}
		ok(t, w.Free())
	}, shmemtest.Recover(1))
}

// A rank that learns of a death and gives up before it has the lock leaves the news to the next one.
func TestDeathPassedOn(t *testing.T) {
	run(t, 3, func(t *testing.T, s *shmem.World, c *mpi.Comm) {
		w := must(win.Allocate[int](c, 1))(t)
		if c.Rank() > 0 {
			must(w.Lock(0, false))(t)
		}
		ok(t, w.Fence())
		if c.Rank() == 1 {
			die()
		}
		isDeath(t, "Fence", w.Fence(), 1)
		interop.AckFailed(s, c)
		if c.Rank() == 2 {
			ok(t, w.Start(0)) // rank 0 has given up
			ok(t, w.Unlock(0))
			ok(t, w.Complete())
			ok(t, w.Free())
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		_, err := w.With(ctx).Lock(0, true)
		home := errors.Is(err, mpi.ErrDied) // on several nodes a lock ends with its home
		if !errors.Is(err, context.DeadlineExceeded) && (!home || s.Shared().NPEs() == 3) {
			t.Errorf("Lock: error %v, want %v", err, context.DeadlineExceeded)
		}
		ok(t, w.Post(2))
		ok(t, w.Wait())
		if g, err := w.Lock(0, true); !home && (err != nil || g != win.Grant{HolderDied: true, Rank: 1}) {
			t.Errorf("grant %+v, error %v, want that of the death of rank 1", g, err)
		}
		ok(t, w.Free())
	}, shmemtest.Recover(1))
}

// After Validate, a dead rank is nobody: operations on it move nothing, and all calls go on with the others.
func TestValidate(t *testing.T) {
	run(t, 4, func(t *testing.T, s *shmem.World, c *mpi.Comm) {
		const victim = 1
		w := must(win.Allocate[int64](c, c.Size()))(t)
		clear(w.Local())
		ok(t, w.Fence())
		must(w.Lock(victim, false))(t)
		_ = w.Fence() // all have the lock; the victim may die before others leave Fence
		if c.Rank() == victim {
			die()
		}
		if dead := must(w.Validate())(t); !slices.Equal(dead, []int{victim}) {
			t.Fatalf("Validate: %v, want [%d]", dead, victim)
		}
		ok(t, w.Unlock(victim))
		ok(t, w.Put([]int64{1}, victim, 0))
		ok(t, win.Accumulate(w, []int64{1}, victim, 0, win.Sum))
		if v := must(win.FetchAndOp(w, 1, victim, 0, win.Sum))(t); v != 0 {
			t.Errorf("FetchAndOp on a rank that is recognized as dead: %d, want 0", v)
		}
		got := []int64{7}
		ok(t, w.Get(got, victim, 0))
		if got[0] != 7 {
			t.Errorf("Get from a rank that is recognized as dead has written %d", got[0])
		}
		ok(t, w.Flush(victim))
		for _, exclusive := range []bool{true, false} {
			must(w.Lock(victim, exclusive))(t)
			ok(t, w.Unlock(victim))
		}
		me, living := c.Rank(), []int{0, 2, 3}
		for _, rank := range living {
			ok(t, w.Put([]int64{int64(10 + me)}, rank, me))
		}
		ok(t, w.Fence())
		if want := []int64{10, 0, 12, 13}; !slices.Equal(w.Local(), want) {
			t.Errorf("elements %v, want %v", w.Local(), want)
		}
		ok(t, w.Fence())
		all := []int{0, 1, 2, 3}
		ok(t, w.Post(all...))
		ok(t, w.Start(all...))
		ok(t, win.Accumulate(w, []int64{1}, living[(slices.Index(living, me)+1)%3], victim, win.Sum))
		ok(t, w.Complete())
		if me == 0 {
			ok(t, w.Wait())
		} else {
			for over := false; !over; {
				over = must(w.Test())(t)
			}
		}
		if w.Local()[victim] != 1 {
			t.Errorf("element %d, want 1", w.Local()[victim])
		}
		if s.Shared().NPEs() == 4 { // on several nodes the death of a lock's home ends the lock
			must(w.LockAll())(t)
			ok(t, w.UnlockAll())
		}
		ok(t, w.Fence())
		ok(t, w.Free())
	}, shmemtest.Recover(1))
}
