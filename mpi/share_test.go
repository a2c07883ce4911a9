package mpi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
)

// forEachWay runs body with both ways of long messages: copied by both sides, and through the
// lanes, as where the kernel lets no process read another one's memory.
func forEachWay(t *testing.T, ranks int, body func(t *testing.T, c *mpi.Comm)) {
	for _, lanes := range []bool{false, true} {
		t.Run(fmt.Sprintf("lanes=%v", lanes), func(t *testing.T) {
			runWith(t, ranks, func(t *testing.T, _ *shmem.World) {
				if lanes {
					mpi.LanesOnly()
				}
				w := must(mpi.Init())(t)
				body(t, w.Comm())
				if !t.Failed() {
					ok(t, w.Finalize())
				}
			}, hangTimeout)
		})
	}
}

// More long messages at a time than a lane has shares, in both directions, to receives posted
// before and after them, whole and truncated, arrive as they were sent.
func TestManyLong(t *testing.T) {
	sizes := []int{16<<10 + 1, 32<<10 - 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, 200_000, 1 << 20, 5<<20 + 13}
	forEachWay(t, 3, func(t *testing.T, c *mpi.Comm) {
		next, last := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
		for round := range 3 {
			var sends, recvs []mpi.Request
			in := make([][]byte, 2*len(sizes))
			receive := func() {
				for i := range in {
					in[i] = make([]byte, sizes[i/2])
					src := last
					if i%2 == 1 {
						src = mpi.AnySource
					}
					recvs = append(recvs, must(mpi.Irecv(c, in[i], src, i))(t))
				}
			}
			if round%2 == 0 {
				receive()
			}
			for i := range in {
				sends = append(sends, must(mpi.Isend(c, message(sizes[i/2], i), next, i))(t))
			}
			if round%2 == 1 {
				receive()
			}
			ok(t, mpi.WaitAll(recvs, nil))
			ok(t, mpi.WaitAll(sends, nil))
			for i := range in {
				checkMessage(t, in[i], i)
			}
			short := make([]byte, 100_000)
			r := must(mpi.Irecv(c, short, last, 99))(t)
			ok(t, mpi.Send(c, message(1<<20, 7), next, 99))
			if s, err := r.Wait(); !errors.Is(err, mpi.ErrTruncated) || s.Bytes != len(short) || !bytes.Equal(short, message(1<<20, 7)[:len(short)]) {
				t.Fatalf("a truncated message: got %+v, %v, want %v and the first bytes", s, err, mpi.ErrTruncated)
			}
		}
	})
}

// A sender that gives up in the middle of a message may overwrite it. The receiver gets all of the
// old contents, or an error.
func TestSenderGivesUp(t *testing.T) {
	const n, rounds = 6 << 20, 200
	forEachWay(t, 2, func(t *testing.T, c *mpi.Comm) {
		if c.Rank() == 0 {
			out := make([]byte, n)
			for i := range rounds {
				fill(out, byte(i+1))
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(600))*time.Microsecond)
				err := mpi.Send(c.With(ctx), out, 1, i)
				cancel()
				if err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Fatal(err)
				}
				fill(out, 255)
				ok(t, mpi.Send(c, out[:1], 1, rounds+i))
			}
			return
		}
		in := make([]byte, n)
		given := 0
		for i := range rounds {
			r := must(mpi.Irecv(c, in, 0, i))(t)
			ended := false
			for until := time.Now().Add(time.Duration(rand.IntN(3000)) * time.Microsecond); !ended && time.Now().Before(until); {
				var err error
				if _, ended, err = r.Test(); ended {
					wantFilled(t, in, byte(i+1), err, &given)
				}
			}
			must(mpi.Recv(c, in[n-1:], 0, rounds+i))(t)
			if ended {
				continue
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond) // ends by this only if it was given up before it matched
			in[n-1] = byte(i + 1)
			_, err := r.With(ctx).Wait()
			cancel()
			if errors.Is(err, context.DeadlineExceeded) {
				given++
				in = make([]byte, n) // the request still uses the old buffer
				continue
			}
			wantFilled(t, in, byte(i+1), err, &given)
		}
		t.Logf("%d of %d given up", given, rounds)
	})
}

// A receiver that gives up in the middle of a message has its buffer back: nothing is written to
// it any more.
func TestReceiverGivesUp(t *testing.T) {
	// On a slow machine there are fewer rounds, so that the job ends in time.
	const n, rounds, lasts, stride = 16 << 20, 100, 5 * time.Second, 32 << 10
	forEachWay(t, 2, func(t *testing.T, c *mpi.Comm) {
		if c.Rank() == 0 {
			out := make([]byte, n)
			fill(out, 1)
			more := []bool{true}
			for i := 0; more[0]; i++ {
				r := must(mpi.Isend(c, out, 1, i))(t)
				ok(t, mpi.Send(c, out[:1], 1, rounds)) // arrives after the announcement
				must(mpi.Recv(c, more, 1, i))(t)
				must(r.Wait())(t)
			}
			return
		}
		in := make([]byte, n)
		given, more := 0, []bool{true}
		for i, begun := 0, time.Now(); more[0]; i++ {
			fill(in, 0)
			must(mpi.Recv(c, in[:1], 0, rounds))(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(2000))*time.Microsecond)
			_, err := mpi.Recv(c.With(ctx), in, 0, i)
			cancel()
			switch {
			case err == nil:
				wantFilled(t, in, 1, nil, &given)
			case errors.Is(err, context.DeadlineExceeded):
				given++
				for at := 0; at < n; at += stride { // before a part that is being written could end
					in[at] = 2
				}
			default:
				t.Fatal(err)
			}
			more[0] = i+1 < rounds && time.Since(begun) < lasts
			ok(t, mpi.Send(c, more, 0, i))
			if err != nil {
				for at := 0; at < n; at += stride {
					if in[at] != 2 {
						t.Fatalf("message %d: byte %d was written after Recv had failed", i, at)
					}
				}
			}
		}
		t.Logf("%d of at most %d given up", given, rounds)
	})
}

func fill(buf []byte, v byte) {
	buf[0] = v
	for done := 1; done < len(buf); done *= 2 {
		copy(buf[done:], buf[:done])
	}
}

// wantFilled fails the test unless the buffer is all v or the message was given up.
func wantFilled(t *testing.T, buf []byte, v byte, err error, given *int) {
	t.Helper()
	if errors.Is(err, mpi.ErrCanceled) {
		*given++
		return
	}
	ok(t, err)
	if same := bytes.Count(buf, []byte{v}); same != len(buf) {
		t.Fatalf("%d of %d bytes are not %d, want all", len(buf)-same, len(buf), v)
	}
}
