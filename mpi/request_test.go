package mpi_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// empty is the status of a request that has received nothing.
var empty = mpi.Status{Source: mpi.AnySource, Tag: mpi.AnyTag}

// A request that has failed says so to everybody who asks, however often.
func TestFailureStays(t *testing.T) {
	const victim = 1
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		if c.Rank() == victim {
			die()
		}
		for _, r := range []mpi.Request{
			must(mpi.Irecv(c, make([]int, 1), victim, 1))(t),
			must(mpi.Isend(c, make([]byte, 100_000), 0, 2))(t), // a good one, to itself
		} {
			_, err := r.Wait()
			for range 3 {
				s, again := r.Wait()
				if s != empty || !errors.Is(again, err) {
					t.Errorf("a further Wait: %+v, %v, want %+v, %v", s, again, empty, err)
				}
				if s, done, again := r.Test(); s != empty || !done || !errors.Is(again, err) {
					t.Errorf("a further Test: %+v, %v, %v, want %+v, %v", s, done, again, empty, err)
				}
			}
		}
		r := must(mpi.Irecv(c, make([]int, 1), victim, 3))(t)
		lost(t, "Irecv", fails(r.Wait()), victim)
		lost(t, "Irecv", fails(r.Wait()), victim)
		// Its place is nobody else's.
		other := must(mpi.Irecv(c, make([]int, 1), 0, 3))(t)
		ok(t, mpi.Send(c, []int{7}, 0, 3))
		must(other.Wait())(t)
		lost(t, "Irecv", fails(r.Wait()), victim)
	}, shmemtest.Recover(victim))
}

// A message that is too long is too long for each Wait, which has its status.
func TestTruncationStays(t *testing.T) {
	run(t, 1, func(t *testing.T, c *mpi.Comm) {
		r := must(mpi.Irecv(c, make([]byte, 3), 0, 1))(t)
		ok(t, mpi.Send(c, make([]byte, 5), 0, 1))
		want := mpi.Status{Source: 0, Tag: 1, Count: 3, Bytes: 3}
		for range 3 {
			if s, err := r.Wait(); s != want || !errors.Is(err, mpi.ErrTruncated) {
				t.Errorf("%+v, %v, want %+v, %v", s, err, want, mpi.ErrTruncated)
			}
		}
	})
}

// A death leaves a request that another rank may complete as it is, and says that.
func TestPendingRequest(t *testing.T) {
	const victim = 2
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		switch c.Rank() {
		case victim:
			die()
		case 1:
			must(mpi.Recv(c, make([]int, 1), 0, 1))(t)
			ok(t, mpi.Send(c, []int{7}, 0, 2))
			return
		}
		in := make([]int, 1)
		r := must(mpi.Irecv(c, in, mpi.AnySource, 2))(t)
		_, err := r.Wait()
		lost(t, "Irecv", err, victim)
		if e, is := errors.AsType[*mpi.RankError](err); !is || !e.Pending || !errors.Is(err, mpi.ErrPending) {
			t.Errorf("%v, want one with %v", err, mpi.ErrPending)
		}
		if _, done, err := r.Test(); done || !errors.Is(err, mpi.ErrPending) {
			t.Errorf("Test: %v, %v, want %v", done, err, mpi.ErrPending)
		}
		_, err = mpi.Recv(c, make([]int, 1), mpi.AnySource, 2) // which does not go on
		lost(t, "Recv", err, victim)
		if errors.Is(err, mpi.ErrPending) {
			t.Errorf("a receive that has ended is pending: %v", err)
		}
		c.AckFailed()
		ok(t, mpi.Send(c, in, 1, 1))
		if s := must(r.Wait())(t); s.Source != 1 || in[0] != 7 {
			t.Errorf("%+v, %d, want 7 of rank 1", s, in)
		}
	}, shmemtest.Recover(victim))
}

// Of goroutines that wait for copies of one request, one has it, and the others are told.
func TestWaitersOnCopies(t *testing.T) {
	run(t, 1, func(t *testing.T, c *mpi.Comm) {
		in := make([]int, 1)
		r := must(mpi.Irecv(c, in, 0, 1))(t)
		var wg sync.WaitGroup
		wg.Go(func() {
			if s, err := r.Wait(); s.Source != 0 || err != nil {
				t.Errorf("the first: %+v, %v", s, err)
			}
		})
		for !mpi.Waited(r) { // not by Test, which the goroutine's Wait would find at work
			runtime.Gosched()
		}
		_, _, err := r.Test()
		var u *mpi.UsageError
		if !errors.As(err, &u) || !errors.Is(err, mpi.ErrArgument) || !strings.Contains(err.Error(), "another goroutine") {
			t.Errorf("the second: %v, want a UsageError that names another goroutine", err)
		}
		ok(t, mpi.Send(c, []int{7}, 0, 1))
		wg.Wait()
		for range 2000 {
			r := must(mpi.Irecv(c, in, 0, 1))(t)
			for range 3 {
				wg.Go(func() {
					if _, err := r.Wait(); err != nil && !errors.Is(err, mpi.ErrArgument) {
						t.Error(err)
					}
				})
			}
			ok(t, mpi.Send(c, []int{7}, 0, 1))
			wg.Wait()
			must(r.Wait())(t)
		}
	})
}

// A receive from nobody has received nothing from nobody, as Recv says.
func TestRequestOfProcNull(t *testing.T) {
	run(t, 1, func(t *testing.T, c *mpi.Comm) {
		want := mpi.Status{Source: mpi.ProcNull, Tag: mpi.AnyTag}
		buf := make([]int, 1)
		r := must(mpi.Irecv(c, buf, mpi.ProcNull, 1))(t)
		for range 2 {
			if s, err := r.Wait(); s != want || err != nil {
				t.Errorf("Wait: %+v, %v, want %+v", s, err, want)
			}
			if s, done, err := r.Test(); s != want || !done || err != nil {
				t.Errorf("Test: %+v, %v, %v, want %+v", s, done, err, want)
			}
		}
		if s, err := must(mpi.Isend(c, buf, mpi.ProcNull, 1))(t).Wait(); s != empty || err != nil {
			t.Errorf("Isend: %+v, %v, want %+v", s, err, empty)
		}
	})
}

// The numbers by which two processes know a request begin again after 2^32 of them.
func TestNumbersBeginAgain(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		other := 1 - c.Rank()
		in, out := make([]byte, 100_000), message(100_000, 1)
		for i := range 5 {
			if i == 1 {
				mpi.LastNumbers(c)
			}
			r := must(mpi.Isend(c, out, other, i))(t)
			ok(t, c.Barrier()) // it is kept before it is received
			must(mpi.Recv(c, in, other, i))(t)
			check(t, in, 1)
			must(r.Wait())(t)
		}
	})
}

// Init names the ranks that have died, where shmem was initialized before.
func TestInitAfterDeath(t *testing.T) {
	const victim = 1
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		if w.MyPE() == victim {
			die()
		}
		for len(w.Failed()) == 0 {
			runtime.Gosched()
		}
		for range 2 {
			_, err := mpi.Init()
			lost(t, "Init", err, victim)
		}
	}, shmemtest.Recover(victim), soon)
}

// After a collective that has timed out on one rank, all can finalize, and the error says so. A
// rank that takes none of the messages that wait for room in its lane holds nobody up.
func TestFinalizeAfterTimeout(t *testing.T) {
	for name, messages := range map[string]int{"idle": 0, "full": 3000} {
		t.Run(name, func(t *testing.T) { finalizeAfterTimeout(t, messages) })
	}
}

func finalizeAfterTimeout(t *testing.T, messages int) {
	shmemtest.RunBare(t, 3, func(t *testing.T) {
		w := must(mpi.Init())(t)
		c := w.Comm()
		if c.Rank() > 0 {
			for !mpi.HasLeft(c, 0) { // nobody comes to its barrier
				runtime.Gosched()
			}
			ok(t, w.Finalize())
			return
		}
		for i := range messages {
			must(mpi.Isend(c, []int{i}, 1, 5))(t)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		err := c.With(ctx).Barrier()
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "World.Finalize") {
			t.Errorf("%v, want %v and what can be done now", err, context.DeadlineExceeded)
		}
		if err = c.Barrier(); !errors.Is(err, mpi.ErrCommBroken) || !strings.Contains(err.Error(), "World.Finalize") {
			t.Errorf("%v, want %v and what can be done now", err, mpi.ErrCommBroken)
		}
		ok(t, w.Finalize())
	}, soon)
}
