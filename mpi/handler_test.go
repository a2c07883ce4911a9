package mpi_test

import (
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// A communicator's handler gets each error of communication once, in calls of all kinds, and its result is that of the call. Communicators that are made of it
// have the same handler; others, mistakes of this process and ends of contexts do not concern it.
func TestOnError(t *testing.T) {
	const victim = 2
	mine := errors.New("what the handler makes of it")
	run(t, 4, func(t *testing.T, c *mpi.Comm) {
		all := comms(t, c)
		for _, kind := range []string{"split", "messages"} {
			d := all[kind]
			var calls atomic.Int32
			var on atomic.Pointer[mpi.Comm]
			ok(t, d.OnError(func(c *mpi.Comm, err error) error {
				calls.Add(1)
				on.Store(c)
				if !errors.Is(err, mpi.ErrDied) && !errors.Is(err, mpi.ErrTruncated) {
					t.Errorf("handler got %v", err)
				}
				return mine
			}))
			made := must(d.Split(0, 0))(t)
			twin := must(d.Dup())(t)
			ok(t, twin.OnError(nil))
			_ = all["world"].Barrier()
			if c.Rank() == victim && kind == "messages" {
				die()
			}
			if kind == "split" { // no rank has died yet
				if d.Rank() == 0 {
					ok(t, mpi.Send(d, []int{1, 2}, 1, 1))
				}
				if d.Rank() == 1 {
					if _, err := mpi.Recv(d, make([]int, 1), 0, 1); err != mine { //nolint:errorlint // the very same
						t.Errorf("message that is too long: %v, want %v", err, mine)
					}
					if n := calls.Load(); n != 1 {
						t.Errorf("%d calls of the handler, want 1", n)
					}
				}
				continue
			}
			for len(d.Failed()) == 0 {
				time.Sleep(time.Millisecond)
			}
			x := []int{1}
			calling := map[string]func(c *mpi.Comm) error{
				"Send":       func(c *mpi.Comm) error { return mpi.Send(c, x, victim, 1) },
				"Recv":       func(c *mpi.Comm) error { return errOf(mpi.Recv(c, x, victim, 1)) },
				"any":        func(c *mpi.Comm) error { return errOf(mpi.Recv(c, x, mpi.AnySource, 1)) },
				"Irecv":      func(c *mpi.Comm) error { return errOf(must(mpi.Irecv(c, x, victim, 1))(t).Wait()) },
				"Probe":      func(c *mpi.Comm) error { return errOf(c.Probe(victim, 1)) },
				"Barrier":    func(c *mpi.Comm) error { return c.Barrier() },
				"Bcast":      func(c *mpi.Comm) error { return mpi.Bcast(c, x, 0) },
				"Gather":     func(c *mpi.Comm) error { return mpi.Gather(c, make([]int, 4), x, 0) },
				"Iallreduce": func(c *mpi.Comm) error { return errOf(mpi.Iallreduce(c, x, make([]int, 1), mpi.Sum)) },
				"Agree":      func(c *mpi.Comm) error { return errOf(c.Agree(1)) },
				"Split":      func(c *mpi.Comm) error { return errOf(c.Split(0, 0)) },
			}
			for _, what := range slices.Sorted(maps.Keys(calling)) { // all ranks call the same
				for i, x := range []*mpi.Comm{d, made} {
					f, name := calling[what], []string{"itself", "made"}[i]
					calls.Store(0)
					if err := f(x); err != mine { //nolint:errorlint // the very same
						t.Errorf("%s on %s: %v, want %v", what, name, err, mine)
					}
					if n, of := calls.Load(), on.Load(); n != 1 || must(of.Compare(x))(t) != 0 {
						t.Errorf("%s on %s: %d calls of the handler, want 1, for that communicator", what, name, n)
					}
				}
			}
			calls.Store(0)
			if err := mpi.Send(twin, x, victim, 1); !errors.Is(err, mpi.ErrDied) {
				t.Errorf("Send on a communicator without a handler: %v", err)
			}
			if err := mpi.Send(d, x, 17, 1); !errors.Is(err, mpi.ErrRankRange) || calls.Load() != 0 {
				t.Errorf("Send to rank 17: %v, %d calls of the handler, want none", err, calls.Load())
			}
		}
	}, shmemtest.Recover(victim), hangTimeout)
}

// mpi.Panic panics with the error.
func TestPanicHandler(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		d := must(c.Dup())(t)
		ok(t, d.OnError(mpi.Panic))
		ok(t, d.Revoke())
		func() {
			defer func() {
				if err, is := recover().(error); !is || !errors.Is(err, mpi.ErrRevoked) {
					t.Errorf("panic with %v, want %v", err, mpi.ErrRevoked)
				}
			}()
			_ = d.Barrier()
			t.Error("no panic")
		}()
		ok(t, d.Free())
	})
}

// With the error range "group", the first error of a rank that has died ends all calls of all ranks. Communicators without that rank go on.
func TestErrorRange(t *testing.T) {
	const victim = 1
	run(t, 4, func(t *testing.T, c *mpi.Comm) {
		d := must(c.Dup())(t)
		if err := d.SetInfo(mpi.Info{"mpi_error_range": "all"}); !errors.Is(err, mpi.ErrArgument) {
			t.Errorf("SetInfo of a wrong value: %v", err)
		}
		ok(t, d.SetInfo(mpi.Info{"mpi_error_range": "group", "color": "blue"}))
		if got := d.Info(); !maps.Equal(got, mpi.Info{"mpi_error_range": "group", "color": "blue"}) {
			t.Errorf("Info() = %v", got)
		}
		made := must(d.Split(c.Rank()/2, 0))(t)
		_ = c.Barrier()
		if c.Rank() == victim {
			die()
		}
		if c.Rank() == 2 { // it alone needs the dead one
			if _, err := mpi.Recv(d, make([]int, 1), victim, 1); !errors.Is(err, mpi.ErrDied) && !errors.Is(err, mpi.ErrRevoked) {
				t.Errorf("Recv of the dead rank: %v", err)
			}
		} else if _, err := mpi.Recv(d, make([]int, 1), 2, 1); !errors.Is(err, mpi.ErrRevoked) {
			t.Errorf("Recv of a living rank: %v, want %v", err, mpi.ErrRevoked)
		}
		if c.Rank() >= 2 {
			ok(t, made.Barrier())
			if made.Revoked() {
				t.Error("the communicator without the dead rank is revoked")
			}
		}
	}, shmemtest.Recover(victim), hangTimeout)
}
