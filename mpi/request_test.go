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

// emptyStatus is the status of a request that has received nothing.
var emptyStatus = mpi.Status{Source: mpi.AnySource, Tag: mpi.AnyTag}

// A request that has failed returns the same error to every caller, however often.
func TestFailureStays(t *testing.T) {
	const victim = 1
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		if c.Rank() == victim {
			die()
		}
		for _, r := range []mpi.Request{
			must(mpi.Irecv(c, make([]int, 1), victim, 1))(t),
			must(mpi.Isend(c, make([]byte, 100_000), 0, 2))(t), // to itself, which succeeds
		} {
			_, err := r.Wait()
			for range 3 {
				s, again := r.Wait()
				if s != emptyStatus || !errors.Is(again, err) {
					t.Errorf("a further Wait: %+v, %v, want %+v, %v", s, again, emptyStatus, err)
				}
				if s, done, again := r.Test(); s != emptyStatus || !done || !errors.Is(again, err) {
					t.Errorf("a further Test: %+v, %v, %v, want %+v, %v", s, done, again, emptyStatus, err)
				}
			}
		}
		r := must(mpi.Irecv(c, make([]int, 1), victim, 3))(t)
		wantDeathError(t, "Irecv", errOf(r.Wait()), victim)
		wantDeathError(t, "Irecv", errOf(r.Wait()), victim)
		// Its number is not given to another request.
		other := must(mpi.Irecv(c, make([]int, 1), 0, 3))(t)
		ok(t, mpi.Send(c, []int{7}, 0, 3))
		must(other.Wait())(t)
		wantDeathError(t, "Irecv", errOf(r.Wait()), victim)
	}, shmemtest.Recover(victim))
}

// A truncated message returns its error and status from every Wait.
func TestTruncationStays(t *testing.T) {
	run(t, 1, func(t *testing.T, c *mpi.Comm) {
		r := must(mpi.Irecv(c, make([]byte, 3), 0, 1))(t)
		ok(t, mpi.Send(c, make([]byte, 5), 0, 1))
		want := mpi.Status{Source: 0, Tag: 1, Count: 3, Bytes: 3}
		for range 3 {
			if s, err := r.Wait(); s != want || !errors.Is(err, mpi.ErrTruncated) {
				t.Errorf("Wait returned %+v, %v, want %+v, %v", s, err, want, mpi.ErrTruncated)
			}
		}
	})
}

// A death does not end a request that another rank may still complete, and the error says so.
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
		wantDeathError(t, "Irecv", err, victim)
		if e, is := errors.AsType[*mpi.RankError](err); !is || !e.Pending || !errors.Is(err, mpi.ErrPending) {
			t.Errorf("error %v, want one that contains %v", err, mpi.ErrPending)
		}
		if _, done, err := r.Test(); done || !errors.Is(err, mpi.ErrPending) {
			t.Errorf("Test returned %v, %v, want %v", done, err, mpi.ErrPending)
		}
		_, err = mpi.Recv(c, make([]int, 1), mpi.AnySource, 2) // this receive does not go on
		wantDeathError(t, "Recv", err, victim)
		if errors.Is(err, mpi.ErrPending) {
			t.Errorf("a receive that has ended is called pending: %v", err)
		}
		c.AckFailed()
		ok(t, mpi.Send(c, in, 1, 1))
		if s := must(r.Wait())(t); s.Source != 1 || in[0] != 7 {
			t.Errorf("got %[2]d with status %+[1]v, want 7 from rank 1", s, in)
		}
	}, shmemtest.Recover(victim))
}

// If several goroutines wait for copies of one request, one gets it, and the others get an error.
func TestWaitersOnCopies(t *testing.T) {
	run(t, 1, func(t *testing.T, c *mpi.Comm) {
		in := make([]int, 1)
		r := must(mpi.Irecv(c, in, 0, 1))(t)
		var wg sync.WaitGroup
		wg.Go(func() {
			if s, err := r.Wait(); s.Source != 0 || err != nil {
				t.Errorf("the first goroutine: got %+v, %v, want source 0", s, err)
			}
		})
		for !mpi.Waited(r) { // not by Test, because the goroutine's Wait would find it at work
			runtime.Gosched()
		}
		_, _, err := r.Test()
		var u *mpi.UsageError
		if !errors.As(err, &u) || !errors.Is(err, mpi.ErrArgument) || !strings.Contains(err.Error(), "another goroutine") {
			t.Errorf("the second goroutine: error %v, want a UsageError that names another goroutine", err)
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

// A receive from ProcNull receives nothing, as Recv does.
func TestRequestOfProcNull(t *testing.T) {
	run(t, 1, func(t *testing.T, c *mpi.Comm) {
		want := mpi.Status{Source: mpi.ProcNull, Tag: mpi.AnyTag}
		buf := make([]int, 1)
		r := must(mpi.Irecv(c, buf, mpi.ProcNull, 1))(t)
		for range 2 {
			if s, err := r.Wait(); s != want || err != nil {
				t.Errorf("Wait returned %+v, %v, want %+v", s, err, want)
			}
			if s, done, err := r.Test(); s != want || !done || err != nil {
				t.Errorf("Test returned %+v, %v, %v, want %+v", s, done, err, want)
			}
		}
		if s, err := must(mpi.Isend(c, buf, mpi.ProcNull, 1))(t).Wait(); s != emptyStatus || err != nil {
			t.Errorf("Wait of Isend returned %+v, %v, want %+v", s, err, emptyStatus)
		}
	})
}

// The numbers by which two processes name a request wrap around after 2^32 requests.
func TestNumbersBeginAgain(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		other := 1 - c.Rank()
		in, out := make([]byte, 100_000), message(100_000, 1)
		for i := range 5 {
			if i == 1 {
				mpi.LastNumbers(c)
			}
			r := must(mpi.Isend(c, out, other, i))(t)
			ok(t, c.Barrier()) // the message is kept before it is received
			must(mpi.Recv(c, in, other, i))(t)
			checkMessage(t, in, 1)
			must(r.Wait())(t)
		}
	})
}

// Init names the ranks that have died, if shmem was initialized before.
func TestInitAfterDeath(t *testing.T) {
	const victim = 1
	runWith(t, 3, func(t *testing.T, w *shmem.World) {
		if w.MyPE() == victim {
			die()
		}
		for len(w.Failed()) == 0 {
			runtime.Gosched()
		}
		for range 2 {
			_, err := mpi.Init()
			wantDeathError(t, "Init", err, victim)
		}
	}, shmemtest.Recover(victim), hangTimeout)
}

// After a collective that timed out on one rank, all ranks can finalize, and the error says so. A
// rank that reads none of the messages that wait for room in its lane does not block the others.
func TestFinalizeAfterTimeout(t *testing.T) {
	for name, messages := range map[string]int{"idle": 0, "full": 3000} {
		t.Run(name, func(t *testing.T) { finalizeAfterTimeout(t, messages) })
	}
}

func finalizeAfterTimeout(t *testing.T, messages int) {
	runBare(t, 3, func(t *testing.T) {
		w := must(mpi.Init())(t)
		c := w.Comm()
		if c.Rank() > 0 {
			for !mpi.HasLeft(c, 0) { // no other rank enters its barrier
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
			t.Errorf("error %v, want %v and a hint", err, context.DeadlineExceeded)
		}
		if err = c.Barrier(); !errors.Is(err, mpi.ErrCommBroken) || !strings.Contains(err.Error(), "World.Finalize") {
			t.Errorf("error %v, want %v and a hint", err, mpi.ErrCommBroken)
		}
		ok(t, w.Finalize())
	}, hangTimeout)
}
