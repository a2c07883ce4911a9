package mpi_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/mpi/group"
)

// Dims balances: the sizes descend, their product is right, and those that are given stay. Large numbers take no time.
func TestDimsCorners(t *testing.T) {
	t.Parallel()
	product := func(dims []int) int {
		p := 1
		for _, d := range dims {
			p *= d
		}
		return p
	}
	if got, err := mpi.Dims(1); len(got) != 0 || err != nil {
		t.Errorf("Dims(1) without dimensions: %v, %v, want none", got, err)
	}
	for k := 1; k <= 4; k++ {
		for n := 1; n <= 300; n++ {
			got, err := mpi.Dims(n, make([]int, k)...)
			if err != nil || product(got) != n || !slices.IsSortedFunc(got, func(a, b int) int { return b - a }) {
				t.Fatalf("Dims(%d) in %d dimensions: %v, %v", n, k, got, err)
			}
		}
		for n := 2; n <= 4096; n *= 2 {
			if got, _ := mpi.Dims(n, make([]int, k)...); got[0]/2 > got[k-1] {
				t.Errorf("Dims(%d) in %d dimensions: %v, want sizes that differ by a factor of two at most", n, k, got)
			}
		}
	}
	for n := 4; n <= 32; n *= 2 {
		for _, fixed := range [][]int{{0, n}, {1, n}, {0, n / 2, 0, 2}, {1, n / 2, 1, 2}} {
			got, err := mpi.Dims(n, fixed...)
			if err != nil || product(got) != n {
				t.Errorf("Dims(%d, %v): %v, %v", n, fixed, got, err)
			}
			for i, d := range fixed {
				if d != 0 && got[i] != d {
					t.Errorf("Dims(%d, %v): %v", n, fixed, got)
				}
			}
		}
	}
	start := time.Now()
	for _, x := range []struct {
		n    int
		want []int
	}{
		{1_000_000_000, []int{1000, 1000, 1000}},
		{1<<31 - 1, []int{1<<31 - 1, 1}},
		{65_536 * 32_768, []int{64, 32, 32, 32, 32, 32}},
		{1 << 40, []int{16, 16, 16, 16, 16, 16, 16, 16, 16, 16}},
		{999_983 * 999_979, []int{999_983, 999_979, 1}},
	} {
		if got, err := mpi.Dims(x.n, make([]int, len(x.want))...); err != nil || !slices.Equal(got, x.want) {
			t.Errorf("Dims(%d): %v, %v, want %v", x.n, got, err, x.want)
		}
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("Dims of great numbers takes %v, want a moment", took)
	}
}

// Shifts by any number of steps, in both directions, beyond ends and around.
func TestShifts(t *testing.T) {
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		n, me := c.Size(), c.Rank()
		for _, periodic := range []bool{true, false} {
			g := must(c.Cart([]int{n}, []bool{periodic}, false))(t)
			for _, steps := range []int{0, 1, -1, n - 1, n, -n, n + 1, 2*n + 1, -7} {
				at := func(rank int) int {
					if periodic {
						return ((rank % n) + n) % n
					}
					if rank < 0 || rank >= n {
						return mpi.ProcNull
					}
					return rank
				}
				src, dst, err := g.Shift(0, steps)
				if err != nil || src != at(me-steps) || dst != at(me+steps) {
					t.Errorf("shift of rank %d by %d: %d, %d, %v, want %d, %d", me, steps, src, dst, err, at(me-steps), at(me+steps))
				}
				in := []int{-1}
				must(mpi.Sendrecv(g.Comm(), []int{me}, dst, 1, in, src, 1))(t)
				if src == mpi.ProcNull {
					src = -1
				}
				if in[0] != src {
					t.Errorf("shift by %d: received %d, want %d", steps, in[0], src)
				}
			}
			for _, dim := range []int{-1, 1} {
				if _, _, err := g.Shift(dim, 1); !errors.Is(err, mpi.ErrArgument) {
					t.Errorf("shift along dimension %d: %v", dim, err)
				}
			}
			ok(t, g.Free())
		}
	}, hangTimeout)
}

// Grids of no dimension have one rank. Grids that have all or none of the dimensions of another one, and duplicates, have what they should.
func TestGridCorners(t *testing.T) {
	run(t, 4, func(t *testing.T, c *mpi.Comm) {
		point := must(c.Cart(nil, nil, false))(t)
		if (point != nil) != (c.Rank() == 0) {
			t.Fatalf("rank %d has a grid of no dimension: %v", c.Rank(), point)
		}
		if point != nil {
			coords, err := point.Coords(0)
			if r := must(point.RankAt())(t); point.Size() != 1 || len(point.Dims()) != 0 || r != 0 || len(coords) != 0 || err != nil {
				t.Errorf("a grid of no dimension: %d ranks, dimensions %v, rank %d at %v, %v", point.Size(), point.Dims(), r, coords, err)
			}
			sub := must(point.Sub())(t)
			ok(t, sub.Comm().Barrier())
			ok(t, mpi.NeighborAllgather(must(sub.Neighbors())(t), []int{}, []int{1}))
			ok(t, sub.Free())
			ok(t, point.Free())
		}
		one := must(c.Cart([]int{1}, []bool{true}, true))(t)
		if (one != nil) != (c.Rank() == 0) {
			t.Fatalf("rank %d has a grid of one rank: %v", c.Rank(), one)
		}
		if one != nil {
			if src, dst, err := one.Shift(0, 1); src != 0 || dst != 0 || err != nil {
				t.Errorf("shift of one rank: %d, %d, %v", src, dst, err)
			}
			ok(t, one.Free())
		}
		g := must(c.Cart([]int{2, 2}, []bool{true, false}, false))(t)
		alone := must(g.Sub(false, false))(t)
		if alone.Size() != 1 || alone.Rank() != 0 || len(alone.Dims()) != 0 {
			t.Errorf("a grid without all dimensions: rank %d of %d, %v", alone.Rank(), alone.Size(), alone.Dims())
		}
		tryComm(t, alone.Comm(), c.Rank())
		ok(t, alone.Free())
		whole := must(g.Sub(true, true))(t)
		if x := must(g.Comm().Compare(whole.Comm()))(t); x != group.Congruent || !slices.Equal(whole.Dims(), g.Dims()) || !slices.Equal(whole.Periodic(), g.Periodic()) {
			t.Errorf("a grid with all dimensions: %v, %v, %v", x, whole.Dims(), whole.Periodic())
		}
		ok(t, whole.Free())
		d := must(g.Dup())(t)
		if x := must(g.Comm().Compare(d.Comm()))(t); x != group.Congruent || !slices.Equal(d.Dims(), g.Dims()) || !slices.Equal(d.Periodic(), g.Periodic()) {
			t.Errorf("a duplicate: %v, %v, %v", x, d.Dims(), d.Periodic())
		}
		ok(t, g.Free())
		if x := must(d.Coords(3))(t); !slices.Equal(x, []int{1, 1}) {
			t.Errorf("coordinates %v after Free of the first grid", x)
		}
		in := make([]int, 4)
		ok(t, mpi.NeighborAllgather(must(d.Neighbors())(t), in, []int{d.Rank()}))
		tryComm(t, d.Comm(), 5)
		ok(t, d.Free())
		if _, err := c.Cart([]int{5}, []bool{false}, false); !errors.Is(err, mpi.ErrArgument) {
			t.Errorf("a grid of more ranks than there are: %v", err)
		}
	}, hangTimeout)
}

// Graphs without edges, with edges of a rank to itself, with the same edge several times, and with as many sources as another number of destinations.
func TestGraphCorners(t *testing.T) {
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		n, me := c.Size(), c.Rank()
		next, last := (me+1)%n, (me+n-1)%n
		for _, x := range []struct {
			name       string
			srcs, dsts []int
		}{
			{"no edges", nil, nil},
			{"to itself", []int{me}, []int{me}},
			{"to itself, twice", []int{me, me}, []int{me, me}},
			{"duplicates", []int{last, last, last}, []int{next, next, next}},
			{"star", [][]int{nil, {0}, {0}}[me], [][]int{{1, 2}, nil, nil}[me]},
			{"all, mixed", []int{last, mpi.ProcNull, me, next, last}, []int{next, me, next, mpi.ProcNull, last}},
		} {
			g := must(c.Graph(x.srcs, x.dsts))(t)
			if !slices.Equal(g.Sources(), x.srcs) || !slices.Equal(g.Destinations(), x.dsts) || g.Comm().Size() != n || g.Comm().Rank() != me {
				t.Errorf("%s: neighbors %v and %v", x.name, g.Sources(), g.Destinations())
			}
			d := must(g.Dup())(t)
			ok(t, g.Free())
			// What a rank gives to another one for the k-th time is 100*from + 10*to + k.
			out, in := make([]int, len(x.dsts)), slices.Repeat([]int{-1}, len(x.srcs))
			times := map[int]int{}
			for i, rank := range x.dsts {
				out[i] = 100*me + 10*rank + times[rank]
				times[rank]++
			}
			want := slices.Clone(in)
			clear(times)
			for i, rank := range x.srcs {
				if rank != mpi.ProcNull {
					want[i] = 100*rank + 10*me + times[rank]
					times[rank]++
				}
			}
			for range 2 {
				ok(t, mpi.NeighborAlltoall(d, in, out))
				same(t, x.name, in, want)
			}
			ok(t, d.Free())
		}
	}, hangTimeout)
}

// Groups of communicators: ranks of others, of nobody, and of irregular groups.
func TestGroupTranslation(t *testing.T) {
	runBare(t, 5, func(t *testing.T) {
		w := must(mpi.Init())(t)
		c := w.Comm()
		n, me := c.Size(), c.Rank()
		all, self := c.Group(), w.Self().Group()
		ranks, want := []int{mpi.ProcNull}, []int{mpi.ProcNull}
		for rank := range n {
			ranks, want = append(ranks, rank), append(want, group.Undefined)
		}
		want[1+me] = 0
		if got, err := all.Translate(ranks, self); err != nil || !slices.Equal(got, want) {
			t.Errorf("Translate to World.Self: %v, %v, want %v", got, err, want)
		}
		some := must(all.Incl(n-2, 0, 1))(t)
		back := must(all.RangeIncl(group.Range{First: n - 1, Last: 0, Stride: -1}))(t)
		if got, err := some.Translate([]int{1, 0, mpi.ProcNull, 2}, back); err != nil || !slices.Equal(got, []int{n - 1, 1, mpi.ProcNull, n - 2}) {
			t.Errorf("Translate to the reverse group: %v, %v", got, err)
		}
		none := must(all.RangeExcl(group.Range{First: 0, Last: n - 1, Stride: 1}))(t)
		if none.Size() != 0 || none.Rank() != group.Undefined || none.Compare(group.Group{}) != group.Ident {
			t.Errorf("a group without everybody: %v", none.IDs())
		}
		if got, err := all.Translate([]int{0, 1}, none); err != nil || !slices.Equal(got, []int{group.Undefined, group.Undefined}) {
			t.Errorf("Translate to nobody: %v, %v", got, err)
		}
		if x := must(c.Create(none))(t); x != nil {
			t.Errorf("rank %d has a communicator of nobody", me)
		}
		ok(t, w.Finalize())
	})
}
