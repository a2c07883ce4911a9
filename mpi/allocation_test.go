//go:build !race && !mpidebug

// Under the race detector a sync.Pool randomly drops some of what it is given.

package mpi_test

import (
	"runtime"
	"testing"

	"github.com/goshmem/goshmem/mpi"
)

// Messages of all kinds, including unexpected ones, do not allocate once everything has been used.
func TestNoAllocation(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		bufs := [][]byte{make([]byte, 8), make([]byte, 5000), make([]byte, 50_000)}
		other := 1 - c.Rank()
		round := func() {
			for tag, buf := range bufs {
				s, err := mpi.Isend(c, buf, other, tag)
				ok(t, err)
				if tag == 0 {
					ok(t, c.Barrier()) // the message is unexpected
				}
				_, err = mpi.Recv(c, buf, other, tag)
				ok(t, err)
				_, err = s.Wait()
				ok(t, err)
			}
		}
		const rounds = 500
		for range rounds {
			round()
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range rounds {
			round()
		}
		runtime.ReadMemStats(&after)
		if n := after.Mallocs - before.Mallocs; n > rounds/10 { // the runtime makes a few allocations as well
			t.Errorf("%d allocations in %d rounds, want at most one in ten rounds", n, rounds)
		}
	})
}

// Small blocks that go through a team do not allocate.
func TestNoAllocationOfBlocks(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		one, all := make([]int, 3), make([]int, 6)
		round := func() {
			ok(t, mpi.Gather(c, all, one, 0))
			ok(t, mpi.Scatter(c, one, all, 0))
			ok(t, mpi.Allgather(c, all, one))
			ok(t, mpi.Alltoall(c, all, all))
			ok(t, mpi.ReduceScatterBlock(c, one, all, mpi.Sum))
			ok(t, mpi.Scan(c, one, one, mpi.Sum))
		}
		const rounds = 500
		var before, after runtime.MemStats
		round()
		runtime.ReadMemStats(&before)
		for range rounds {
			round()
		}
		runtime.ReadMemStats(&after)
		if n := after.Mallocs - before.Mallocs; n > rounds/10 { // the runtime makes a few allocations as well
			t.Errorf("%d allocations in %d rounds, want at most one in ten rounds", n, rounds)
		}
	})
}
