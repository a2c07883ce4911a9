package mpi_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// newIntercomm connects the ranks below split with the others.
func newIntercomm(t *testing.T, c *mpi.Comm, split int) (x *mpi.Intercomm, side int) {
	t.Helper()
	if c.Rank() >= split {
		side = 1
	}
	local := must(c.Split(side, -c.Rank()))(t) // in the reverse order
	leader := local.Size() - 1                 // the lowest rank of c
	x = must(mpi.NewIntercomm(local, leader, c, []int{split, 0}[side], 7))(t)
	ok(t, local.Free())
	return x, side
}

// Messages and collectives go from one group to the other. Merge makes one communicator of both, in the order asked for.
func TestIntercomm(t *testing.T) {
	for _, n := range []int{2, 3, 5, 8} {
		run(t, n, func(t *testing.T, c *mpi.Comm) {
			split := (n + 1) / 2
			x, side := newIntercomm(t, c, split)
			sizes := []int{split, n - split}
			mine, theirs, me := sizes[side], sizes[1-side], x.Remote().Rank()
			if got := x.Local().Size(); got != mine || x.Local().Rank() != me || x.Remote().Size() != theirs {
				t.Fatalf("rank %d of %d, and %d others; want %d, %d, %d", x.Local().Rank(), got, x.Remote().Size(), me, mine, theirs)
			}
			id := func(side, rank int) int { return 100*side + rank }
			for rank := range theirs {
				ok(t, mpi.Send(x.Remote(), []int{id(side, me)}, rank, 1))
			}
			in := make([]int, 1)
			for rank := range theirs {
				s := must(mpi.Recv(x.Remote(), in, rank, 1))(t)
				if in[0] != id(1-side, rank) || s.Source != rank {
					t.Errorf("message of rank %d: %d, status %+v", rank, in[0], s)
				}
			}
			ok(t, x.Barrier())
			for root := range split { // in group 0
				buf := []int{0}
				as := root
				if side == 0 {
					as = mpi.ProcNull
					if me == root {
						as, buf[0] = mpi.Root, 55+root
					}
				}
				ok(t, mpi.InterBcast(x, buf, as))
				if side == 1 && buf[0] != 55+root {
					t.Errorf("InterBcast of root %d: %d", root, buf[0])
				}
				sum := []int{-1}
				ok(t, mpi.InterReduce(x, sum, []int{me + 1}, mpi.Sum, as))
				if want := theirs * (theirs + 1) / 2; as == mpi.Root && sum[0] != want {
					t.Errorf("InterReduce: %d, want %d", sum[0], want)
				}
			}
			sum := []int{0}
			ok(t, mpi.InterAllreduce(x, sum, []int{me + 1}, mpi.Sum))
			if want := theirs * (theirs + 1) / 2; sum[0] != want {
				t.Errorf("InterAllreduce: %d, want %d", sum[0], want)
			}
			all, want := make([]int, theirs), []int(nil)
			for rank := range theirs {
				want = append(want, id(1-side, rank))
			}
			ok(t, mpi.InterAllgather(x, all, []int{id(side, me)}))
			if !slices.Equal(all, want) {
				t.Errorf("InterAllgather: %v, want %v", all, want)
			}
			give := make([]int, theirs)
			for rank := range give {
				give[rank] = 1000*id(side, me) + rank
			}
			ok(t, mpi.InterAlltoall(x, all, give))
			for rank := range theirs {
				if all[rank] != 1000*id(1-side, rank)+me {
					t.Errorf("InterAlltoall: %v", all)
				}
			}
			for _, high := range []int{0, 1} {
				m := must(x.Merge(side == high))(t)
				want := me
				if side == high {
					want += theirs
				}
				if m.Size() != n || m.Rank() != want {
					t.Errorf("merged: rank %d of %d, want %d of %d", m.Rank(), m.Size(), want, n)
				}
				tryComm(t, m, 3)
				ok(t, m.Free())
			}
			if err := x.Remote().Barrier(); !errors.Is(err, mpi.ErrArgument) {
				t.Errorf("Barrier of Remote: %v", err)
			}
			if err := mpi.InterBcast(x, in, theirs); !errors.Is(err, mpi.ErrRankRange) {
				t.Errorf("InterBcast of a wrong root: %v", err)
			}
			ok(t, x.Free())
			if err := mpi.Send(x.Remote(), in, 0, 1); !errors.Is(err, mpi.ErrFreed) {
				t.Errorf("Send after Free: %v", err)
			}
		}, hangTimeout)
	}
}

// Groups that overlap are an error at all ranks.
func TestIntercommOverlap(t *testing.T) {
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		if _, err := mpi.NewIntercomm(c, 1, c, 1, 1); !errors.Is(err, mpi.ErrArgument) { // rank 1 meets itself
			t.Errorf("NewIntercomm: %v, want %v", err, mpi.ErrArgument)
		}
		if _, err := mpi.NewIntercomm(c, 1, c, 5, 1); err == nil {
			t.Error("NewIntercomm with a leader that there is not has succeeded")
		}
	}, hangTimeout)
}

// A rank dies: messages to it fail in the other group, and Revoke ends all calls of both.
func TestIntercommDeath(t *testing.T) {
	const n, split, victim = 4, 2, 3
	run(t, n, func(t *testing.T, c *mpi.Comm) {
		x, side := newIntercomm(t, c, split)
		_ = c.Barrier()
		if c.Rank() == victim { // rank 0 of group 1, as the order is reversed
			die()
		}
		if side == 0 {
			if _, err := mpi.Recv(x.Remote(), make([]int, 1), 0, 1); !errors.Is(err, mpi.ErrDied) && !errors.Is(err, mpi.ErrRevoked) {
				t.Errorf("Recv of the dead rank: %v", err)
			}
			ok(t, x.Revoke())
		} else if _, err := mpi.Recv(x.Remote(), make([]int, 1), 0, 1); !errors.Is(err, mpi.ErrRevoked) {
			t.Errorf("Recv of a living rank: %v, want %v", err, mpi.ErrRevoked)
		}
		if got, err := x.Agree(6); got != 6 || !errors.Is(err, mpi.ErrDied) {
			t.Errorf("Agree: %d, %v", got, err)
		}
		ok(t, x.Free())
	}, shmemtest.Recover(victim), hangTimeout)
}
