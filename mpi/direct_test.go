package mpi_test

import (
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/goshmem/goshmem/mpi"
)

// A receive that posts nothing still comes after posted receives and after the messages of its
// sender that were kept, and takes no message that does not match.
func TestDirectOrder(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		const a, b, long = 1, 2, 3
		if c.Rank() == 0 {
			for which, tag := range []int{a, a, b, a, long, b, a} {
				ok(t, mpi.Send(c, message(40+60*(which%2), which), 1, tag)) // fits into a cell, or needs data after the cells
			}
			ok(t, c.Barrier())
			return
		}
		ok(t, c.Barrier()) // all messages are in the lane, or kept
		get := func(which, tag, as int) {
			t.Helper()
			buf := make([]byte, 40+60*(which%2))
			s := must(mpi.Recv(c, buf, 0, tag))(t)
			checkMessage(t, buf, which)
			if want := (mpi.Status{Source: 0, Tag: as, Count: len(buf), Bytes: len(buf)}); s != want {
				t.Errorf("message %d: got status %+v, want %+v", which, s, want)
			}
		}
		get(2, b, b) // the first two messages are kept
		first := make([]byte, 40)
		posted := must(mpi.Irecv(c, first, 0, mpi.AnyTag))(t) // takes the first kept message
		_ = must(posted.Wait())(t)
		checkMessage(t, first, 0)
		get(1, mpi.AnyTag, a)
		get(3, mpi.AnyTag, a)
		if s, err := mpi.Recv(c, make([]byte, 39), 0, long); !errors.Is(err, mpi.ErrTruncated) || s.Bytes != 39 {
			t.Errorf("a receive into a short buffer returned %+v and %v, want 39 bytes and ErrTruncated", s, err)
		}
		get(6, a, a) // after a message with another tag
		get(5, mpi.AnyTag, b)
	})
}

// A receive takes no message that matches a receive posted before it.
func TestDirectBehindPosted(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		const rounds = 300
		if c.Rank() == 0 {
			for i := range rounds {
				_ = must(mpi.Recv(c, make([]int, 0), 1, 0))(t)
				ok(t, mpi.Send(c, []int{2 * i}, 1, i%5))
				ok(t, mpi.Send(c, []int{2*i + 1}, 1, i%3))
			}
			return
		}
		var first, second [1]int
		for i := range rounds {
			posted := must(mpi.Irecv(c, first[:], 0, mpi.AnyTag))(t)
			ok(t, mpi.Send(c, []int{}, 0, 0)) // from here on the messages arrive
			s := must(mpi.Recv(c, second[:], 0, mpi.AnyTag))(t)
			_ = must(posted.Wait())(t)
			if first[0] != 2*i || second[0] != 2*i+1 || s.Tag != i%3 {
				t.Fatalf("got %d and %d with tag %d, want %d and %d with tag %d", first, second, s.Tag, 2*i, 2*i+1, i%3)
			}
		}
	})
}

// A receive takes a kept message of its sender before one that is still in the lane.
func TestDirectBehindKept(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		const a, b = 1, 2
		if c.Rank() == 0 {
			ok(t, mpi.Send(c, message(40, 0), 1, a))
			ok(t, mpi.Send(c, message(400, 1), 1, a))
			ok(t, mpi.Send(c, message(0, 2), 1, b))
			_ = must(mpi.Recv(c, []byte{}, 1, b))(t)
			ok(t, mpi.Send(c, message(40, 3), 1, a))
			return
		}
		_ = must(mpi.Recv(c, []byte{}, 0, b))(t)
		ok(t, mpi.Send(c, []byte{}, 0, b))
		for mpi.Pending(c, 0) == 0 {
			runtime.Gosched()
		}
		for which, n := range []int{40, 400} {
			buf := make([]byte, n)
			_ = must(mpi.Recv(c, buf, 0, []int{mpi.AnyTag, a}[which]))(t)
			checkMessage(t, buf, which)
		}
		buf := make([]byte, 40)
		_ = must(mpi.Recv(c, buf, 0, mpi.AnyTag))(t)
		checkMessage(t, buf, 3)
	})
}

// A receive does not take the next message of a lane if it belongs to another communicator, has
// another tag or is too long.
func TestDirectNext(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		const a, b = 1, 2
		other := must(c.Split(0, c.Rank()))(t)
		if c.Rank() == 0 {
			ok(t, mpi.Send(c, []byte{}, 1, a))
			for round, into := range []*mpi.Comm{other, c, c} {
				_ = must(mpi.Recv(c, []byte{}, 1, a))(t)
				ok(t, mpi.Send(c, message(9, round), 1, b))
				ok(t, mpi.Send(into, message(9, round+10), 1, a))
			}
			return
		}
		_ = must(mpi.Recv(c, []byte{}, 0, a))(t)
		begin := func() { // the lane has not been polled
			ok(t, mpi.Send(c, []byte{}, 0, a))
			for mpi.Pending(c, 0) == 0 {
				runtime.Gosched()
			}
		}
		get := func(from *mpi.Comm, tag, which int) {
			t.Helper()
			buf := make([]byte, 9)
			_ = must(mpi.Recv(from, buf, 0, tag))(t)
			checkMessage(t, buf, which)
		}
		begin()
		get(other, mpi.AnyTag, 10)
		get(c, b, 0)
		begin()
		get(c, a, 11)
		get(c, b, 1)
		begin()
		if _, err := mpi.Recv(c, make([]byte, 8), 0, b); !errors.Is(err, mpi.ErrTruncated) {
			t.Errorf("9 bytes into 8: %v, want ErrTruncated", err)
		}
		get(c, a, 12)
	})
}

// Everything else makes progress although each receive finds its message waiting.
func TestDirectProgress(t *testing.T) {
	runBare(t, 3, func(t *testing.T) {
		mpi.LanesOnly()
		w := must(mpi.Init())(t)
		c := w.Comm()
		const few, start, many, whole = 1, 2, 3, 4
		switch c.Rank() {
		case 0:
			long := must(mpi.Isend(c, message(100_000, 7), 2, whole))(t)
			for rank := range 2 {
				_ = must(mpi.Recv(c, make([]byte, 1), rank+1, few))(t)
			}
			for rank := range 2 { // from here on the others send while this rank polls nothing
				ok(t, mpi.Send(c, []byte{1}, rank+1, start))
			}
			for mpi.Pending(c, 1) == 0 || mpi.Pending(c, 2) == 0 { // rank 2 has a buffer for it
				runtime.Gosched()
			}
			for range mpi.DirectMost {
				_ = must(mpi.Recv(c, make([]byte, 1), 1, many))(t)
			}
			if mpi.Pending(c, 2) != 0 {
				t.Errorf("%d receives looked only at messages of rank 1", mpi.DirectMost)
			}
			_ = must(long.Wait())(t)
		case 1:
			ok(t, mpi.Send(c, []byte{1}, 0, few))
			_ = must(mpi.Recv(c, make([]byte, 1), 0, start))(t)
			for range mpi.DirectMost {
				ok(t, mpi.Send(c, []byte{1}, 0, many))
			}
		case 2:
			ok(t, mpi.Send(c, []byte{1}, 0, few))
			_ = must(mpi.Recv(c, make([]byte, 1), 0, start))(t)
			buf := make([]byte, 100_000)
			_ = must(mpi.Recv(c, buf, 0, whole))(t)
			checkMessage(t, buf, 7)
		}
		ok(t, w.Finalize())
	})
}

// Goroutines that receive at the same time get each message exactly once, and each tag's messages
// in the order in which they were sent.
func TestDirectConcurrently(t *testing.T) {
	forEachSize(t, func(t *testing.T, c *mpi.Comm) {
		const tags, rounds = 4, 400
		next, before := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
		var wg sync.WaitGroup
		for tag := range tags {
			wg.Go(func() {
				for i := range rounds {
					if err := mpi.Send(c, []int{i, tag}, next, tag); err != nil {
						t.Errorf("message %d with tag %d: %v", i, tag, err)
						return
					}
					var got [2]int
					if s, err := mpi.Recv(c, got[:], before, tag); err != nil || s.Tag != tag || got != [2]int{i, tag} {
						t.Errorf("got %d with tag %d and %v, want %d with tag %d", got, s.Tag, err, i, tag)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

// A rank that waits for an answer does not reuse the data room of messages that their receiver has
// not read.
func TestWarmRoom(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		const rounds, long, answer = 300, 1, 2 // more than there is room for
		size := func(i int) int { return 500 + i*97%7000 }
		if c.Rank() == 1 {
			_ = must(mpi.Recv(c, []byte{}, 0, answer))(t)
			for i := range rounds {
				// The other rank waits for it, but not so long that it posts its receive. It reads
				// nothing meanwhile.
				for spin := time.Now(); mpi.Pending(c, 0) <= i && time.Since(spin) < 20*time.Microsecond; {
					continue
				}
				ok(t, mpi.Send(c, []byte{byte(i)}, 0, answer))
			}
			for i := range rounds {
				buf := make([]byte, size(i))
				_ = must(mpi.Recv(c, buf, 0, long))(t)
				checkMessage(t, buf, i)
			}
			return
		}
		sends, all := make([]mpi.Request, rounds), make([][]byte, rounds)
		for i := range all {
			all[i] = message(size(i), i)
		}
		ok(t, mpi.Send(c, []byte{}, 1, answer))
		for i := range sends {
			sends[i] = must(mpi.Isend(c, all[i], 1, long))(t)
			_ = must(mpi.Recv(c, make([]byte, 1), 1, answer))(t)
		}
		ok(t, mpi.WaitAll(sends, nil))
	})
}
