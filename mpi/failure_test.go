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

// A rank dies while the others wait for it in each way that there is.
func TestDeathEndsCalls(t *testing.T) {
	const victim = 1
	buf := make([]byte, 100_000)
	for op, call := range map[string]func(c *mpi.Comm) error{
		"Recv":     func(c *mpi.Comm) error { return fails(mpi.Recv(c, buf, victim, 1)) },
		"Send":     func(c *mpi.Comm) error { return mpi.Send(c, buf, victim, 1) },
		"Sendrecv": func(c *mpi.Comm) error { return fails(mpi.Sendrecv(c, buf, victim, 1, buf, victim, 1)) },
		"Isend": func(c *mpi.Comm) error {
			r, err := mpi.Isend(c, buf, victim, 1)
			if err != nil {
				return err
			}
			return fails(r.Wait())
		},
		"Irecv": func(c *mpi.Comm) error {
			r, err := mpi.Irecv(c, buf, victim, mpi.AnyTag)
			if err != nil {
				return err
			}
			return fails(r.Wait())
		},
		"Barrier":    (*mpi.Comm).Barrier,
		"Bcast":      func(c *mpi.Comm) error { return mpi.Bcast(c, buf, victim) },
		"Reduce":     func(c *mpi.Comm) error { return mpi.Reduce(c, buf, slices.Clone(buf), mpi.Max, 0) },
		"Allreduce":  func(c *mpi.Comm) error { return mpi.Allreduce(c, buf, slices.Clone(buf), mpi.Max) },
		"Comm.Split": func(c *mpi.Comm) error { return fails(c.Split(0, 0)) },
	} {
		t.Run(op, func(t *testing.T) {
			run(t, 3, func(t *testing.T, c *mpi.Comm) {
				if c.Rank() == victim {
					die()
				}
				lost(t, op, call(c), victim)
				lost(t, op, call(c), victim)
				// The others are not disturbed.
				other := 2 - c.Rank()
				must(mpi.Sendrecv(c, buf[:50_000], other, 3, buf[50_000:], other, 3))(t)
				if got := c.Failed(); !slices.Equal(got, []int{victim}) {
					t.Errorf("Failed() = %v, want rank %d", got, victim)
				}
			}, shmemtest.Recover(victim))
		})
	}
}

// A flood to a rank that dies without having received ends, however full its lane is.
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
		ok(t, mpi.Send(c, make([]byte, 1), 1, 1)) // waits in turn
		err := mpi.WaitAll(all, nil)
		for err == nil {
			err = mpi.Send(c, make([]byte, 5000), 1, 3)
		}
		if e, is := errors.AsType[*mpi.RankError](err); !is || e.Ranks[0] != 1 {
			t.Errorf("error %v, want a RankError", err)
		}
		lost(t, "Send", mpi.Send(c, make([]byte, 1), 1, 3), 1)
		r, err := mpi.Isend(c, make([]byte, 1), 1, 3) // the request keeps the failure
		lost(t, "Isend", err, 1)
		lost(t, "Isend", fails(r.Wait()), 1)
		lost(t, "Isend", mpi.WaitAll([]mpi.Request{r}, nil), 1)
	}, shmemtest.Recover(1))
}

// What a rank had sent before it died is received, then comes the error; a long message
// whose sender waited for its receive fails, as its data are gone with the sender.
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
			ok(t, mpi.Send(c, in[:0], 0, 0)) // looks, without waiting
			must(mpi.Recv(c, in[:0], 0, 0))(t)
		}
		for i := range count {
			src, tag := 1, 7
			if i%2 == 1 {
				src, tag = mpi.AnySource, mpi.AnyTag
			}
			s := must(mpi.Recv(c, in, src, tag))(t)
			if s.Bytes != i {
				t.Fatalf("message %d has %d bytes", i, s.Bytes)
			}
			check(t, in[:i], i)
		}
		lost(t, "Recv", fails(mpi.Recv(c, in, 1, 8)), 1)
		lost(t, "Recv", fails(mpi.Recv(c, in, 1, 8)), 1)
		lost(t, "Recv", fails(mpi.Recv(c, in, 1, mpi.AnyTag)), 1)
	}, shmemtest.Recover(1))
}

// withBytes initializes mpi beside shmem, and makes a symmetric object of n bytes.
func withBytes(t *testing.T, sw *shmem.World, n int) (*mpi.World, *mpi.Comm, shmem.Sym[byte]) {
	t.Helper()
	w := must(mpi.Init())(t)
	return w, w.Comm(), must(shmem.Calloc[byte](sw, n))(t)
}

// A long message in symmetric memory outlives its sender.
func TestSymmetricOutlivesSender(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, sw *shmem.World) {
		const long = 100_000
		w, c, x := withBytes(t, sw, long)
		if c.Rank() == 1 {
			copy(x.Local(), message(long, 5))
			must(mpi.Isend(c, x.Local(), 0, 8))(t)
			die()
		}
		lost(t, "Recv", fails(mpi.Recv(c, []int{0}, 1, 7)), 1) // another one
		in := make([]byte, long)
		must(mpi.Recv(c, in, 1, 8))(t)
		check(t, in, 5)
		lost(t, "Recv", fails(mpi.Recv(c, in, 1, 8)), 1)
		ok(t, w.Finalize())
	}, shmemtest.Recover(1))
}

// A long message in symmetric memory that its sender gave up, wrote over, and died is none.
func TestGivenUpBeforeDeath(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, sw *shmem.World) {
		const long = 100_000
		w, c, x := withBytes(t, sw, long)
		if c.Rank() == 1 {
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			if err := mpi.Send(c.With(gone), x.Local(), 0, 8); !errors.Is(err, context.Canceled) {
				t.Errorf("a message that nobody receives: %v", err)
			}
			copy(x.Local(), message(long, 5))
			die()
		}
		lost(t, "Recv", fails(mpi.Recv(c, []int{0}, 1, 7)), 1) // another one
		lost(t, "Recv", fails(mpi.Recv(c, make([]byte, long), 1, 8)), 1)
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
		ok(t, mpi.Send(c, word, 1, 1)) // now it dies
		in := make([]int, 1)
		lost(t, "Recv", fails(mpi.Recv(c, in, mpi.AnySource, 6)), 1)
		lost(t, "Recv", fails(mpi.Recv(c, in, mpi.AnySource, 6)), 1)
		lost(t, "Irecv", fails(r.Wait()), 1)
		if _, done, err := r.Test(); done {
			t.Error("the request is complete by a death")
		} else {
			lost(t, "Irecv", err, 1)
		}
		if got := c.AckFailed(); !slices.Equal(got, []int{1}) {
			t.Errorf("AckFailed() = %v, want rank 1", got)
		}
		ok(t, mpi.Send(c, in, 2, 9))
		if s := must(r.Wait())(t); s.Source != 2 || word[0] != 42 {
			t.Errorf("%+v, %d, want 42 from rank 2", s, word[0])
		}
		ok(t, mpi.Send(c, in, 2, 9))
		if s := must(mpi.Recv(c, in, mpi.AnySource, 6))(t); s.Source != 2 || in[0] != 43 {
			t.Errorf("%+v, %d, want 43 from rank 2", s, in[0])
		}
		lost(t, "Barrier", c.Barrier(), 1) // is another matter
	}, shmemtest.Recover(1))
}

// A communicator without the dead rank is not concerned.
func TestDeathElsewhere(t *testing.T) {
	run(t, 5, func(t *testing.T, c *mpi.Comm) {
		odd := must(c.Split(c.Rank()%2, -c.Rank()))(t)
		if c.Rank() == 1 {
			die()
		}
		if c.Rank() == 3 {
			lost(t, "Barrier", odd.Barrier(), 1) // the second there, by its key
			ok(t, odd.Free())
			return
		}
		lost(t, "Recv", fails(mpi.Recv(c, make([]int, 1), 1, 0)), 1)
		for range 100 {
			sum := []int{0}
			ok(t, mpi.Allreduce(odd, sum, []int{c.Rank()}, mpi.Sum))
			if sum[0] != 0+2+4 {
				t.Fatalf("sum %d of even ranks, want 6", sum[0])
			}
		}
		must(mpi.Sendrecv(odd, []int{1}, (odd.Rank()+1)%3, 0, make([]int, 1), mpi.AnySource, 0))(t)
		if got := odd.Failed(); got != nil {
			t.Errorf("Failed() = %v in a communicator of the living", got)
		}
		ok(t, odd.Free())
	}, shmemtest.Recover(1))
}

// A receive from any source that has met a long message is not ended by a death any more,
// however long the sender takes.
func TestAnySourceMet(t *testing.T) {
	shmemtest.Run(t, 3, func(t *testing.T, sw *shmem.World) {
		w := must(mpi.Init())(t)
		c := w.Comm()
		goOn := must(shmem.Calloc[int64](sw, 1))(t)
		const long = 100_000
		switch c.Rank() {
		case 0:
			in := make([]byte, long)
			r := must(mpi.Irecv(c, in, mpi.AnySource, 5))(t)
			lost(t, "Recv", fails(mpi.Recv(c, in[:1], 1, 0)), 1)
			ok(t, mpi.Send(c, in[:0], 2, 9))
			for {
				_, done, err := r.Test()
				if err == nil {
					if done {
						t.Error("it is complete, although the sender does nothing for it")
					}
					break
				}
				lost(t, "Irecv", err, 1)
			}
			ok(t, shmem.P(sw.Ctx(), goOn, 1, 2))
			must(r.Wait())(t)
			check(t, in, 3)
		case 1:
			die()
		case 2:
			must(mpi.Recv(c, []byte{}, 0, 9))(t)
			r := must(mpi.Isend(c, message(long, 3), 0, 5))(t)
			for must(shmem.AtomicFetch(sw.Ctx(), goOn, 2))(t) == 0 { // no call that makes progress
				runtime.Gosched()
			}
			must(r.Wait())(t)
		}
		ok(t, w.Finalize())
	}, shmemtest.Recover(1), soon)
}

// When the send of a Sendrecv fails, the message of the other rank is not lost: it is in
// the buffer, or waits for another receive.
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
		lost(t, "Recv", fails(mpi.Recv(c, in, 2, 0)), 2)
		for s := (mpi.Status{Source: mpi.ProcNull}); s.Source == mpi.ProcNull; {
			var err error
			s, err = mpi.Sendrecv(c, []int{1}, 2, 5, in, 0, 5)
			lost(t, "Sendrecv", err, 2)
		}
		if in[0] != 42 {
			t.Errorf("%d was received, want 42", in[0])
		}
		s, err := mpi.Sendrecv(c, []int{1}, 2, 5, in, 0, 5)
		lost(t, "Sendrecv", err, 2)
		if s.Source != mpi.ProcNull || s.Tag != mpi.AnyTag {
			t.Errorf("%+v, want the status of nobody", s)
		}
		ok(t, mpi.Send(c, in, 0, 9))
		if must(mpi.Recv(c, in, 0, 5))(t); in[0] != 43 {
			t.Errorf("%d was received, want 43", in[0])
		}
	}, shmemtest.Recover(2), soon)
}

// Ranks die one after the other in the middle of traffic of all sizes among all. The
// others always get all messages of each other, and errors of the dead alone. Who dies may be
// a round ahead of others: it has all that they sent it in theirs, but has not told them of
// each long message yet, so that their sends fail. What it sent itself has come.
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
				deadline := 2 * ranks // operations until it dies
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
						onlyVictims(t, err, dead(1), peer)
						continue
					}
					all, from = append(all, r), append(from, peer)
				}
				if mine {
					die()
				}
				for i, r := range all {
					if _, err := r.Wait(); err != nil && i < ranks {
						onlyVictims(t, err, dead(1), from[i])
					} else if err != nil {
						onlyVictims(t, err, dead(2), from[i])
					} else if i < ranks {
						check(t, in[from[i]], round*100+from[i]*10+me)
					}
				}
				if t.Failed() {
					t.Fatalf("job %d, round %d", job, round)
				}
			}
		}, shmemtest.Recover(victims...))
	}
}

// onlyVictims checks an error of an operation with a rank, which must be one of those.
func onlyVictims(t *testing.T, err error, victims []int, rank int) {
	t.Helper()
	e, is := errors.AsType[*mpi.RankError](err)
	if !is || !slices.Equal(e.Ranks, []int{rank}) || !slices.Contains(victims, rank) {
		t.Errorf("error %v of an operation with rank %d, of victims %v", err, rank, victims)
	}
}

// A context ends a wait and leaves everything else in order.
func TestContext(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		late := c.With(gone)
		in, long := make([]byte, 100), message(200_000, 3)
		if c.Rank() == 0 {
			if _, err := mpi.Recv(late, in, 1, 1); !errors.Is(err, context.Canceled) {
				t.Errorf("Recv with a context that has ended: %v", err)
			}
			soon, stop := context.WithTimeout(t.Context(), time.Millisecond)
			defer stop()
			if _, err := mpi.Recv(c.With(soon), in, mpi.AnySource, 1); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Recv with a deadline: %v", err)
			}
			r := must(mpi.Irecv(late, in, 1, 1))(t)
			if _, err := r.Wait(); !errors.Is(err, context.Canceled) {
				t.Errorf("Wait with a context that has ended: %v", err)
			}
			if err := mpi.Send(late, long, 1, 2); !errors.Is(err, context.Canceled) {
				t.Errorf("Send with a context that has ended: %v", err)
			}
			ok(t, mpi.Send(c, in[:1], 1, 3))
			must(r.With(t.Context()).Wait())(t) // went on
			check(t, in, 8)
			ok(t, mpi.Send(c, long, 1, 4))
			return
		}
		must(mpi.Recv(c, in[:1], 0, 3))(t)
		if s, err := mpi.Recv(c, make([]byte, 200_000), 0, 2); !errors.Is(err, mpi.ErrCanceled) || s != empty {
			t.Errorf("receive of a message that was given up: %+v, %v, want nothing and %v", s, err, mpi.ErrCanceled)
		}
		ok(t, mpi.Send(c, message(100, 8), 0, 1))
		big := make([]byte, 200_000)
		must(mpi.Recv(c, big, 0, 4))(t)
		check(t, big, 3)
	})
}

// A receive from any source whose message is there has it, whoever has died, and whatever lies
// before it in the lane.
func TestMessageBeforeDeath(t *testing.T) {
	const before = 200                   // messages
	for _, others := range []int{0, 1} { // other receives that wait
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
				t.Errorf("received %+v", s)
			}
			ok(t, mpi.WaitAll(named[:others], nil))
			ok(t, mpi.Send(c, []byte{}, 0, 1))
		}, shmemtest.Recover(2))
	}
}

// A message that a rank has sent before it left is received, although it was the rank's first word to
// this one, and whatever lies before it in the lane.
func TestMessageBeforeFinalize(t *testing.T) {
	const before = 200 // messages, more than are taken of a lane at a time
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
			return // it does not wait for the others, as one has died
		}
		r := must(mpi.Irecv(c, []byte{}, 0, 5))(t)
		ok(t, mpi.Send(c, []byte{}, 0, 1))
		for !mpi.HasLeft(c, 0) { // without progress
			runtime.Gosched()
		}
		mpi.LookForLeft(r)
		if s := must(r.Wait())(t); s.Source != 0 || s.Tag != 5 {
			t.Errorf("received %+v", s)
		}
	}, shmemtest.Recover(2))
}
