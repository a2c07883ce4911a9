package mpi_test

import (
	"errors"
	"math"
	"testing"

	"github.com/goshmem/goshmem/mpi"
)

// Bad arguments return an error that names the function, and move nothing.
func TestUsage(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		word, list := []int64{7}, []string{"x"}
		sizeless := []struct{}{{}}
		type node struct {
			_ int
			_ [2]*int
		}
		big := make([][9000]byte, 1)
		run := make([]int64, 3)
		for name, x := range map[string]struct {
			err  error
			want error
		}{
			"rank too large":        {mpi.Send(c, word, 2, 0), mpi.ErrRankRange},
			"send to any":           {mpi.Send(c, word, mpi.AnySource, 0), mpi.ErrRankRange},
			"rank far below":        {mpi.Send(c, word, -3, 0), mpi.ErrRankRange},
			"tag below 0":           {mpi.Send(c, word, 1, -2), mpi.ErrTag},
			"send any tag":          {mpi.Send(c, word, 1, mpi.AnyTag), mpi.ErrTag},
			"tag too large":         {mpi.Send(c, word, 1, mpi.MaxTag+1), mpi.ErrTag},
			"isend":                 {errOf(mpi.Isend(c, word, 2, 0)), mpi.ErrRankRange},
			"source too large":      {errOf(mpi.Recv(c, word, 2, 0)), mpi.ErrRankRange},
			"source far below":      {errOf(mpi.Recv(c, word, -3, 0)), mpi.ErrRankRange},
			"irecv tag":             {errOf(mpi.Irecv(c, word, 0, -2)), mpi.ErrTag},
			"recv tag":              {errOf(mpi.Recv(c, word, 0, math.MaxInt)), mpi.ErrTag},
			"strings":               {mpi.Send(c, list, 1, 0), mpi.ErrElementType},
			"pointers":              {errOf(mpi.Recv(c, []node{}, 1, 0)), mpi.ErrElementType},
			"no size":               {mpi.Bcast(c, sizeless, 0), mpi.ErrElementType},
			"nil comm":              {mpi.Send(nil, word, 1, 0), mpi.ErrArgument},
			"nil comm, barrier":     {(*mpi.Comm)(nil).Barrier(), mpi.ErrArgument},
			"zero comm":             {errOf(mpi.Recv(new(mpi.Comm), word, 0, 0)), mpi.ErrArgument},
			"sendrecv":              {errOf(mpi.Sendrecv(c, word, 9, 0, word, 1, 0)), mpi.ErrRankRange},
			"sendrecv, source":      {errOf(mpi.Sendrecv(c, word, 1, 0, word, 9, 0)), mpi.ErrRankRange},
			"bcast root":            {mpi.Bcast(c, word, 2), mpi.ErrRankRange},
			"reduce root":           {mpi.Reduce(c, word, word, mpi.Sum, -1), mpi.ErrRankRange},
			"allreduce lengths":     {mpi.Allreduce(c, word, []int64{1, 2}, mpi.Sum), mpi.ErrArgument},
			"allreduce no operator": {mpi.Allreduce(c, word, []int64{1}, nil), mpi.ErrArgument},
			"allreduce element":     {mpi.Allreduce(c, big, big, func(_, _ [][9000]byte) {}), mpi.ErrElementType},
			"allreduce overlap":     {mpi.Allreduce(c, run[:2], run[1:], mpi.Sum), mpi.ErrArgument},
			"reduce overlap":        {mpi.Reduce(c, run[1:], run[:2], mpi.Sum, c.Rank()), mpi.ErrArgument},
			"color":                 {errOf(c.Split(-2, 0)), mpi.ErrArgument},
			"free world":            {c.Free(), mpi.ErrArgument},
		} {
			var u *mpi.UsageError
			if !errors.Is(x.err, x.want) || !errors.As(x.err, &u) || u.Op == "" {
				t.Errorf("%s: error %v, want a UsageError with %v", name, x.err, x.want)
			}
		}
		if s, done, err := must(mpi.Irecv(c, word, mpi.AnySource, mpi.AnyTag))(t).Test(); done || err != nil {
			t.Errorf("a message has arrived: %+v, %v, want none", s, err)
		}
		var nothing mpi.Request
		if s, err := nothing.Wait(); err != nil || s != emptyStatus {
			t.Errorf("Wait of the zero Request: %+v, %v, want %+v", s, err, emptyStatus)
		}
		if c := (*mpi.Comm)(nil); c.Rank() != -1 || c.Size() != 0 || c.Failed() != nil || c.AckFailed() != nil || c.With(t.Context()) != nil {
			t.Error("a nil communicator has ranks or failures")
		}
		if err := (*mpi.World)(nil).Finalize(); !errors.Is(err, mpi.ErrArgument) {
			t.Errorf("Finalize of a nil World: error %v, want %v", err, mpi.ErrArgument)
		}
	})
}

// A message that is too long fills the buffer and is an error; the next one is not affected. Sends
// to ProcNull and receives from it do nothing.
func TestTruncationAndProcNull(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		for _, n := range []int{9, 3000, 60_000} {
			for _, first := range []bool{false, true} {
				in := make([]byte, n)
				if c.Rank() == 1 {
					if first {
						ok(t, c.Barrier())
					}
					ok(t, mpi.Send(c, message(n, 1), 0, 1))
					ok(t, mpi.Send(c, message(n, 2), 0, 1))
					if !first {
						ok(t, c.Barrier())
					}
					continue
				}
				if !first && n < 10_000 {
					ok(t, c.Barrier())
				}
				r := must(mpi.Irecv(c, in[:n-1], 1, 1))(t)
				if first {
					ok(t, c.Barrier())
				}
				s, err := r.Wait()
				if !errors.Is(err, mpi.ErrTruncated) || s.Bytes != n-1 {
					t.Errorf("%d bytes into a buffer of one less: got %+v, %v, want %d bytes and %v", n, s, err, n-1, mpi.ErrTruncated)
				}
				if in[n-1] != 0 || in[n-2] != messageByte(n-2, n, 1) {
					t.Errorf("%d bytes into a buffer of one less: the last bytes are %v", n, in[n-2:])
				}
				must(mpi.Recv(c, in, 1, 1))(t)
				checkMessage(t, in, 2)
				if !first && n >= 10_000 {
					ok(t, c.Barrier())
				}
			}
		}
		ok(t, mpi.Send(c, make([]byte, 100_000), mpi.ProcNull, 1))
		s := must(mpi.Recv(c, make([]int, 1), mpi.ProcNull, mpi.AnyTag))(t)
		if s.Source != mpi.ProcNull || s.Tag != mpi.AnyTag || s.Count != 0 {
			t.Errorf("receive from ProcNull: got status %+v, want ProcNull, AnyTag and no elements", s)
		}
		must(must(mpi.Isend(c, []int{1}, mpi.ProcNull, 1))(t).Wait())(t)
		must(must(mpi.Irecv(c, []int{1}, mpi.ProcNull, 1))(t).Wait())(t)
	})
}

// Counts are in elements of the receiver's type.
func TestCount(t *testing.T) {
	run(t, 1, func(t *testing.T, c *mpi.Comm) {
		type pair struct {
			a int32
			b float32
		}
		ok(t, mpi.Send(c, []pair{{1, 2}, {3, 4}, {5, 6}}, 0, 0))
		in := make([]pair, 5)
		if s := must(mpi.Recv(c, in, 0, 0))(t); s.Count != 3 || s.Bytes != 24 || in[2] != (pair{5, 6}) {
			t.Errorf("got status %+v and elements %v, want 3 elements of 24 bytes", s, in)
		}
		ok(t, mpi.Send(c, make([]byte, 11), 0, 0))
		if s := must(mpi.Recv(c, in, 0, 0))(t); s.Count != 1 || s.Bytes != 11 {
			t.Errorf("11 bytes received as elements of 8 bytes: got status %+v, want 1 element and 11 bytes", s)
		}
	})
}
