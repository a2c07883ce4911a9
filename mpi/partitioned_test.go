package mpi_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/goshmem/goshmem/mpi"
)

// readyAll makes all partitions ready in random order, on several goroutines.
func readyAll(t *testing.T, p mpi.Partitioned, parts int) {
	t.Helper()
	var wg sync.WaitGroup
	order := rand.Perm(parts)
	workers := min(3, parts)
	for w := range workers {
		wg.Go(func() {
			for at := w; at < parts; at += workers {
				if err := p.Ready(order[at]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// awaitPart polls until a partition has arrived, and checks what of buf it is.
func awaitPart(t *testing.T, p mpi.Partitioned, buf []int32, parts, i, from int) {
	t.Helper()
	for arrived := false; !arrived; {
		arrived = must(p.Arrived(i))(t)
	}
	n := len(buf) / parts
	for at := i * n; at < (i+1)*n; at++ {
		if buf[at] != int32(from+at) {
			t.Fatalf("element %d of partition %d is %d, want %d", at, i, buf[at], from+at)
		}
	}
}

// numberFrom fills a buffer with numbers from one on.
func numberFrom(buf []int32, from int) {
	for i := range buf {
		buf[i] = int32(from + i)
	}
}

// Both sides divide the buffer as they like, for any number of rounds, and in both directions at a time. Senders run ahead of their receivers.
func TestPartitioned(t *testing.T) {
	for _, parts := range [][2]int{{1, 1}, {4, 4}, {12, 3}, {2, 10}, {6, 4}, {60, 60}, {1, 60}, {60, 1}} {
		for _, n := range []int{0, 60, 6000, 240_000} {
			t.Run(fmt.Sprintf("%d,%d/%d", parts[0], parts[1], n), func(t *testing.T) {
				run(t, 2, func(t *testing.T, c *mpi.Comm) {
					other := 1 - c.Rank()
					out, in := make([]int32, n), make([]int32, n)
					s := must(mpi.PsendInit(c, out, parts[0], other, 5))(t)
					r := must(mpi.PrecvInit(c, in, parts[1], other, 5))(t)
					for round := range 8 {
						from := round * 1000
						numberFrom(out, from)
						ok(t, mpi.Start(r.Persistent, s.Persistent))
						readyAll(t, s, parts[0])
						for _, i := range rand.Perm(parts[1])[:(parts[1]+1)/2] {
							awaitPart(t, r, in, parts[1], i, from)
						}
						want := mpi.Status{Source: other, Tag: 5, Count: n, Bytes: 4 * n}
						if got := must(r.Wait())(t); got != want {
							t.Errorf("status %+v, want %+v", got, want)
						}
						for i := range parts[1] {
							awaitPart(t, r, in, parts[1], i, from)
						}
						if got := must(s.Wait())(t); got != emptyStatus {
							t.Errorf("status of the send %+v, want %+v", got, emptyStatus)
						}
					}
					ok(t, s.Free())
					ok(t, r.Free())
					if all, receives, messages := mpi.Partitions(c); all+receives+messages != 0 {
						t.Errorf("%d operations, %d receives and %d messages are left", all, receives, messages)
					}
				}, hangTimeout)
			})
		}
	}
}

// A sender that does not wait for its receiver is rounds ahead of it, and begins before it. Rounds do not mix.
func TestPartitionedAhead(t *testing.T) {
	const parts, rounds = 8, 50
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		buf := make([]int32, 800)
		if c.Rank() == 0 {
			p := must(mpi.PsendInit(c, buf, parts, 1, 1))(t)
			for round := range rounds {
				numberFrom(buf, round)
				ok(t, p.Start())
				ok(t, p.ReadyRange(4, 7))
				ok(t, p.ReadyRange(0, 3))
				must(p.Wait())(t)
			}
			ok(t, mpi.Send(c, []int{0}, 1, 1))
			ok(t, p.Free())
			return
		}
		must(mpi.Recv(c, []int{0}, 0, 1))(t)
		p := must(mpi.PrecvInit(c, buf, parts/2, 0, 1))(t)
		for round := range rounds {
			clear(buf)
			ok(t, p.Start())
			if round%2 == 0 {
				for done := false; !done; {
					var err error
					_, done, err = p.Test()
					ok(t, err)
				}
			} else {
				must(p.Wait())(t)
			}
			for i := range parts / 2 {
				awaitPart(t, p, buf, parts/2, i, round)
			}
		}
		ok(t, p.Free())
	}, hangTimeout)
}

// A partition can be used while others are missing. A long one moves although the receiver is in no call of its operation.
func TestPartitionedArrived(t *testing.T) {
	for _, n := range []int{400, 400_000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			run(t, 2, func(t *testing.T, c *mpi.Comm) {
				buf := make([]int32, n)
				if c.Rank() == 0 {
					numberFrom(buf, 7)
					p := must(mpi.PsendInit(c, buf, 4, 1, 1))(t)
					ok(t, p.Start())
					ok(t, p.Ready(1))
					must(mpi.Recv(c, []int{0}, 1, 1))(t)
					ok(t, p.ReadyRange(2, 3))
					ok(t, p.Ready(0))
					must(p.Wait())(t)
					ok(t, c.Barrier())
					return
				}
				p := must(mpi.PrecvInit(c, buf, 2, 0, 1))(t)
				q := must(mpi.PrecvInit(c, buf[:0], 2, 0, 2))(t) // without a sender
				ok(t, mpi.Start(p.Persistent, q.Persistent))
				for range 100 {
					if must(p.Arrived(0))(t) || must(q.Arrived(1))(t) {
						t.Error("a partition has arrived of which half is missing")
					}
				}
				ok(t, mpi.Send(c, []int{0}, 0, 1))
				awaitPart(t, p, buf, 2, 1, 7)
				ok(t, c.Barrier())
				must(p.Wait())(t)
				awaitPart(t, p, buf, 2, 0, 7)
				ok(t, p.Free())
				if err := q.Free(); !errors.Is(err, mpi.ErrArgument) {
					t.Errorf("Free of an active operation: %v, want %v", err, mpi.ErrArgument)
				}
			}, hangTimeout)
		})
	}
}

// A rank sends to itself. It may do so before it receives.
func TestPartitionedSelf(t *testing.T) {
	for _, n := range []int{60, 200_000} {
		for _, early := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d/%v", n, early), func(t *testing.T) {
				run(t, 1, func(t *testing.T, c *mpi.Comm) {
					out, in := make([]int32, n), make([]int32, n)
					r := must(mpi.PrecvInit(c, in, 2, 0, 3))(t)
					s := must(mpi.PsendInit(c, out, 4, 0, 3))(t)
					for round := range 10 {
						numberFrom(out, round)
						if early {
							ok(t, s.Start())
							readyAll(t, s, 4)
							must(s.Wait())(t)
							ok(t, r.Start())
						} else {
							ok(t, mpi.Start(r.Persistent, s.Persistent))
							readyAll(t, s, 4)
							must(s.Wait())(t)
						}
						awaitPart(t, r, in, 2, 1, round)
						must(r.Wait())(t)
						awaitPart(t, r, in, 2, 0, round)
					}
					ok(t, s.Free())
					ok(t, r.Free())
				}, hangTimeout)
			})
		}
	}
}

// With ProcNull everything succeeds at once.
func TestPartitionedProcNull(t *testing.T) {
	run(t, 1, func(t *testing.T, c *mpi.Comm) {
		buf := make([]int, 6)
		s := must(mpi.PsendInit(c, buf, 3, mpi.ProcNull, 1))(t)
		r := must(mpi.PrecvInit(c, buf, 2, mpi.ProcNull, 1))(t)
		for range 3 {
			ok(t, s.Start())
			ok(t, r.Start())
			ok(t, s.ReadyRange(0, 1))
			ok(t, s.Ready(2))
			if !must(r.Arrived(1))(t) {
				t.Error("a partition from ProcNull has not arrived")
			}
			must(s.Wait())(t)
			if st := must(r.Wait())(t); st.Source != mpi.ProcNull || st.Bytes != 0 {
				t.Errorf("status %+v, want that of ProcNull", st)
			}
		}
		if err := s.Ready(3); !errors.Is(err, mpi.ErrArgument) {
			t.Errorf("Ready out of range: %v", err)
		}
		ok(t, s.Free())
		ok(t, r.Free())
	})
}

// wantUsage checks that an error is a UsageError with a cause that says something.
func wantUsage(t *testing.T, what string, err, cause error, says string) {
	t.Helper()
	e, is := errors.AsType[*mpi.UsageError](err)
	if !is || !errors.Is(err, cause) || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: error %v, want a UsageError with %v and %q", what, err, cause, says)
		return
	}
	if e.Op == "" {
		t.Errorf("%s: error %v names no function", what, err)
	}
}

// Mistakes are errors that say what is wrong.
func TestPartitionedMisuse(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		buf, other := make([]int, 12), 1-c.Rank()
		for what, x := range map[string]struct {
			err, cause error
			says       string
		}{
			"uneven send":    {errOf(mpi.PsendInit(c, buf, 5, other, 1)), mpi.ErrArgument, "12 elements, want a multiple of the 5"},
			"uneven receive": {errOf(mpi.PrecvInit(c, buf, 7, other, 1)), mpi.ErrArgument, "12 elements, want a multiple of the 7"},
			"no parts":       {errOf(mpi.PsendInit(c, buf, 0, other, 1)), mpi.ErrArgument, "0 partitions, want 1 to"},
			"many parts":     {errOf(mpi.PrecvInit(c, buf, 1<<21, other, 1)), mpi.ErrArgument, "2097152 partitions, want 1 to"},
			"any source":     {errOf(mpi.PrecvInit(c, buf, 1, mpi.AnySource, 1)), mpi.ErrRankRange, "AnySource"},
			"any tag":        {errOf(mpi.PrecvInit(c, buf, 1, other, mpi.AnyTag)), mpi.ErrTag, "AnyTag"},
			"rank":           {errOf(mpi.PsendInit(c, buf, 1, 2, 1)), mpi.ErrRankRange, "destination 2"},
			"tag":            {errOf(mpi.PsendInit(c, buf, 1, other, -1)), mpi.ErrTag, "tag -1"},
			"type":           {errOf(mpi.PsendInit(c, []*int{nil}, 1, other, 1)), mpi.ErrElementType, "*int"},
			"nil":            {errOf(mpi.PrecvInit(nil, buf, 1, other, 1)), mpi.ErrArgument, "nil"},
			"zero start":     {mpi.Partitioned{}.Start(), mpi.ErrArgument, "zero Partitioned"},
			"zero ready":     {mpi.Partitioned{}.Ready(0), mpi.ErrArgument, "zero Partitioned"},
			"zero range":     {mpi.Partitioned{}.ReadyRange(0, 0), mpi.ErrArgument, "zero Partitioned"},
			"zero arrived":   {errOf(mpi.Partitioned{}.Arrived(0)), mpi.ErrArgument, "zero Partitioned"},
			"zero free":      {mpi.Partitioned{}.Free(), mpi.ErrArgument, "zero Partitioned"},
		} {
			wantUsage(t, what, x.err, x.cause, x.says)
		}
		s := must(mpi.PsendInit(c, buf, 3, other, 1))(t)
		r := must(mpi.PrecvInit(c, make([]int, 12), 4, other, 1))(t)
		wantUsage(t, "Ready before Start", s.Ready(0), mpi.ErrArgument, "Start")
		wantUsage(t, "Arrived before Start", errOf(r.Arrived(0)), mpi.ErrArgument, "Start")
		ok(t, mpi.Start(s.Persistent, r.Persistent))
		wantUsage(t, "Start again", s.Start(), mpi.ErrArgument, "active")
		wantUsage(t, "Ready of a receive", r.Ready(0), mpi.ErrArgument, "receive")
		wantUsage(t, "Arrived of a send", errOf(s.Arrived(0)), mpi.ErrArgument, "send")
		wantUsage(t, "Ready out of range", s.Ready(3), mpi.ErrArgument, "partition 3, want 0 to 2")
		wantUsage(t, "Ready below", s.ReadyRange(-1, 1), mpi.ErrArgument, "partition -1, want 0 to 2")
		wantUsage(t, "Ready turned", s.ReadyRange(2, 1), mpi.ErrArgument, "2 to 1")
		wantUsage(t, "Arrived out of range", errOf(r.Arrived(4)), mpi.ErrArgument, "partition 4, want 0 to 3")
		ok(t, s.Ready(1))
		wantUsage(t, "Ready again", s.Ready(1), mpi.ErrArgument, "partition 1 is ready already")
		wantUsage(t, "Ready of a range again", s.ReadyRange(0, 2), mpi.ErrArgument, "partition 1 is ready already")
		wantUsage(t, "Free", s.Free(), mpi.ErrArgument, "active")
		ok(t, s.Ready(0))
		ok(t, s.Ready(2))
		wantUsage(t, "Ready when all are", s.Ready(2), mpi.ErrArgument, "partition 2 is ready already")
		must(s.Wait())(t)
		must(r.Wait())(t)
		wantUsage(t, "Ready after Wait", s.Ready(2), mpi.ErrArgument, "Start")
		for _, p := range []mpi.Partitioned{s, r} {
			ok(t, p.Free())
			wantUsage(t, "Free again", p.Free(), mpi.ErrArgument, "freed")
			wantUsage(t, "Start after Free", p.Start(), mpi.ErrArgument, "freed")
		}
		wantUsage(t, "Ready after Free", s.Ready(0), mpi.ErrArgument, "freed")
		wantUsage(t, "Arrived after Free", errOf(r.Arrived(0)), mpi.ErrArgument, "freed")
	}, hangTimeout)
}

// If the sides differ in bytes, the receiver has an error in each round, and its buffer is as it was. The sender goes on, also with long partitions.
func TestPartitionedMismatch(t *testing.T) {
	for _, n := range []int{60, 600_000} {
		for _, more := range []int{-30, 30} {
			t.Run(fmt.Sprintf("%d/%d", n, more), func(t *testing.T) {
				run(t, 2, func(t *testing.T, c *mpi.Comm) {
					if c.Rank() == 0 {
						p := must(mpi.PsendInit(c, make([]int32, n), 3, 1, 1))(t)
						for range 3 {
							ok(t, p.Start())
							readyAll(t, p, 3)
							must(p.Wait())(t)
						}
						ok(t, p.Free())
						ok(t, c.Barrier())
						return
					}
					buf := make([]int32, n+more)
					numberFrom(buf, 1)
					p := must(mpi.PrecvInit(c, buf, 2, 0, 1))(t)
					for range 3 {
						ok(t, p.Start())
						wantUsage(t, "Wait", errOf(p.Wait()), mpi.ErrMismatch, fmt.Sprintf("rank 0 sends %d bytes in 3 partitions, want the %d bytes", 4*n, 4*len(buf)))
						if arrived, err := p.Arrived(0); arrived || !errors.Is(err, mpi.ErrMismatch) {
							t.Errorf("Arrived: %v, %v, want %v", arrived, err, mpi.ErrMismatch)
						}
					}
					ok(t, p.Free())
					ok(t, c.Barrier())
					for i, v := range buf {
						if v != int32(1+i) {
							t.Fatalf("element %d is %d, want it as it was", i, v)
						}
					}
				}, hangTimeout)
			})
		}
	}
}

// Operations with the same tag match in the order of their Init calls, whatever the order of their rounds. What receives and probes of the program find is
// its messages only.
func TestPartitionedMatching(t *testing.T) {
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		const ops, n = 6, 24
		dst, src := (c.Rank()+1)%3, (c.Rank()+2)%3
		wild := must(mpi.Irecv(c, make([]int32, n), mpi.AnySource, mpi.AnyTag))(t)
		sends, receives := make([]mpi.Partitioned, ops), make([]mpi.Partitioned, ops)
		in := make([][]int32, ops)
		for i := range ops { // even ones have tag 0, odd ones tag 1
			out := make([]int32, n)
			numberFrom(out, 100*i)
			sends[i] = must(mpi.PsendInit(c, out, 4, dst, i%2))(t)
		}
		for _, tag := range []int{1, 0} {
			for i := tag; i < ops; i += 2 {
				in[i] = make([]int32, n)
				receives[i] = must(mpi.PrecvInit(c, in[i], 3, src, tag))(t)
			}
		}
		for range 20 {
			for _, i := range rand.Perm(ops) {
				ok(t, sends[i].Start())
				readyAll(t, sends[i], 4)
			}
			for _, i := range rand.Perm(ops) {
				clear(in[i])
				ok(t, receives[i].Start())
			}
			for _, i := range rand.Perm(ops) {
				must(receives[i].Wait())(t)
				must(sends[i].Wait())(t)
				for part := range 3 {
					awaitPart(t, receives[i], in[i], 3, part, 100*i)
				}
			}
			if _, found, err := c.Iprobe(mpi.AnySource, mpi.AnyTag); found || err != nil {
				t.Errorf("Iprobe found a message: %v, %v", found, err)
			}
		}
		if _, done, err := wild.Test(); done || err != nil {
			t.Fatalf("a receive from wild source got something: %v, %v", done, err)
		}
		ok(t, c.Barrier()) // all have looked before one sends
		ok(t, mpi.Send(c, []int32{-5}, dst, 9))
		if s := must(wild.Wait())(t); s.Source != src || s.Tag != 9 || s.Count != 1 {
			t.Errorf("the receive from wild source got %+v", s)
		}
		for i := range ops {
			ok(t, sends[i].Free())
			ok(t, receives[i].Free())
		}
	}, hangTimeout)
}

// A sender that has taken all tags begins anew with those that no live operation has.
func TestPartitionedTags(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		mpi.LastPartTags(c, 1-c.Rank(), 25)
		var sends, receives []mpi.Partitioned
		var in [][]int32
		out := make([]int32, 40)
		numberFrom(out, 0)
		for i := range 6 { // the third one begins anew
			sends = append(sends, must(mpi.PsendInit(c, out[:20+i], 1, 1-c.Rank(), 0))(t))
			in = append(in, make([]int32, 20+i))
			receives = append(receives, must(mpi.PrecvInit(c, in[i], 1, 1-c.Rank(), 0))(t))
			if i == 1 {
				mpi.LastPartTags(c, 1-c.Rank(), 0)
			}
		}
		mpi.LastPartTags(c, 1-c.Rank(), 25)
		sends = append(sends, must(mpi.PsendInit(c, out, 40, 1-c.Rank(), 0))(t))
		in = append(in, make([]int32, 40))
		receives = append(receives, must(mpi.PrecvInit(c, in[6], 20, 1-c.Rank(), 0))(t))
		for i, s := range sends {
			ok(t, s.Start())
			ok(t, receives[i].Start())
			ok(t, s.ReadyRange(0, max(0, 40*(i/6)-1)))
			must(receives[i].Wait())(t)
			must(s.Wait())(t)
			awaitPart(t, receives[i], in[i], 1, 0, 0)
		}
	}, hangTimeout)
}

// ReadyList makes partitions ready in any order. After an error none of its list is.
func TestPartitionedList(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		const n, parts = 600, 6
		other := 1 - c.Rank()
		out, in := make([]int32, n), make([]int32, n)
		s := must(mpi.PsendInit(c, out, parts, other, 5))(t)
		r := must(mpi.PrecvInit(c, in, parts, other, 5))(t)
		for round := range 3 {
			numberFrom(out, 1000*round)
			ok(t, mpi.Start(r.Persistent, s.Persistent))
			for _, list := range [][]int{{1, 5, 1}, {0, parts}, {-1}} {
				if err := s.ReadyList(list...); !errors.Is(err, mpi.ErrArgument) {
					t.Errorf("ReadyList of %v: %v, want %v", list, err, mpi.ErrArgument)
				}
			}
			ok(t, s.ReadyList())
			ok(t, s.ReadyList(5, 0, 2))
			awaitPart(t, r, in, parts, 2, 1000*round)
			if err := s.ReadyList(1, 2); !errors.Is(err, mpi.ErrArgument) {
				t.Errorf("ReadyList with one that is ready: %v, want %v", err, mpi.ErrArgument)
			}
			ok(t, s.ReadyList(1, 4, 3))
			must(r.Wait())(t)
			must(s.Wait())(t)
			for i := range parts {
				awaitPart(t, r, in, parts, i, 1000*round)
			}
		}
		if err := s.ReadyList(1); !errors.Is(err, mpi.ErrArgument) {
			t.Errorf("ReadyList between rounds: %v, want %v", err, mpi.ErrArgument)
		}
		if err := r.ReadyList(1); !errors.Is(err, mpi.ErrArgument) {
			t.Errorf("ReadyList of a receive: %v, want %v", err, mpi.ErrArgument)
		}
		if err := (mpi.Partitioned{}).ReadyList(1); !errors.Is(err, mpi.ErrArgument) {
			t.Errorf("ReadyList of the zero Partitioned: %v, want %v", err, mpi.ErrArgument)
		}
		ok(t, s.Free())
		ok(t, r.Free())
	}, hangTimeout)
}
