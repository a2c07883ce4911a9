package mpi_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// hangTimeout ends a job whose calls might hang.
var hangTimeout = shmemtest.Timeout(20 * time.Second)

// wantEnded checks that a request ends with cause, or without an error if well allows it, and that
// it returns the same from then on.
func wantEnded(t *testing.T, r mpi.Request, well bool, cause error) {
	t.Helper()
	_, err := r.Wait()
	if (err != nil || !well) && !errors.Is(err, cause) {
		t.Errorf("Wait of a pending request: error %v, want %v", err, cause)
	}
	if s, again := r.Wait(); !errors.Is(again, err) || s != emptyStatus {
		t.Errorf("second Wait: %+v, %v, want %+v, %v", s, again, emptyStatus, err)
	}
	if _, done, again := r.Test(); !errors.Is(again, err) || !done {
		t.Errorf("Test after Wait: %v, %v, want %v", done, again, err)
	}
}

// Finalize ends requests that no goroutine has waited for, although shmem goes on. They leave
// nothing behind for the next Init: no parts of messages and no places in lanes.
func TestPendingAtFinalize(t *testing.T) {
	runWith(t, 2, func(t *testing.T, _ *shmem.World) {
		const long = 3 << 20
		for range 5 {
			w := must(mpi.Init())(t)
			c := w.Comm()
			other := 1 - c.Rank()
			in, spare := make([]byte, long), make([]byte, 100)
			met := []mpi.Request{ // they match each other, and may be in progress
				must(mpi.Isend(c, message(long, 1), other, 1))(t),
				must(mpi.Irecv(c, in, other, 1))(t),
			}
			alone := []mpi.Request{
				must(mpi.Isend(c, message(long, 2), other, 2))(t),
				must(mpi.Irecv(c, spare, other, 3))(t),
				must(mpi.Irecv(c, spare, mpi.AnySource, 4))(t),
			}
			ok(t, w.Finalize())
			for _, r := range met {
				wantEnded(t, r, true, mpi.ErrFinalized)
			}
			for _, r := range alone {
				wantEnded(t, r, false, mpi.ErrFinalized)
			}
			if c.Failed() != nil || c.AckFailed() != nil {
				t.Error("a rank has died")
			}

			w = must(mpi.Init())(t)
			c.AckFailed() // on the old communicator, has no effect
			out := message(long, 5)
			must(mpi.Sendrecv(w.Comm(), out, other, 1, in, other, 1))(t)
			checkMessage(t, in, 5)
			ok(t, w.Finalize())
		}
	}, hangTimeout)
}

// Free ends requests that no goroutine has waited for, and messages that wait there for their
// receive.
func TestPendingAtFree(t *testing.T) {
	runBare(t, 2, func(t *testing.T) {
		w := must(mpi.Init())(t)
		c := w.Comm()
		const long = 1 << 20
		other := 1 - c.Rank()
		for range 5 {
			d := must(c.Split(0, 0))(t)
			in := make([]byte, long)
			met := []mpi.Request{must(mpi.Isend(d, message(long, 1), other, 1))(t), must(mpi.Irecv(d, in, other, 1))(t)}
			sent := must(mpi.Isend(d, message(long, 1), other, 2))(t)
			never := must(mpi.Irecv(d, make([]byte, 9), other, 3))(t)
			ok(t, d.Barrier()) // what was sent has arrived
			must(mpi.Sendrecv(d, in[:0], other, 4, make([]int, 0), other, 4))(t)
			ok(t, d.Free())
			for _, r := range append(met, sent) {
				wantEnded(t, r, true, mpi.ErrFreed)
			}
			wantEnded(t, never, false, mpi.ErrFreed)
			must(mpi.Sendrecv(c, message(long, 5), other, 1, in, other, 1))(t)
			checkMessage(t, in, 5)
		}
		ok(t, w.Finalize())
	}, hangTimeout)
}

// Messages that were never received do not keep their sender's shares forever.
func TestSharesAfterFree(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		other := 1 - c.Rank()
		d := must(c.Split(0, 0))(t)
		for i := range 3 {
			must(mpi.Isend(d, message(100_000, i), other, i))(t)
		}
		must(mpi.Sendrecv(d, []byte{1}, other, 5, []byte{1}, other, 5))(t) // all messages have arrived
		if n := mpi.SharesInUse(c, other); n != 3 {
			t.Errorf("%d shares are in use for 3 messages, want 3", n)
		}
		ok(t, d.Free())
		ok(t, c.Barrier())
		if n := mpi.SharesInUse(c, other); n != 0 {
			t.Errorf("%d shares are in use for messages of a freed communicator, want none", n)
		}
	}, hangTimeout)
}

// wantLeft checks that an error says that these ranks have left.
func wantLeft(t *testing.T, op string, err error, ranks ...int) {
	t.Helper()
	e, is := errors.AsType[*mpi.RankError](err)
	if !is || !slices.Equal(e.Ranks, ranks) || e.Op != op || !errors.Is(err, mpi.ErrRankFinalized) {
		t.Errorf("error %v, want a RankError of %s with ranks %v that have finalized", err, op, ranks)
	}
}

// After a death, ranks finalize without waiting for each other. A rank that waits for a finalized
// rank gets everything that it had sent, and then an error that names it.
func TestFinalizedAfterDeath(t *testing.T) {
	runBare(t, 4, func(t *testing.T) {
		w := must(mpi.Init())(t)
		c := w.Comm()
		long := make([]byte, 100_000)
		switch c.Rank() {
		case 0:
			ok(t, mpi.Send(c, message(1000, 3), 1, 7))
			for len(c.Failed()) == 0 { // it does not take the messages of rank 1
				runtime.Gosched()
			}
			wantDeathError(t, "Recv", errOf(mpi.Recv(c, long, 2, 1)), 2)
			ok(t, w.Finalize())
			return
		case 2:
			must(mpi.Recv(c, long, 1, 1))(t)
			die()
		case 3: // the others send to it, but it does not leave
			must(mpi.Recv(c, long, 1, 1))(t)
			ok(t, w.Finalize())
			return
		}
		all := []mpi.Request{must(mpi.Irecv(c, long, 0, 9))(t)}
		for range 2000 { // more than fit
			all = append(all, must(mpi.Isend(c, make([]byte, 1000), 0, 2))(t))
		}
		ok(t, mpi.Send(c, []byte{1}, 2, 1))
		for !mpi.HasLeft(c, 0) { // what did not fit stays here
			runtime.Gosched()
		}
		wantLeft(t, "Recv", errOf(mpi.Recv(c, long, 0, 8)), 0)
		wantLeft(t, "Send", mpi.Send(c, long, 0, 3), 0)
		wantLeft(t, "Sendrecv", errOf(mpi.Sendrecv(c, long[:1], 0, 3, long, 0, 3)), 0)
		wantLeft(t, "Irecv", errOf(all[0].Wait()), 0)
		must(mpi.Recv(c, long, 0, 7))(t)
		checkMessage(t, long[:1000], 3)
		wantLeft(t, "Recv", errOf(mpi.Recv(c, long, 0, 7)), 0)
		wantLeft(t, "Isend", errOf(all[len(all)-1].Wait()), 0)
		wantDeathError(t, "Recv", errOf(mpi.Recv(c, long, mpi.AnySource, 1)), 2)
		if got := c.AckFailed(); !slices.Equal(got, []int{2}) {
			t.Errorf("AckFailed() = %v, want only rank 2", got)
		}
		r := must(mpi.Irecv(c, long, mpi.AnySource, 1))(t)
		ok(t, mpi.Send(c, []byte{1}, 3, 1))
		wantLeft(t, "Irecv", errOf(r.Wait()), 0, 3) // rank 2 is dead
		ok(t, w.Finalize())                         // although sends to rank 0 are still pending
	}, hangTimeout, shmemtest.Recover(2))
}

// The same on a communicator that is freed after a death.
func TestFreedAfterDeath(t *testing.T) {
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		d := must(c.Split(0, 0))(t)
		buf := make([]byte, 100_000)
		switch d.Rank() {
		case 0:
			wantDeathError(t, "Barrier", d.Barrier(), 2)
			ok(t, d.Free())
			must(mpi.Recv(c, buf, 1, 1))(t)
		case 1:
			wantLeft(t, "Recv", errOf(mpi.Recv(d, buf, 0, 1)), 0)
			ok(t, mpi.Send(c, buf, 0, 1))
			ok(t, d.Free())
		case 2:
			die()
		}
	}, hangTimeout, shmemtest.Recover(2))
}

// If the context of Free ends before the other ranks come, the communicator is freed on this rank,
// with and without the checks of collectives.
func TestFreeTimedOut(t *testing.T) {
	for _, checks := range []string{"", "collectives"} {
		t.Run("check="+checks, func(t *testing.T) {
			t.Setenv("GOSHMEM_CHECK", checks)
			run(t, 2, func(t *testing.T, c *mpi.Comm) {
				d := must(c.Split(0, 0))(t)
				if d.Rank() == 0 {
					r := must(mpi.Irecv(d, []int{0}, 1, 1))(t)
					gone, cancel := context.WithCancel(t.Context())
					cancel()
					if err := d.With(gone).Free(); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "has freed") {
						t.Errorf("Free with an ended context: error %v, want %v and a hint", err, context.Canceled)
					}
					wantEnded(t, r, false, mpi.ErrFreed)
					if err := d.Free(); !errors.Is(err, mpi.ErrFreed) {
						t.Errorf("second Free: %v, want ErrFreed", err)
					}
					if err := d.Barrier(); !errors.Is(err, mpi.ErrFreed) {
						t.Errorf("Barrier: %v, want ErrFreed", err)
					}
					ok(t, mpi.Send(c, []int{1}, 1, 1))
					return
				}
				must(mpi.Recv(c, []int{0}, 0, 1))(t)
				_ = d.Free() // it may have met rank 0 in Free or not
				if err := d.Free(); !errors.Is(err, mpi.ErrFreed) {
					t.Errorf("second Free: %v, want ErrFreed", err)
				}
			}, hangTimeout)
		})
	}
}

// A canceled collective has broken the communicator on all ranks. They can still finalize and
// initialize again.
func TestFinalizeBroken(t *testing.T) {
	runBare(t, 2, func(t *testing.T) {
		for range 3 {
			w := must(mpi.Init())(t)
			c := w.Comm()
			if c.Rank() == 0 {
				gone, cancel := context.WithCancel(t.Context())
				cancel()
				if err := c.With(gone).Barrier(); !errors.Is(err, context.Canceled) {
					t.Errorf("barrier with an ended context: error %v, want %v", err, context.Canceled)
				}
				ok(t, mpi.Send(c, []int{1}, 1, 1))
			} else {
				must(mpi.Recv(c, []int{0}, 0, 1))(t)
				_ = c.Barrier() // rank 0 may have entered it before it gave up
				if err := c.Barrier(); !errors.Is(err, mpi.ErrCommBroken) && !errors.Is(err, mpi.ErrRankFinalized) {
					t.Errorf("barrier after it: error %v, want %v or %v", err, mpi.ErrCommBroken, mpi.ErrRankFinalized)
				}
			}
			ok(t, mpi.Send(c, []int{5}, 1-c.Rank(), 5)) // never received
			ok(t, w.Finalize())
		}
		w := must(mpi.Init())(t)
		in := []int{0}
		must(mpi.Sendrecv(w.Comm(), []int{7}, 1-w.Comm().Rank(), 5, in, 1-w.Comm().Rank(), 5))(t)
		if in[0] != 7 {
			t.Errorf("got %d from before Init, want 7", in[0])
		}
		ok(t, w.Comm().Barrier())
		ok(t, w.Finalize())
	}, hangTimeout)
}

// breakWorld breaks the communicator of both ranks, of rank 1 first.
func breakWorld(t *testing.T, c *mpi.Comm) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if c.Rank() == 0 {
		must(mpi.Recv(c, []int{0}, 1, 9))(t)
	}
	for c.With(ended).Barrier() == nil { // the other rank may have entered it
	}
	if c.Rank() == 1 {
		ok(t, mpi.Send(c, []int{1}, 0, 9))
	}
}

// Long messages to a rank that has already finalized are in its lane when the next World begins.
// Its refusal of them does not affect messages that are sent then.
func TestLongBeforeInit(t *testing.T) {
	runBare(t, 2, func(t *testing.T) {
		const long = 4 << 20
		var bufs [2][]byte
		for i := range bufs {
			bufs[i] = make([]byte, long)
		}
		for range 30 {
			w := must(mpi.Init())(t)
			c := w.Comm()
			breakWorld(t, c)
			if c.Rank() == 0 {
				wantLeft(t, "Recv", errOf(mpi.Recv(c, []int{0}, 1, 9)), 1)
				for range 8 {
					must(mpi.Isend(c, bufs[0], 1, 1))(t)
				}
			}
			ok(t, w.Finalize())
			for i := range bufs { // rank 0 waits for rank 1 in Init
				fill(bufs[i], byte(i+1)*byte(1-c.Rank()))
			}
			w = must(mpi.Init())(t)
			c = w.Comm()
			all := make([]mpi.Request, len(bufs))
			for i := range bufs {
				if c.Rank() == 0 {
					all[i] = must(mpi.Isend(c, bufs[i], 1, i))(t)
					_, _, _ = all[i].Test()
				} else {
					all[i] = must(mpi.Irecv(c, bufs[i], 0, i))(t)
				}
			}
			ok(t, mpi.WaitAll(all, nil))
			for i := range bufs {
				wantFilled(t, bufs[i], byte(i+1), nil, new(int))
			}
			ok(t, w.Finalize())
		}
	}, hangTimeout)
}

// Finalize ends a receive of which the sender is writing a part. Once Finalize returns, the
// receive has ended and takes nothing from the next World.
func TestEndedInPart(t *testing.T) {
	runBare(t, 2, func(t *testing.T) {
		buf := make([]byte, 16<<20)
		for range 30 {
			w := must(mpi.Init())(t)
			c := w.Comm()
			breakWorld(t, c)
			var r mpi.Request
			if c.Rank() == 0 {
				_ = mpi.Send(c, buf, 1, 1) // as far as it gets
			} else {
				r = must(mpi.Irecv(c, buf, 0, 1))(t)
				for until := time.Now().Add(time.Duration(rand.IntN(2000)) * time.Microsecond); time.Now().Before(until); {
					_, _, _ = r.Test()
				}
			}
			ok(t, w.Finalize())
			w = must(mpi.Init())(t)
			c = w.Comm()
			if c.Rank() == 0 {
				ok(t, mpi.Send(c, []int{42}, 1, 5))
			} else {
				if _, done, _ := r.Test(); !done {
					t.Error("Finalize has not ended the receive")
				}
				must(mpi.Recv(c, []int{0}, 0, 5))(t)
			}
			ok(t, w.Finalize())
		}
	}, hangTimeout)
}

// A death has alarmed a receive from any source, which has not looked yet which rank died. Then
// another goroutine acknowledges the death: the receive waits on.
func TestAckMeanwhile(t *testing.T) {
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		switch c.Rank() {
		case 1:
			die()
		case 2:
			must(mpi.Recv(c, []int{0}, 0, 9))(t)
			ok(t, mpi.Send(c, []int{42}, 0, 5))
			must(mpi.Recv(c, []int{0}, 0, 9))(t)
			ok(t, mpi.Send(c, []int{43}, 0, 5))
			return
		}
		wantDeathError(t, "Recv", errOf(mpi.Recv(c, []int{0}, 1, 5)), 1)
		c.AckFailed()
		mpi.Alarm(c)
		in := []int{0}
		r := must(mpi.Irecv(c, in, mpi.AnySource, 5))(t)
		if _, done, err := r.Test(); done || err != nil {
			t.Errorf("Test returned %v, %v, want false and no error", done, err)
		}
		ok(t, mpi.Send(c, []int{1}, 2, 9))
		must(r.Wait())(t)
		ok(t, mpi.Send(c, []int{1}, 2, 9))
		if s := must(mpi.Recv(c, in, mpi.AnySource, 5))(t); s.Source != 2 || in[0] != 43 {
			t.Errorf("got %[2]d with status %+[1]v, want 43 from rank 2", s, in[0])
		}
	}, hangTimeout, shmemtest.Recover(1))
}
