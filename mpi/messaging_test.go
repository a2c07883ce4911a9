package mpi_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// tryComm exchanges messages around a communicator, and makes a sum.
func tryComm(t *testing.T, c *mpi.Comm, mark int) {
	t.Helper()
	n, me := c.Size(), c.Rank()
	in := make([]int, 1)
	r := must(mpi.Irecv(c, in, (me+n-1)%n, 1))(t)
	ok(t, mpi.Send(c, []int{mark + me}, (me+1)%n, 1))
	must(r.Wait())(t)
	if want := mark + (me+n-1)%n; in[0] != want {
		t.Errorf("communicator %d: rank %d got %d, want %d", mark, me, in[0], want)
	}
	sum := make([]int, 1)
	ok(t, mpi.Allreduce(c, sum, []int{mark + me}, mpi.Sum))
	if want := n*mark + n*(n-1)/2; sum[0] != want {
		t.Errorf("communicator %d: rank %d has the sum %d, want %d", mark, me, sum[0], want)
	}
	ok(t, c.Barrier())
}

// There may be many communicators, of ranks of one node or of several.
func TestManyCommunicators(t *testing.T) {
	const live = 200
	rounds := 20
	if testing.Short() {
		rounds = 2
	}
	run(t, 4, func(t *testing.T, c *mpi.Comm) {
		for range rounds {
			var all []*mpi.Comm
			for i := range live {
				all = append(all, must(c.Split(0, (c.Rank()+i)%c.Size()))(t))
			}
			for i, x := range all {
				tryComm(t, x, 1000*i)
			}
			of := must(all[live-1].Split(all[live-1].Rank()%2, 0))(t)
			tryComm(t, of, 7)
			ok(t, of.Free())
			for _, x := range slices.Backward(all) {
				ok(t, x.Free())
			}
		}
	})
}

// Goroutines make communicators of overlapping groups at a time.
func TestCommunicatorsAtATime(t *testing.T) {
	const parents, rounds = 4, 20
	run(t, 4, func(t *testing.T, c *mpi.Comm) {
		var fill []*mpi.Comm // all others have no team
		for range 60 {
			fill = append(fill, must(c.Split(0, 0))(t))
		}
		var from []*mpi.Comm
		for range parents {
			from = append(from, must(c.Split(0, 0))(t))
		}
		var wg sync.WaitGroup
		for i, parent := range from {
			wg.Go(func() {
				for round := range rounds {
					x, err := parent.Split((c.Rank()+i)%2, 0)
					if err != nil {
						t.Error(err)
						return
					}
					tryComm(t, x, 100*i+round)
					if err := x.Free(); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		for _, x := range append(from, fill...) {
			ok(t, x.Free())
		}
	})
}

// A death in one of many communicators ends what its ranks do there, and communicators without the dead rank go on.
func TestDeathInMessagingComm(t *testing.T) {
	const victim, n = 2, 4
	for _, without := range []bool{false, true} {
		t.Run(fmt.Sprint(without), func(t *testing.T) {
			run(t, n, func(t *testing.T, c *mpi.Comm) {
				for range 61 {
					must(c.Split(0, 0))(t)
				}
				all := must(c.Split(0, 0))(t)
				color := 0
				if c.Rank() == victim {
					color = 1
				}
				rest := must(c.Split(color, 0))(t)
				_ = all.Barrier() // all ranks have left Split; the victim may die before others leave Barrier
				if c.Rank() == victim {
					die()
				}
				for {
					if err := all.Barrier(); err != nil {
						wantDeathError(t, "Barrier", err, victim)
						break
					}
				}
				for i := range 10 {
					tryComm(t, rest, i)
				}
				wantDeathError(t, "Barrier", all.Barrier(), victim)
				ok(t, all.Free())
				ok(t, rest.Free())
			}, shmemtest.Recover(victim))
		})
	}
}
