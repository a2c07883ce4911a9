package mpi_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
)

// slotInts is the number of ints that a rank can give in a step of a team. More go in several.
const slotInts = 8176 / 8

// The collectives of equal blocks are right with blocks that go through a team, on both sides of each limit, one after the
// other without a barrier between them: of private memory, of the symmetric heap, of both, and where the kernel lets a rank
// read no other one's memory. The operator is not commutative.
func TestBlocksThroughTeam(t *testing.T) {
	const private, refused = 0, 2
	for on, name := range []string{"private", "mixed", "refused", "symmetric"} {
		t.Run(name, func(t *testing.T) {
			runWith(t, 3, func(t *testing.T, s *shmem.World) {
				if on == refused && s.MyPE() == 1 {
					mpi.LanesOnly()
				}
				w := must(mpi.Init())(t)
				heap := must(shmem.Alloc[int](s, 10*maxBlock))(t).Local()
				if on == private || on == refused || on == 1 && s.MyPE() != 1 {
					heap = make([]int, len(heap))
				}
				checkBlocksIn(t, w.Comm(), heap)
				ok(t, w.Finalize())
			})
		})
	}
}

const maxBlock = 20_001

// checkBlocksIn makes the collectives with blocks of several sizes in a memory.
func checkBlocksIn(t *testing.T, c *mpi.Comm, memory []int) {
	t.Helper()
	for _, m := range []int{0, 1, 2, 40, slotInts / 3, slotInts/3 + 1, slotInts, slotInts + 1, 5000, maxBlock} {
		for root := range c.Size() {
			checkBlocksOf(t, c, memory, m, root)
		}
	}
	ok(t, c.Barrier())
}

// last is an operator for which order matters: of two numbers it keeps the second one, and counts.
func last(acc, in []int) {
	for i := range acc {
		acc[i] = acc[i]/1_000_000*1_000_000 + 1_000_000 + in[i]%1_000_000
	}
}

// checkBlocksOf makes each collective once. Element k of rank r is 1000*r + k%1000.
func checkBlocksOf(t *testing.T, c *mpi.Comm, memory []int, m, root int) {
	t.Helper()
	n, me := c.Size(), c.Rank()
	of := func(rank, k int) int { return 1000*rank + k%1000 }
	src, all, mine := memory[:n*m], memory[n*m:2*n*m], memory[2*n*m:][:m]
	for k := range src {
		src[k] = of(me, k)
	}
	check := func(name string, dst []int, want func(k int) int) {
		t.Helper()
		for k, v := range dst {
			if w := want(k); v != w {
				t.Fatalf("%s of %d elements: rank %d has %d in element %d, want %d", name, m, me, v, k, w)
			}
		}
	}
	blocks := func(k int) int { return of(k/m, k%m) }
	ok(t, mpi.Gather(c, all, src[:m], root))
	if me == root {
		check("Gather", all, blocks)
	}
	clear(all)
	ok(t, mpi.Allgather(c, all, src[:m]))
	check("Allgather", all, blocks)
	clear(all)
	copy(all[me*m:], src[:m])
	ok(t, mpi.Allgather(c, all, all[me*m:(me+1)*m]))
	check("Allgather in place", all, blocks)
	ok(t, mpi.Scatter(c, mine, src, root))
	check("Scatter", mine, func(k int) int { return of(root, me*m+k) })
	ok(t, mpi.Alltoall(c, all, src))
	check("Alltoall", all, func(k int) int { return of(k/m, me*m+k%m) })
	copy(all, src)
	ok(t, mpi.Alltoall(c, all, all))
	check("Alltoall in place", all, func(k int) int { return of(k/m, me*m+k%m) })

	ok(t, mpi.ReduceScatterBlock(c, mine, src, last))
	check("ReduceScatterBlock", mine, func(k int) int { return (n-1)*1_000_000 + of(n-1, me*m+k) })
	copy(all, src)
	ok(t, mpi.ReduceScatterBlock(c, all, all, last))
	check("ReduceScatterBlock in place", all[:m], func(k int) int { return (n-1)*1_000_000 + of(n-1, me*m+k) })
	ok(t, mpi.Scan(c, mine, src[:m], last))
	check("Scan", mine, func(k int) int { return me*1_000_000 + of(me, k) })
	copy(mine, src)
	ok(t, mpi.Exscan(c, mine, mine, last))
	if me > 0 {
		check("Exscan in place", mine, func(k int) int { return (me-1)*1_000_000 + of(me-1, k) })
	}
}

// Ranks with other lengths get an error, whether their data go through the team or in messages, and the communicator is
// broken for all collectives. A rank that waits for no other one may not learn of it before.
func TestBlocksMismatch(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		for _, x := range []struct {
			name   string
			silent int // the rank that waits for no other one
			call   func(c *mpi.Comm, one, all []int) error
		}{
			{"Gather", 1, func(c *mpi.Comm, one, all []int) error { return mpi.Gather(c, all, one, 0) }},
			{"Scatter", 0, func(c *mpi.Comm, one, all []int) error { return mpi.Scatter(c, one, all, 0) }},
			{"Allgather", -1, func(c *mpi.Comm, one, all []int) error { return mpi.Allgather(c, all, one) }},
			{"Alltoall", -1, func(c *mpi.Comm, _, all []int) error { return mpi.Alltoall(c, slices.Clone(all), all) }},
			{"Scan", 0, func(c *mpi.Comm, one, _ []int) error { return mpi.Scan(c, one, one, mpi.Sum) }},
			{"ReduceScatterBlock", -1, func(c *mpi.Comm, one, all []int) error { return mpi.ReduceScatterBlock(c, one, all, mpi.Sum) }},
		} {
			for _, lengths := range [][2]int{{1, 2}, {1, slotInts + 1}, {slotInts + 1, 1}, {slotInts + 1, slotInts + 2}} {
				d := must(c.Dup())(t)
				m, silent := lengths[c.Rank()], c.Rank() == x.silent
				err := x.call(d, make([]int, m), make([]int, 2*m))
				if (!silent || err != nil) && !errors.Is(err, mpi.ErrMismatch) && !errors.Is(err, mpi.ErrCommBroken) {
					t.Errorf("%s of %d elements at rank %d: %v, want %v or %v", x.name, m, c.Rank(), err, mpi.ErrMismatch, mpi.ErrCommBroken)
				}
				if err := x.call(d, make([]int, 1), make([]int, 2)); err == nil && !silent {
					t.Errorf("rank %d: the next %s succeeds, want an error", c.Rank(), x.name)
				}
				if err := errOf(d.Ibarrier()); err == nil && !silent {
					t.Errorf("rank %d: Ibarrier after %s succeeds, want an error", c.Rank(), x.name)
				}
				_ = d.Free() // it is broken
			}
		}
		_ = c.Barrier()
	})
}

// A rank whose context ends in the step of the team ends the collective for all, if data are to follow in messages.
func TestBlocksGivenUp(t *testing.T) {
	const block = 12 << 10 // more than a piece
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		if c.Rank() == 1 {
			must(mpi.Recv(c, make([]byte, 1), 0, 1))(t) // after rank 0 has given up
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		cc, want := c, mpi.ErrCommBroken
		if c.Rank() == 0 {
			cc, want = c.With(ctx), context.DeadlineExceeded
		}
		err := mpi.Allgather(cc, make([]int, 3*block), make([]int, block))
		if !errors.Is(err, want) {
			t.Errorf("rank %d: %v, want %v", c.Rank(), err, want)
		}
		if c.Rank() == 0 {
			ok(t, mpi.Send(c, []byte{1}, 1, 1))
		}
		if err := mpi.Allgather(c, make([]int, 3), make([]int, 1)); !errors.Is(err, mpi.ErrCommBroken) {
			t.Errorf("rank %d: the next Allgather: %v, want %v", c.Rank(), err, mpi.ErrCommBroken)
		}
		for other := range c.Size() { // nobody leaves before all have tried
			must(mpi.Sendrecv(c, []byte{1}, other, 2, make([]byte, 1), other, 2))(t)
		}
	})
}

// Blocks of more than 1 MiB in the symmetric heap, elements that are larger than a piece, and no elements at all.
func TestBlocksCorners(t *testing.T) {
	runWith(t, 2, func(t *testing.T, s *shmem.World) {
		w := must(mpi.Init())(t)
		c := w.Comm()
		const n = 1<<17 + 1
		heap := must(shmem.Alloc[int](s, 4*n))(t).Local()
		src, dst := heap[:2*n], heap[2*n:]
		for i := range src {
			src[i] = c.Rank()*4*n + i
		}
		ok(t, mpi.Alltoall(c, dst, src))
		for _, i := range []int{0, n - 1, n, 2*n - 1} {
			if want := i/n*4*n + c.Rank()*n + i%n; dst[i] != want {
				t.Errorf("Alltoall: element %d is %d, want %d", i, dst[i], want)
			}
		}
		type wide [5000]int // larger than a piece for each of two ranks
		all, one := make([]wide, 2), make([]wide, 1)
		all[0][0], all[1][4999] = 1, 2
		ok(t, mpi.ReduceScatterBlock(c, one, all, func(acc, in []wide) {
			for i := range acc {
				mpi.Sum(acc[i][:], in[i][:])
			}
		}))
		if want := [2][2]int{{2, 0}, {0, 4}}[c.Rank()]; one[0][0] != want[0] || one[0][4999] != want[1] {
			t.Errorf("ReduceScatterBlock of large elements: %d and %d, want %v", one[0][0], one[0][4999], want)
		}
		for root := range 2 {
			ok(t, mpi.Reduce(c, []int(nil), nil, mpi.Sum, root))
			ok(t, mpi.Gather(c, []int(nil), nil, root))
			ok(t, mpi.Scan(c, []int(nil), nil, mpi.Sum))
		}
		ok(t, c.Barrier())
		ok(t, w.Finalize())
	})
}

// Ranks that call different collectives of large elements learn of it, although such elements go in messages.
func TestBlocksMismatchOfLargeElements(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		type wide [5000]int
		d := must(c.Dup())(t)
		var err error
		if c.Rank() == 0 {
			err = mpi.ReduceScatterBlock(d, make([]wide, 1), make([]wide, 2), func(_, _ []wide) {})
		} else {
			err = mpi.Allgather(d, make([]int, 2), make([]int, 1))
		}
		if !errors.Is(err, mpi.ErrMismatch) && !errors.Is(err, mpi.ErrCommBroken) {
			t.Errorf("rank %d: %v, want %v or %v", c.Rank(), err, mpi.ErrMismatch, mpi.ErrCommBroken)
		}
		_ = c.Barrier()
		_ = d.Free()
	}, hangTimeout)
}

// On a communicator with uniform collectives, nobody waits for the vote of a root whose reduction was not the others', or
// whose operator has panicked.
func TestUniformReduceAtRoot(t *testing.T) {
	for _, panics := range []bool{false, true} {
		t.Run(map[bool]string{false: "mismatch", true: "panic"}[panics], func(t *testing.T) {
			run(t, 3, func(t *testing.T, c *mpi.Comm) {
				d := must(c.Dup())(t)
				ok(t, d.SetInfo(mpi.Info{"goshmem_collectives": "uniform"}))
				const n = 3000
				mine, err := n, error(nil)
				if c.Rank() == 0 && !panics {
					mine = n + 1
				}
				func() {
					defer func() {
						if recover() != nil {
							err = errors.New("panicked")
						}
					}()
					err = mpi.Reduce(d, make([]int, mine), make([]int, mine), func(acc, in []int) {
						if panics {
							panic("operator")
						}
						mpi.Sum(acc, in)
					}, 0)
				}()
				if err == nil {
					t.Errorf("rank %d: no error", c.Rank())
				}
				_ = c.Barrier()
				_ = d.Free()
			}, hangTimeout)
		})
	}
}
