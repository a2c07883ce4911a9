package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// Long messages between nodes, from and to symmetric and private memory, for receives whose buffer may be written to by others and for those
// that have a deadline. Some are truncated.
func TestFarLong(t *testing.T) {
	const most = 700_001
	runWith(t, 4, func(t *testing.T, sw *shmem.World) {
		w, c, x := withBytes(t, sw, most)
		y := must(shmem.Calloc[byte](sw, most))(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		next, prev := (c.Rank()+1)%4, (c.Rank()+3)%4
		which := 0
		for _, n := range []int{16<<10 + 1, 64 << 10, 300_000, most} {
			for _, from := range [][]byte{x.Local(), make([]byte, most)} {
				for _, to := range [][]byte{y.Local(), make([]byte, most)} {
					for _, with := range []*mpi.Comm{c, c.With(ctx)} {
						which++
						copy(from, message(n, which*4+c.Rank()))
						clear(to)
						r := must(mpi.Isend(c, from[:n], next, which))(t)
						room := n
						if which%3 == 0 {
							room = n - 1000
						}
						s, err := mpi.Recv(with, to[:room], prev, which)
						if errors.Is(err, mpi.ErrTruncated) != (room < n) || room == n && err != nil {
							t.Fatalf("receive of %d bytes into %d: %v", n, room, err)
						}
						if s.Bytes != room || s.Source != prev {
							t.Fatalf("status %+v, want %d bytes from rank %d", s, room, prev)
						}
						want := message(n, which*4+prev)
						if string(to[:room]) != string(want[:room]) || room < most && to[room] != 0 {
							t.Fatalf("message %d of %d bytes has other data, or more of them", which, n)
						}
						must(r.Wait())(t)
					}
				}
			}
		}
		ok(t, w.Finalize())
	}, shmemtest.HeapSize(8<<20), shmemtest.Nodes(1, 2, 4))
}

// A send from the symmetric heap that its context has ended delivers nothing: neither its message nor what is there later.
func TestFarGivenUp(t *testing.T) {
	const long = 300_000
	runWith(t, 2, func(t *testing.T, sw *shmem.World) {
		w, c, x := withBytes(t, sw, long)
		switch c.Rank() {
		case 0:
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			if err := mpi.Send(c.With(gone), x.Local(), 1, 8); !errors.Is(err, context.Canceled) {
				t.Errorf("send without a receive: error %v, want %v", err, context.Canceled)
			}
			copy(x.Local(), message(long, 5))
			ok(t, mpi.Send(c, []int{0}, 1, 9))
		case 1:
			must(mpi.Recv(c, []int{0}, 0, 9))(t)
			if _, err := mpi.Recv(c, make([]byte, long), 0, 8); !errors.Is(err, mpi.ErrCanceled) {
				t.Errorf("receive of a message that was given up: error %v, want %v", err, mpi.ErrCanceled)
			}
		}
		ok(t, w.Finalize())
	}, hangTimeout, shmemtest.Nodes(1, 2))
}

// A program makes worlds of both packages, in any order, and each begins clean.
func TestFarWorldsAgain(t *testing.T) {
	runBare(t, 4, func(t *testing.T) {
		sw := must(shmem.Init())(t) // holds the job, as a program may
		for round := range 6 {
			w := must(mpi.Init())(t)
			c := w.Comm()
			next, prev := (c.Rank()+1)%4, (c.Rank()+3)%4
			must(mpi.Isend(c, message(100, round), next, 9))(t) // nobody receives it
			got := make([]byte, 1000)
			must(mpi.Sendrecv(c, message(1000, round), next, 1, got, prev, 1))(t)
			checkMessage(t, got, round)
			sum := []int{c.Rank() + round}
			ok(t, mpi.Allreduce(c, sum, sum, mpi.Sum))
			if sum[0] != 6+4*round {
				t.Fatalf("round %d: sum %d, want %d", round, sum[0], 6+4*round)
			}
			if round%2 == 1 { // a world of shmem ends and begins while that of mpi lives
				ok(t, sw.Finalize())
				sw = must(shmem.Init())(t)
				ok(t, sw.Barrier())
			}
			ok(t, c.Barrier())
			if round == 4 { // the whole job is left and joined again
				ok(t, sw.Finalize())
				ok(t, w.Finalize())
				sw = must(shmem.Init())(t)
				continue
			}
			ok(t, w.Finalize())
		}
		ok(t, sw.Finalize())
	}, hangTimeout, shmemtest.Nodes(1, 2, 4))
}

// A rank that leaves because of a death tells ranks of other nodes, after all that it has sent.
func TestFarLeft(t *testing.T) {
	runBare(t, 4, func(t *testing.T) {
		w := must(mpi.Init())(t)
		c := w.Comm()
		switch c.Rank() {
		case 3:
			die()
		case 0:
			for len(c.Failed()) == 0 {
				_, err := mpi.Recv(c, []byte{}, 3, 1)
				wantDeathError(t, "Recv", err, 3)
			}
			for k := range 300 {
				ok(t, mpi.Send(c, message(k*50, k), 2, 5))
			}
			ok(t, w.Finalize())
			return
		case 2:
			buf := make([]byte, 300*50)
			for k := range 300 {
				s := must(mpi.Recv(c, buf, 0, 5))(t)
				checkMessage(t, buf[:s.Bytes], k)
			}
			wantLeft(t, "Recv", errOf(mpi.Recv(c, buf, 0, 5)), 0)
			wantLeft(t, "Send", mpi.Send(c, make([]byte, 100_000), 0, 5), 0)
		}
		ok(t, w.Finalize())
	}, hangTimeout, shmemtest.Recover(3), shmemtest.Nodes(2, 4))
}

// Data of collectives between nodes are those of one node, whatever their length.
func TestFarCollectives(t *testing.T) {
	for _, n := range []int{0, 1, 100, 1023, 1024, 5000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			run(t, 5, func(t *testing.T, c *mpi.Comm) {
				src, dst := make([]int64, n), make([]int64, n)
				for root := range 5 {
					for i := range src {
						src[i], dst[i] = value(c.Rank(), i), value(root, i)
					}
					if c.Rank() != root {
						clear(dst)
					}
					ok(t, mpi.Bcast(c, dst, root))
					for i, v := range dst {
						if v != value(root, i) {
							t.Fatalf("element %d of a broadcast is %d, want %d", i, v, value(root, i))
						}
					}
					// An operator that does not commute shows the order of the ranks.
					ok(t, mpi.Reduce(c, dst, src, func(acc, in []int64) {
						for i := range acc {
							acc[i] = acc[i]*3 + in[i]
						}
					}, root))
					for i, v := range dst {
						want := value(0, i)
						for rank := 1; rank < 5; rank++ {
							want = want*3 + value(rank, i)
						}
						if c.Rank() == root && v != want {
							t.Fatalf("element %d of a reduction is %d, want %d", i, v, want)
						}
					}
				}
				if err := mpi.Bcast(c, dst, c.Rank()); c.Size() > 1 && !errors.Is(err, mpi.ErrMismatch) {
					t.Errorf("broadcasts of different roots: %v, want %v", err, mpi.ErrMismatch)
				}
				ok(t, c.Barrier())
			}, shmemtest.Nodes(2, 4))
		})
	}
}

// Communicators of ranks of one node, and of ranks of several nodes, are made of a world of several.
func TestFarSplit(t *testing.T) {
	run(t, 4, func(t *testing.T, c *mpi.Comm) {
		d := must(c.Split(c.Rank()/2, -c.Rank()))(t) // with 2 ranks on each node
		if d.Size() != 2 || d.Rank() != 1-c.Rank()%2 {
			t.Fatalf("rank %d of %d, want rank %d of 2", d.Rank(), d.Size(), 1-c.Rank()%2)
		}
		sum := []int{c.Rank()}
		ok(t, mpi.Allreduce(d, sum, sum, mpi.Sum))
		if want := c.Rank()/2*4 + 1; sum[0] != want {
			t.Errorf("sum %d, want %d", sum[0], want)
		}
		got := []int{0}
		must(mpi.Sendrecv(d, []int{c.Rank()}, 1-d.Rank(), 1, got, 1-d.Rank(), 1))(t)
		if got[0] != c.Rank()^1 {
			t.Errorf("got %d, want %d", got[0], c.Rank()^1)
		}
		ok(t, d.Free())
		across := must(c.Split(c.Rank()%2, 0))(t)
		tryComm(t, across, 5)
		ok(t, across.Free())
		if d := must(c.Split(mpi.Undefined, 0))(t); d != nil {
			t.Error("a communicator for no color")
		}
		ok(t, c.Barrier())
	}, shmemtest.Nodes(2))
}
