package mpi_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// A rank dies while the others wait for it, in every possible way.
func TestDeathEndsCalls(t *testing.T) {
	const victim = 1
	buf := make([]byte, 100_000)
	for op, call := range map[string]func(c *mpi.Comm) error{
		"Recv":     func(c *mpi.Comm) error { return errOf(mpi.Recv(c, buf, victim, 1)) },
		"Send":     func(c *mpi.Comm) error { return mpi.Send(c, buf, victim, 1) },
		"Sendrecv": func(c *mpi.Comm) error { return errOf(mpi.Sendrecv(c, buf, victim, 1, buf, victim, 1)) },
		"Isend": func(c *mpi.Comm) error {
			r, err := mpi.Isend(c, buf, victim, 1)
			if err != nil {
				return err
			}
			return errOf(r.Wait())
		},
		"Irecv": func(c *mpi.Comm) error {
			r, err := mpi.Irecv(c, buf, victim, mpi.AnyTag)
			if err != nil {
				return err
			}
			return errOf(r.Wait())
		},
		"Barrier":    (*mpi.Comm).Barrier,
		"Bcast":      func(c *mpi.Comm) error { return mpi.Bcast(c, buf, victim) },
		"Reduce":     func(c *mpi.Comm) error { return mpi.Reduce(c, buf, slices.Clone(buf), mpi.Max, 0) },
		"Allreduce":  func(c *mpi.Comm) error { return mpi.Allreduce(c, buf, slices.Clone(buf), mpi.Max) },
		"Comm.Split": func(c *mpi.Comm) error { return errOf(c.Split(0, 0)) },
	} {
		t.Run(op, func(t *testing.T) {
			run(t, 3, func(t *testing.T, c *mpi.Comm) {
				if c.Rank() == victim {
					die()
				}
				wantDeathError(t, op, call(c), victim)
				wantDeathError(t, op, call(c), victim)
				// The other ranks work undisturbed.
				other := 2 - c.Rank()
				must(mpi.Sendrecv(c, buf[:50_000], other, 3, buf[50_000:], other, 3))(t)
				if got := c.Failed(); !slices.Equal(got, []int{victim}) {
					t.Errorf("Failed() = %v, want only rank %d", got, victim)
				}
			}, shmemtest.Recover(victim))
		})
	}
}

// A flood of messages to a rank that dies without receiving ends, however full its lane is.
func TestDeathEndsFlood(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		if c.Rank() == 1 {
			must(mpi.Recv(c, make([]byte, 1), 0, 1))(t)
			die()
		}
		var all []mpi.Request
		for range 2000 { // more than fit
			all = append(all, must(mpi.Isend(c, make([]byte, 1000), 1, 2))(t))
		}
		ok(t, mpi.Send(c, make([]byte, 1), 1, 1)) // waits for its turn
		err := mpi.WaitAll(all, nil)
		for err == nil {
			err = mpi.Send(c, make([]byte, 5000), 1, 3)
		}
		if e, is := errors.AsType[*mpi.RankError](err); !is || e.Ranks[0] != 1 {
			t.Errorf("error %v, want a RankError", err)
		}
		wantDeathError(t, "Send", mpi.Send(c, make([]byte, 1), 1, 3), 1)
		r, err := mpi.Isend(c, make([]byte, 1), 1, 3) // the request keeps the failure
		wantDeathError(t, "Isend", err, 1)
		wantDeathError(t, "Isend", errOf(r.Wait()), 1)
		wantDeathError(t, "Isend", mpi.WaitAll([]mpi.Request{r}, nil), 1)
	}, shmemtest.Recover(1))
}

// Messages that a rank sent before it died are received first, and then comes the error. A long
// message whose sender was waiting for its receive fails, because its data are gone with the
// sender.
func TestSentBeforeDeath(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		const count = 300
		if c.Rank() == 1 {
			for i := range count {
				ok(t, mpi.Send(c, message(i, i), 0, 7))
			}
			must(mpi.Isend(c, message(100_000, 1), 0, 8))(t)
			die()
		}
		in := make([]byte, 100_000)
		for len(c.Failed()) == 0 {
			ok(t, mpi.Send(c, in[:0], 0, 0)) // polls without waiting
			must(mpi.Recv(c, in[:0], 0, 0))(t)
		}
		for i := range count {
			src, tag := 1, 7
			if i%2 == 1 {
				src, tag = mpi.AnySource, mpi.AnyTag
			}
			s := must(mpi.Recv(c, in, src, tag))(t)
			if s.Bytes != i {
				t.Fatalf("message %d has %d bytes, want as many as its number", i, s.Bytes)
			}
			checkMessage(t, in[:i], i)
		}
		wantDeathError(t, "Recv", errOf(mpi.Recv(c, in, 1, 8)), 1)
		wantDeathError(t, "Recv", errOf(mpi.Recv(c, in, 1, 8)), 1)
		wantDeathError(t, "Recv", errOf(mpi.Recv(c, in, 1, mpi.AnyTag)), 1)
	}, shmemtest.Recover(1))
}

// withBytes initializes mpi beside shmem and makes a symmetric object of n bytes.
func withBytes(t *testing.T, sw *shmem.World, n int) (*mpi.World, *mpi.Comm, shmem.Sym[byte]) {
	t.Helper()
	w := must(mpi.Init())(t)
	return w, w.Comm(), must(shmem.Calloc[byte](sw, n))(t)
}

// A long message in symmetric memory outlives its sender.
func TestSymmetricOutlivesSender(t *testing.T) {
	runWith(t, 2, func(t *testing.T, sw *shmem.World) {
		const long = 100_000
		w, c, x := withBytes(t, sw, long)
		if c.Rank() == 1 {
			copy(x.Local(), message(long, 5))
			must(mpi.Isend(c, x.Local(), 0, 8))(t)
			die()
		}
		wantDeathError(t, "Recv", errOf(mpi.Recv(c, []int{0}, 1, 7)), 1) // another message
		in := make([]byte, long)
		must(mpi.Recv(c, in, 1, 8))(t)
		checkMessage(t, in, 5)
		wantDeathError(t, "Recv", errOf(mpi.Recv(c, in, 1, 8)), 1)
		ok(t, w.Finalize())
	}, shmemtest.Recover(1))
}

// A long message in symmetric memory does not outlive its sender if the sender gave it up and
// wrote over it before it died.
func TestGivenUpBeforeDeath(t *testing.T) {
	runWith(t, 2, func(t *testing.T, sw *shmem.World) {
		const long = 100_000
		w, c, x := withBytes(t, sw, long)
		if c.Rank() == 1 {
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			if err := mpi.Send(c.With(gone), x.Local(), 0, 8); !errors.Is(err, context.Canceled) {
				t.Errorf("send without a receive: error %v, want %v", err, context.Canceled)
			}
			copy(x.Local(), message(long, 5))
			die()
		}
		wantDeathError(t, "Recv", errOf(mpi.Recv(c, []int{0}, 1, 7)), 1) // another message
		wantDeathError(t, "Recv", errOf(mpi.Recv(c, make([]byte, long), 1, 8)), 1)
		ok(t, w.Finalize())
	}, shmemtest.Recover(1))
}

// A death ends receives from any source until it is acknowledged. A request goes on.
func TestAnySourceAndDeath(t *testing.T) {
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		word := []int{c.Rank()}
		if c.Rank() == 1 {
			must(mpi.Recv(c, word, 0, 1))(t)
			die()
		}
		if c.Rank() == 2 {
			must(mpi.Recv(c, word, 0, 9))(t)
			ok(t, mpi.Send(c, []int{42}, 0, 5))
			must(mpi.Recv(c, word, 0, 9))(t)
			ok(t, mpi.Send(c, []int{43}, 0, 6))
			return
		}
		r := must(mpi.Irecv(c, word, mpi.AnySource, 5))(t)
		ok(t, mpi.Send(c, word, 1, 1)) // now rank 1 dies
		in := make([]int, 1)
		wantDeathError(t, "Recv", errOf(mpi.Recv(c, in, mpi.AnySource, 6)), 1)
		wantDeathError(t, "Recv", errOf(mpi.Recv(c, in, mpi.AnySource, 6)), 1)
		wantDeathError(t, "Irecv", errOf(r.Wait()), 1)
		if _, done, err := r.Test(); done {
			t.Error("a death has completed the request")
		} else {
			wantDeathError(t, "Irecv", err, 1)
		}
		if got := c.AckFailed(); !slices.Equal(got, []int{1}) {
			t.Errorf("AckFailed() = %v, want only rank 1", got)
		}
		ok(t, mpi.Send(c, in, 2, 9))
		if s := must(r.Wait())(t); s.Source != 2 || word[0] != 42 {
			t.Errorf("got %[2]d with status %+[1]v, want 42 from rank 2", s, word[0])
		}
		ok(t, mpi.Send(c, in, 2, 9))
		if s := must(mpi.Recv(c, in, mpi.AnySource, 6))(t); s.Source != 2 || in[0] != 43 {
			t.Errorf("got %[2]d with status %+[1]v, want 43 from rank 2", s, in[0])
		}
		wantDeathError(t, "Barrier", c.Barrier(), 1) // still fails
	}, shmemtest.Recover(1))
}

// A death does not affect a communicator without the dead rank.
func TestDeathElsewhere(t *testing.T) {
	run(t, 5, func(t *testing.T, c *mpi.Comm) {
		odd := must(c.Split(c.Rank()%2, -c.Rank()))(t)
		if c.Rank() == 1 {
			die()
		}
		if c.Rank() == 3 {
			wantDeathError(t, "Barrier", odd.Barrier(), 1) // number 1 there, by its key
			ok(t, odd.Free())
			return
		}
		wantDeathError(t, "Recv", errOf(mpi.Recv(c, make([]int, 1), 1, 0)), 1)
		for range 100 {
			sum := []int{0}
			ok(t, mpi.Allreduce(odd, sum, []int{c.Rank()}, mpi.Sum))
			if sum[0] != 0+2+4 {
				t.Fatalf("sum %d of even ranks, want 6", sum[0])
			}
		}
		must(mpi.Sendrecv(odd, []int{1}, (odd.Rank()+1)%3, 0, make([]int, 1), mpi.AnySource, 0))(t)
		if got := odd.Failed(); got != nil {
			t.Errorf("Failed() = %v in a communicator of living ranks, want nil", got)
		}
		ok(t, odd.Free())
	}, shmemtest.Recover(1))
}

// Once a receive from any source has matched a long message, a death no longer ends it, however
// long the sender takes.
func TestAnySourceMatched(t *testing.T) {
	runWith(t, 3, func(t *testing.T, sw *shmem.World) {
		w := must(mpi.Init())(t)
		c := w.Comm()
		goOn := must(shmem.Calloc[int64](sw, 1))(t)
		const long = 100_000
		switch c.Rank() {
		case 0:
			in := make([]byte, long)
			r := must(mpi.Irecv(c, in, mpi.AnySource, 5))(t)
			wantDeathError(t, "Recv", errOf(mpi.Recv(c, in[:1], 1, 0)), 1)
			ok(t, mpi.Send(c, in[:0], 2, 9))
			for {
				_, done, err := r.Test()
				if err == nil {
					if done {
						t.Error("the receive is complete although the sender has done nothing for it")
					}
					break
				}
				wantDeathError(t, "Irecv", err, 1)
			}
			ok(t, shmem.P(sw.Ctx(), goOn, 1, 2))
			must(r.Wait())(t)
			checkMessage(t, in, 3)
		case 1:
			die()
		case 2:
			must(mpi.Recv(c, []byte{}, 0, 9))(t)
			r := must(mpi.Isend(c, message(long, 3), 0, 5))(t)
			for must(shmem.AtomicFetch(sw.Ctx(), goOn, 2))(t) == 0 { // no call here makes progress
				runtime.Gosched()
			}
			must(r.Wait())(t)
		}
		ok(t, w.Finalize())
	}, shmemtest.Recover(1), hangTimeout)
}

// If the send of a Sendrecv fails, the message of the other rank is not lost: it is in the buffer,
// or waits for another receive.
func TestSendrecvToDead(t *testing.T) {
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		in := []int{0}
		switch c.Rank() {
		case 0:
			ok(t, mpi.Send(c, []int{42}, 1, 5))
			must(mpi.Recv(c, in, 1, 9))(t)
			ok(t, mpi.Send(c, []int{43}, 1, 5))
			return
		case 2:
			die()
		}
		wantDeathError(t, "Recv", errOf(mpi.Recv(c, in, 2, 0)), 2)
		for s := (mpi.Status{Source: mpi.ProcNull}); s.Source == mpi.ProcNull; {
			var err error
			s, err = mpi.Sendrecv(c, []int{1}, 2, 5, in, 0, 5)
			wantDeathError(t, "Sendrecv", err, 2)
		}
		if in[0] != 42 {
			t.Errorf("received %d, want 42", in[0])
		}
		s, err := mpi.Sendrecv(c, []int{1}, 2, 5, in, 0, 5)
		wantDeathError(t, "Sendrecv", err, 2)
		if s.Source != mpi.ProcNull || s.Tag != mpi.AnyTag {
			t.Errorf("got status %+v, want the empty one", s)
		}
		ok(t, mpi.Send(c, in, 0, 9))
		if must(mpi.Recv(c, in, 0, 5))(t); in[0] != 43 {
			t.Errorf("received %d, want 43", in[0])
		}
	}, shmemtest.Recover(2), hangTimeout)
}

// Ranks die one after the other in the middle of traffic of all sizes among all ranks. The others
// always get all messages of each other, and errors only because of dead ranks. A rank that dies
// may be one round ahead of others: it has received everything that they sent to it in their
// round, but may not have confirmed each long message, so these sends fail. Everything it sent
// itself has arrived.
func TestKills(t *testing.T) {
	const ranks, jobs = 8, 40
	victims := []int{6, 1, 4, 7, 2} // in this order
	for job := range jobs {
		if testing.Short() && job > 3 {
			break
		}
		run(t, ranks, func(t *testing.T, c *mpi.Comm) {
			me := c.Rank()
			rng := rand.New(rand.NewPCG(uint64(job), uint64(me)))
			for round := range len(victims) + 1 {
				dead := func(more int) []int { return victims[:min(round+more, len(victims))] }
				mine := round < len(victims) && victims[round] == me
				deadline := 2 * ranks // operations until this rank dies
				if mine {
					deadline = rng.IntN(2 * ranks)
				}
				var all []mpi.Request
				var from []int
				in := make([][]byte, ranks)
				size := func(src, dst int) int { return sizes[(job+round*7+src*3+dst*5)%len(sizes)] }
				for k := range ranks {
					peer := (me + k) % ranks
					if deadline--; deadline < 0 {
						die()
					}
					in[peer] = make([]byte, size(peer, me))
					r, err := mpi.Irecv(c, in[peer], peer, round)
					ok(t, err)
					all, from = append(all, r), append(from, peer)
				}
				for k := range ranks {
					peer := (me + k) % ranks
					if deadline--; deadline < 0 {
						die()
					}
					r, err := mpi.Isend(c, message(size(me, peer), round*100+me*10+peer), peer, round)
					if err != nil {
						wantVictimError(t, err, dead(1), peer)
						continue
					}
					all, from = append(all, r), append(from, peer)
				}
				if mine {
					die()
				}
				for i, r := range all {
					if _, err := r.Wait(); err != nil && i < ranks {
						wantVictimError(t, err, dead(1), from[i])
					} else if err != nil {
						wantVictimError(t, err, dead(2), from[i])
					} else if i < ranks {
						checkMessage(t, in[from[i]], round*100+from[i]*10+me)
					}
				}
				if t.Failed() {
					t.Fatalf("job %d, round %d", job, round)
				}
			}
		}, shmemtest.Recover(victims...))
	}
}

// wantVictimError checks the error of an operation with a rank: the rank must be a victim.
func wantVictimError(t *testing.T, err error, victims []int, rank int) {
	t.Helper()
	e, is := errors.AsType[*mpi.RankError](err)
	if !is || !slices.Equal(e.Ranks, []int{rank}) || !slices.Contains(victims, rank) {
		t.Errorf("error %v of an operation with rank %d, but the victims are %v", err, rank, victims)
	}
}

// The end of a context ends a wait and changes nothing else.
func TestContext(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		late := c.With(gone)
		in, long := make([]byte, 100), message(200_000, 3)
		if c.Rank() == 0 {
			if _, err := mpi.Recv(late, in, 1, 1); !errors.Is(err, context.Canceled) {
				t.Errorf("Recv with an ended context: error %v, want %v", err, context.Canceled)
			}
			soon, stop := context.WithTimeout(t.Context(), time.Millisecond)
			defer stop()
			if _, err := mpi.Recv(c.With(soon), in, mpi.AnySource, 1); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Recv with a deadline: error %v, want %v", err, context.DeadlineExceeded)
			}
			r := must(mpi.Irecv(late, in, 1, 1))(t)
			if _, err := r.Wait(); !errors.Is(err, context.Canceled) {
				t.Errorf("Wait with an ended context: error %v, want %v", err, context.Canceled)
			}
			if err := mpi.Send(late, long, 1, 2); !errors.Is(err, context.Canceled) {
				t.Errorf("Send with an ended context: error %v, want %v", err, context.Canceled)
			}
			ok(t, mpi.Send(c, in[:1], 1, 3))
			must(r.With(t.Context()).Wait())(t) // the request went on
			checkMessage(t, in, 8)
			ok(t, mpi.Send(c, long, 1, 4))
			return
		}
		must(mpi.Recv(c, in[:1], 0, 3))(t)
		if s, err := mpi.Recv(c, make([]byte, 200_000), 0, 2); !errors.Is(err, mpi.ErrCanceled) || s != emptyStatus {
			t.Errorf("receive of a message that was given up: got %+v, %v, want the empty status and %v", s, err, mpi.ErrCanceled)
		}
		ok(t, mpi.Send(c, message(100, 8), 0, 1))
		big := make([]byte, 200_000)
		must(mpi.Recv(c, big, 0, 4))(t)
		checkMessage(t, big, 3)
	})
}

// A receive from any source whose message has arrived gets it, whichever ranks have died and
// whatever lies before it in the lane.
func TestMessageBeforeDeath(t *testing.T) {
	const before = 200                   // messages
	for _, others := range []int{0, 1} { // other receives that are waiting
		run(t, 3, func(t *testing.T, c *mpi.Comm) {
			switch c.Rank() {
			case 2:
				must(mpi.Recv(c, []byte{}, 1, 1))(t)
				die()
			case 0:
				ok(t, mpi.Send(c, []byte{}, 1, 2)) // so that the lane is known
				must(mpi.Recv(c, []byte{}, 1, 1))(t)
				for range before {
					ok(t, mpi.Send(c, []byte{}, 1, 1))
				}
				ok(t, mpi.Send(c, []byte{}, 1, 5))
				must(mpi.Recv(c, []byte{}, 1, 1))(t)
				return
			}
			must(mpi.Recv(c, []byte{}, 0, 2))(t)
			wild := must(mpi.Irecv(c, []byte{}, mpi.AnySource, 5))(t)
			var named [1]mpi.Request
			for i := range others {
				named[i] = must(mpi.Irecv(c, []byte{}, 0, 1))(t)
			}
			ok(t, mpi.Send(c, []byte{}, 0, 1))
			ok(t, mpi.Send(c, []byte{}, 2, 1))
			for mpi.Pending(c, 0) <= before || len(c.Failed()) == 0 {
				runtime.Gosched()
			}
			s := must(wild.Wait())(t)
			if s.Source != 0 || s.Tag != 5 {
				t.Errorf("got status %+v, want source 0 and tag 5", s)
			}
			ok(t, mpi.WaitAll(named[:others], nil))
			ok(t, mpi.Send(c, []byte{}, 0, 1))
		}, shmemtest.Recover(2))
	}
}

// A message that a rank sent before it left is received, even if it was the rank's first message
// to this one, and whatever lies before it in the lane.
func TestMessageBeforeFinalize(t *testing.T) {
	const before = 200 // messages: more than one poll takes from a lane
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		switch c.Rank() {
		case 2:
			die()
		case 0:
			must(mpi.Recv(c, []byte{}, 1, 1))(t)
			for range before {
				ok(t, mpi.Send(c, []byte{}, 1, 1))
			}
			ok(t, mpi.Send(c, []byte{}, 1, 5))
			return // Finalize does not wait for the others, because a rank has died
		}
		r := must(mpi.Irecv(c, []byte{}, 0, 5))(t)
		ok(t, mpi.Send(c, []byte{}, 0, 1))
		for !mpi.HasLeft(c, 0) { // makes no progress
			runtime.Gosched()
		}
		mpi.LookForLeft(r)
		if s := must(r.Wait())(t); s.Source != 0 || s.Tag != 5 {
			t.Errorf("got status %+v, want source 0 and tag 5", s)
		}
	}, shmemtest.Recover(2))
}
