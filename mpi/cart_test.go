package mpi_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

func TestDims(t *testing.T) {
	for _, x := range []struct {
		n           int
		fixed, want []int
	}{
		{6, []int{0, 0}, []int{3, 2}},
		{7, []int{0, 0}, []int{7, 1}},
		{24, []int{0, 0}, []int{6, 4}},
		{24, []int{0, 3, 0}, []int{4, 3, 2}},
		{12, []int{2, 0}, []int{2, 6}},
		{64, []int{0, 0, 0}, []int{4, 4, 4}},
		{60, []int{0, 0, 0}, []int{5, 4, 3}},
		{1, []int{0, 0, 0}, []int{1, 1, 1}},
		{8, []int{2, 4}, []int{2, 4}},
		{1024, []int{0}, []int{1024}},
		{1000, []int{0, 0, 0}, []int{10, 10, 10}},
	} {
		if got, err := mpi.Dims(x.n, x.fixed...); err != nil || !slices.Equal(got, x.want) {
			t.Errorf("Dims(%d, %v): %v, %v, want %v", x.n, x.fixed, got, err, x.want)
		}
	}
	for _, x := range []struct {
		n     int
		fixed []int
	}{{0, []int{0}}, {6, nil}, {6, []int{4, 0}}, {6, []int{-1, 0}}, {6, []int{2, 2}}} {
		if got, err := mpi.Dims(x.n, x.fixed...); !errors.Is(err, mpi.ErrArgument) {
			t.Errorf("Dims(%d, %v): %v, %v, want an error", x.n, x.fixed, got, err)
		}
	}
}

// Grids: coordinates, shifts, and grids of fewer dimensions.
func TestCart(t *testing.T) {
	run(t, 8, func(t *testing.T, c *mpi.Comm) {
		g := must(c.Cart([]int{2, 3}, []bool{true, false}, true))(t)
		if (g == nil) != (c.Rank() >= 6) {
			t.Fatalf("rank %d has grid %v", c.Rank(), g)
		}
		if g == nil {
			return
		}
		x := must(g.Coords(g.Rank()))(t)
		if want := []int{g.Rank() / 3, g.Rank() % 3}; !slices.Equal(x, want) || must(g.RankAt(x...))(t) != g.Rank() {
			t.Errorf("rank %d is at %v, want %v", g.Rank(), x, want)
		}
		if !slices.Equal(g.Dims(), []int{2, 3}) || !slices.Equal(g.Periodic(), []bool{true, false}) {
			t.Errorf("dimensions %v, periodic %v", g.Dims(), g.Periodic())
		}
		if r := must(g.RankAt(x[0]-2, x[1]))(t); r != g.Rank() {
			t.Errorf("two steps around are rank %d, want %d", r, g.Rank())
		}
		if _, err := g.RankAt(0, 3); !errors.Is(err, mpi.ErrArgument) {
			t.Errorf("coordinates outside: %v", err)
		}
		src, dst, err := g.Shift(0, 1)
		if ok(t, err); src != (g.Rank()+3)%6 || dst != src {
			t.Errorf("rank %d: shift along dimension 0 from %d to %d", g.Rank(), src, dst)
		}
		src, dst, err = g.Shift(1, 1)
		wantSrc, wantDst := g.Rank()-1, g.Rank()+1
		if x[1] == 0 {
			wantSrc = mpi.ProcNull
		}
		if x[1] == 2 {
			wantDst = mpi.ProcNull
		}
		if ok(t, err); src != wantSrc || dst != wantDst {
			t.Errorf("rank %d: shift along dimension 1 from %d to %d, want %d and %d", g.Rank(), src, dst, wantSrc, wantDst)
		}
		row := must(g.Sub(false, true))(t)
		if row.Size() != 3 || row.Rank() != x[1] || !slices.Equal(row.Dims(), []int{3}) {
			t.Errorf("row of %d: rank %d of %d, dimensions %v", g.Rank(), row.Rank(), row.Size(), row.Dims())
		}
		tryComm(t, row.Comm(), x[0])
		ok(t, row.Free())
		ok(t, g.Free())
	})
}

// Neighbors of grids: both neighbors of a dimension may be one rank, or this one.
func TestNeighborsOfGrid(t *testing.T) {
	grids := [][]int{{2, 2}, {4}, {4, 1}, {1, 1}, {3, 1}}
	if testenv.Race {
		grids = grids[:1]
	}
	for _, dims := range grids {
		for _, periodic := range []bool{false, true} {
			t.Run(fmt.Sprint(dims, periodic), func(t *testing.T) {
				run(t, 4, func(t *testing.T, c *mpi.Comm) {
					flags := slices.Repeat([]bool{periodic}, len(dims))
					g := must(c.Cart(dims, flags, false))(t)
					if g == nil {
						return
					}
					n := must(g.Neighbors())(t)
					k := len(n.Sources())
					src, dst := make([]int, k), make([]int, k)
					for i := range src {
						src[i] = 100*g.Rank() + i
					}
					check := func(what string) {
						t.Helper()
						for i, rank := range n.Sources() {
							want := -1
							if rank != mpi.ProcNull {
								want = 100*rank + (i ^ 1)
							}
							if dst[i] != want {
								t.Errorf("%s: rank %d has %v of %v", what, g.Rank(), dst, n.Sources())
								return
							}
						}
					}
					reset := func() {
						for i := range dst {
							dst[i] = -1
						}
					}
					reset()
					ok(t, mpi.NeighborAlltoall(n, dst, src))
					check("NeighborAlltoall")
					reset()
					must(must(mpi.IneighborAlltoall(n, dst, src))(t).Wait())(t)
					check("IneighborAlltoall")
					p := must(mpi.NeighborAlltoallInit(n, dst, src))(t)
					for range 3 {
						reset()
						ok(t, mpi.Start(p))
						must(p.Wait())(t)
						check("NeighborAlltoallInit")
					}
					reset()
					ok(t, mpi.NeighborAllgather(n, dst, []int{g.Rank()}))
					for i, rank := range n.Sources() {
						if rank == mpi.ProcNull {
							rank = -1
						}
						if dst[i] != rank {
							t.Errorf("NeighborAllgather: rank %d has %v of %v", g.Rank(), dst, n.Sources())
						}
					}
				})
			})
		}
	}
}

// Neighbors of a graph, with parts of different lengths.
func TestNeighborsOfGraph(t *testing.T) {
	run(t, 4, func(t *testing.T, c *mpi.Comm) {
		size, me := c.Size(), c.Rank()
		// Rank i gives i+j elements to each rank j above it, and gets some from those below.
		var srcs, dsts []int
		var get, give mpi.Counts
		in, out := 0, 0
		for rank := range size {
			if rank < me {
				srcs, get.Counts = append(srcs, rank), append(get.Counts, rank+me)
				in += rank + me
			}
			if rank > me {
				dsts, give.Counts = append(dsts, rank), append(give.Counts, rank+me)
				out += rank + me
			}
		}
		n := must(c.Graph(srcs, dsts))(t)
		src, dst := slices.Repeat([]int{me}, out), make([]int, in)
		ok(t, mpi.NeighborAlltoallv(n, dst, src, get, give))
		var want []int
		for i, rank := range srcs {
			want = append(want, slices.Repeat([]int{rank}, get.Counts[i])...)
		}
		if !slices.Equal(dst, want) {
			t.Errorf("rank %d has %v, want %v", me, dst, want)
		}
		all := make([]int, len(srcs))
		ok(t, mpi.NeighborAllgatherv(n, all, []int{me}, mpi.Counts{Counts: slices.Repeat([]int{1}, len(srcs))}))
		if !slices.Equal(all, srcs) {
			t.Errorf("rank %d has %v, want %v", me, all, srcs)
		}
		if _, err := c.Graph([]int{size}, nil); !errors.Is(err, mpi.ErrRankRange) {
			t.Errorf("a neighbor that does not exist: %v", err)
		}
		ok(t, n.Free())
	})
}

// NewGraph gives each rank its neighbors of edges that any ranks have given, some of them several times.
func TestDistributedGraph(t *testing.T) {
	run(t, 4, func(t *testing.T, c *mpi.Comm) {
		n, me := c.Size(), c.Rank()
		// Rank i gives the edges of rank i+1: two to the rank behind that, and one to itself. Rank 0 gives one from each rank to rank 0 as well.
		from := (me + 1) % n
		edges := []mpi.Edge{{From: from, To: (from + 1) % n}, {From: from, To: from}, {From: from, To: (from + 1) % n}}
		if me == 0 {
			for rank := range n {
				edges = append(edges, mpi.Edge{From: rank, To: 0})
			}
		}
		g := must(mpi.NewGraph(c, edges))(t)
		var srcs, dsts []int
		for rank := range n { // in the order of those who give edges
			of := (rank + 1) % n
			if next := (of + 1) % n; next == me {
				srcs = append(srcs, of)
			}
			if of == me {
				srcs, dsts = append(srcs, me), append(dsts, (me+1)%n, me, (me+1)%n)
			}
			if (of+1)%n == me {
				srcs = append(srcs, of)
			}
			if rank == 0 && me == 0 {
				for all := range n {
					srcs = append(srcs, all)
				}
			}
			if rank == 0 {
				dsts = append(dsts, 0)
			}
		}
		slices.Sort(srcs)
		got := g.Sources()
		slices.Sort(got)
		if !slices.Equal(got, srcs) {
			t.Errorf("sources %v, want %v in some order", g.Sources(), srcs)
		}
		got = g.Destinations()
		slices.Sort(got)
		slices.Sort(dsts)
		if !slices.Equal(got, dsts) {
			t.Errorf("destinations %v, want %v in some order", g.Destinations(), dsts)
		}
		all := make([]int, len(srcs))
		ok(t, mpi.NeighborAllgather(g, all, []int{me}))
		if !slices.Equal(all, g.Sources()) {
			t.Errorf("NeighborAllgather: %v, want %v", all, g.Sources())
		}
		ok(t, g.Free())
		empty := must(mpi.NewGraph(c, nil))(t)
		if len(empty.Sources())+len(empty.Destinations()) != 0 {
			t.Errorf("neighbors without edges: %v, %v", empty.Sources(), empty.Destinations())
		}
		ok(t, mpi.NeighborAllgather(empty, nil, []int{me}))
		ok(t, empty.Free())
		want := mpi.ErrMismatch
		if edges = nil; me == 1 {
			edges, want = []mpi.Edge{{From: 0, To: n}}, mpi.ErrRankRange
		}
		if _, err := mpi.NewGraph(c, edges); !errors.Is(err, want) {
			t.Errorf("an edge to rank %d: %v, want %v", n, err, want)
		}
	}, hangTimeout)
}

// A death is an error of NewGraph. After Validate, edges of the dead rank are errors, and others make a graph.
func TestDistributedGraphDeath(t *testing.T) {
	const victim = 1
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		c = must(c.Dup())(t)
		if _ = c.Barrier(); c.Rank() == victim {
			die()
		}
		if _, err := mpi.NewGraph(c, []mpi.Edge{{From: 0, To: 2}}); !errors.Is(err, mpi.ErrDied) {
			t.Errorf("NewGraph: %v, want %v", err, mpi.ErrDied)
		}
		must(c.Validate())(t)
		want, edges := mpi.ErrMismatch, []mpi.Edge{{From: 0, To: 2}}
		if c.Rank() == 0 {
			want, edges = mpi.ErrDied, []mpi.Edge{{From: victim, To: 2}}
		}
		if _, err := mpi.NewGraph(c, edges); !errors.Is(err, want) {
			t.Errorf("NewGraph with an edge of the dead rank: %v, want %v", err, want)
		}
		g := must(mpi.NewGraph(c, []mpi.Edge{{From: 2, To: 0}}))(t)
		if c.Rank() == 0 && len(g.Sources()) != 2 || c.Rank() == 2 && len(g.Destinations()) != 2 || g.Comm().Size() != 2 {
			t.Errorf("rank %d of %d: from %v, to %v", c.Rank(), g.Comm().Size(), g.Sources(), g.Destinations())
		}
		ok(t, g.Free())
	}, shmemtest.Recover(victim), hangTimeout)
}
