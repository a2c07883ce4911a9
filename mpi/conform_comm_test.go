package mpi_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/mpi/group"
)

// splitKeys has keys of ranks: equal ones, descending ones, three groups of equal ones, and great ones.
var splitKeys = []func(rank int) int{
	func(int) int { return 5 },
	func(rank int) int { return -rank },
	func(rank int) int { return rank % 3 },
	func(rank int) int { return []int{1 << 40, -1 << 40, 0}[rank%3] },
}

// Split orders ranks by their keys, and ranks with equal keys as they were, in communicators of any size.
func TestSplitOrder(t *testing.T) {
	run(t, 6, func(t *testing.T, c *mpi.Comm) {
		for n := 1; n <= c.Size(); n++ {
			color := 0
			if c.Rank() >= n {
				color = mpi.Undefined
			}
			part := must(c.Split(color, 0))(t)
			if part == nil {
				continue
			}
			me := part.Rank()
			for name, key := range splitKeys {
				d := must(part.Split(3, key(me)))(t)
				want := 0 // those who come before: with a lower key, or with the same one and a lower rank
				for rank := range n {
					if key(rank) < key(me) || key(rank) == key(me) && rank < me {
						want++
					}
				}
				if d.Rank() != want || d.Size() != n {
					t.Errorf("keys %d: rank %d of %d is %d, want %d", name, me, n, d.Rank(), want)
				}
				ok(t, d.Free())
			}
			ok(t, part.Free())
		}
	}, hangTimeout)
}

// Communicators of subsets: of a half, of any ranks, of several that have none in common in one call, by both ways.
func TestCommsOfGroups(t *testing.T) {
	run(t, 5, func(t *testing.T, c *mpi.Comm) {
		n, me := c.Size(), c.Rank()
		for subset := range 1 << n {
			if subset%3 != 0 && subset != 1<<n-1 { // a third of them is enough
				continue
			}
			var in, out []int
			for rank := n - 1; rank >= 0; rank-- { // in the reverse order
				if subset>>rank&1 == 1 {
					in = append(in, rank)
				} else {
					out = append(out, rank)
				}
			}
			of, rest := must(c.Group().Incl(in...))(t), must(c.Group().Incl(out...))(t)
			mine, ranks := of, in
			if slices.Contains(out, me) {
				mine, ranks = rest, out
			}
			x := must(c.Create(of))(t)
			if (x == nil) != slices.Contains(out, me) {
				t.Fatalf("rank %d of %v: %v", me, in, x)
			}
			both := must(c.Create(mine))(t)
			direct := must(c.CreateGroup(mine, subset))(t)
			for _, y := range []*mpi.Comm{x, both, direct} {
				if y == nil {
					continue
				}
				if want := slices.Index(ranks, me); y.Rank() != want || y.Size() != len(ranks) || y.Group().Compare(mine) != group.Ident {
					t.Errorf("rank %d of %v: rank %d of %d", me, ranks, y.Rank(), y.Size())
				}
				sum := []int{0}
				ok(t, mpi.Allreduce(y, sum, []int{1 << me}, mpi.Sum))
				if want := 1<<n - 1 - subset; sum[0] != subset && sum[0] != want {
					t.Errorf("the sum of %v is %b", ranks, sum[0])
				}
				ok(t, y.Free())
			}
		}
	}, hangTimeout)
}

// Idup goes on while messages and collectives of its communicator do, several at a time, and with other calls that make communicators between.
func TestIdupUnderTraffic(t *testing.T) {
	run(t, 4, func(t *testing.T, c *mpi.Comm) {
		n, me := c.Size(), c.Rank()
		const many = 5
		var made []*mpi.Comm
		var all []mpi.Request
		in, sums := make([]int, many), make([]int, many)
		for i := range many {
			all = append(all, must(mpi.Irecv(c, in[i:i+1], (me+n-1)%n, i))(t))
			d, r, err := c.Idup()
			ok(t, err)
			all, made = append(all, r), append(made, d)
			all = append(all, must(mpi.Iallreduce(c, sums[i:i+1], []int{me + i}, mpi.Sum))(t))
			all = append(all, must(c.Ibarrier())(t))
		}
		dup := must(c.Dup())(t)
		half := must(c.Split(me%2, 0))(t)
		even := must(c.Group().RangeIncl(group.Range{First: 0, Last: n - 1, Stride: 2}))(t)
		made = append(made, dup, half, must(c.Create(even))(t))
		made = append(made, nil)
		if me%2 == 0 {
			made[len(made)-1] = must(c.CreateGroup(even, 3))(t)
		}
		x, _ := newIntercomm(t, c, 2)
		made = append(made, must(x.Merge(false))(t))
		for i := range many {
			ok(t, mpi.Send(c, []int{100*me + i}, (me+1)%n, i))
		}
		slices.Reverse(all)
		ok(t, mpi.WaitAll(all, nil))
		for i := range many {
			if in[i] != 100*((me+n-1)%n)+i || sums[i] != n*(n-1)/2+n*i {
				t.Errorf("message %d is %d, sum %d", i, in[i], sums[i])
			}
		}
		for i, d := range made {
			if d != nil {
				tryComm(t, d, 10*i)
				ok(t, d.Free())
			}
		}
		ok(t, x.Free())
	}, hangTimeout)
}

// Pairs of ranks around a circle duplicate their communicators at a time. It would hang if Idup waited for the other rank.
func TestIdupOfOverlappingPairs(t *testing.T) {
	run(t, 4, func(t *testing.T, c *mpi.Comm) {
		n, me := c.Size(), c.Rank()
		var pairs [2]*mpi.Comm // with the next rank, with the last one
		for first := range n {
			color := mpi.Undefined
			if me == first || me == (first+1)%n {
				color = 0
			}
			if d := must(c.Split(color, 0))(t); me == first {
				pairs[0] = d
			} else if d != nil {
				pairs[1] = d
			}
		}
		for range 3 {
			a, r, err := pairs[0].Idup()
			ok(t, err)
			b, q, err := pairs[1].Idup()
			ok(t, err)
			ok(t, mpi.WaitAll([]mpi.Request{r, q}, nil))
			in := []int{0, 0}
			var all []mpi.Request
			for i, d := range []*mpi.Comm{a, b} {
				r := must(mpi.Irecv(d, in[i:i+1], 1-d.Rank(), 1))(t)
				ok(t, mpi.Send(d, []int{me}, 1-d.Rank(), 1))
				all = append(all, r, must(d.Ibarrier())(t))
			}
			ok(t, mpi.WaitAll(all, nil))
			if want := []int{(me + 1) % n, (me + n - 1) % n}; !slices.Equal(in, want) {
				t.Errorf("rank %d got %v, want %v", me, in, want)
			}
			var wg sync.WaitGroup // Free is collective: both at a time
			for _, d := range []*mpi.Comm{a, b} {
				wg.Go(func() {
					if err := d.Free(); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		}
	}, hangTimeout)
}

// Many communicators are made and freed, of all ranks and of some: no number runs out.
func TestManyFreed(t *testing.T) {
	rounds := 3000
	if testing.Short() {
		rounds = 100
	}
	run(t, 3, func(t *testing.T, c *mpi.Comm) {
		base := must(c.Dup())(t)
		for i := range rounds {
			color := 1
			if (i*2654435761>>7)%(c.Rank()+2) != 0 {
				color = mpi.Undefined
			}
			if d := must(base.Split(color, c.Rank()))(t); d != nil {
				ok(t, d.Free())
			}
			ok(t, must(base.Dup())(t).Free())
		}
		tryComm(t, base, 1)
		ok(t, base.Free())
	}, hangTimeout)
}

// Messages between two groups of different sizes, found by probes; their groups; two Intercomms of the same groups, whose messages do not meet; merging in
// all orders.
func TestIntercommMessages(t *testing.T) {
	run(t, 5, func(t *testing.T, c *mpi.Comm) {
		for split := 1; split < c.Size(); split++ {
			x, side := newIntercomm(t, c, split)
			y, _ := newIntercomm(t, c, split)
			me, theirs := x.Remote().Rank(), x.Remote().Size()
			for rank, pe := range x.Remote().Group().IDs() {
				if (pe < split) != (side == 1) {
					t.Errorf("rank %d of the other group is PE %d", rank, pe)
				}
			}
			if mine := x.Local().Group(); mine.Intersection(x.Remote().Group()).Size() != 0 || mine.Rank() != me || mine.Union(x.Remote().Group()).Size() != c.Size() {
				t.Errorf("groups %v and %v", mine.IDs(), x.Remote().Group().IDs())
			}
			of := []*mpi.Intercomm{x, y}
			in := make([]int, 2)
			var all []mpi.Request
			for i, z := range of {
				all = append(all, must(mpi.Irecv(z.Remote(), in[i:i+1], mpi.AnySource, mpi.AnyTag))(t))
			}
			ok(t, c.Barrier())
			for k, z := range []*mpi.Intercomm{y, x} { // one message for each: from the rank with the same number, or from rank 0
				for dst := range theirs {
					if dst%x.Local().Size() == me {
						ok(t, mpi.Send(z.Remote(), []int{1000 + 100*k + dst}, dst, 5))
					}
				}
			}
			ok(t, mpi.WaitAll(all, nil))
			if in[0] != 1100+me || in[1] != 1000+me {
				t.Errorf("messages %v, want %d and %d", in, 1100+me, 1000+me)
			}
			ok(t, c.Barrier())
			if me == 0 { // the ranks 0 of both groups
				for i, text := range []string{"test", "", "another one that is longer"} {
					if side == 0 {
						ok(t, mpi.Send(x.Remote(), []byte(text), 0, i))
						continue
					}
					s := must(x.Remote().Probe(0, i))(t)
					buf := make([]byte, s.Bytes)
					must(mpi.Recv(x.Remote(), buf, mpi.AnySource, i))(t)
					if string(buf) != text {
						t.Errorf("got %q, want %q", buf, text)
					}
				}
			}
			for _, high := range [][2]bool{{false, true}, {true, false}, {false, false}, {true, true}} {
				m := must(x.Merge(high[side]))(t)
				if high[0] != high[1] {
					want := me
					if high[side] {
						want += theirs
					}
					if m.Rank() != want {
						t.Errorf("merged with %v: rank %d, want %d", high, m.Rank(), want)
					}
				}
				tryComm(t, m, 7)
				ok(t, m.Free())
			}
			ok(t, y.Free())
			ok(t, x.Free())
		}
	}, hangTimeout)
}

// Hints are kept, inherited, and changed for one communicator only. Unknown ones do nothing.
func TestHintsOfDuplicates(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		base := must(c.Dup())(t)
		ok(t, base.SetInfo(mpi.Info{"mpi_error_range": "local", "soft": "2:1000:4,3:1000:7"}))
		d := must(base.Dup())(t)
		e, r, err := base.Idup()
		ok(t, err)
		must(r.Wait())(t)
		ok(t, d.SetInfo(mpi.Info{"soft": "1"}))
		for i, x := range []struct {
			c    *mpi.Comm
			soft string
		}{{base, "2:1000:4,3:1000:7"}, {d, "1"}, {e, "2:1000:4,3:1000:7"}} {
			if got := x.c.Info()["soft"]; got != x.soft {
				t.Errorf("communicator %d has the hint %q, want %q", i, got, x.soft)
			}
			tryComm(t, x.c, i)
		}
		if err := d.SetInfo(mpi.Info{"mpi_error_range": "nowhere"}); !errors.Is(err, mpi.ErrArgument) {
			t.Errorf("a hint with a wrong value: %v", err)
		}
		for _, x := range []*mpi.Comm{base, d, e} {
			ok(t, x.Free())
		}
	}, hangTimeout)
}

// A communicator is freed while operations of it are inactive, were started and are complete, or never were.
func TestInactiveAtFree(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		other := 1 - c.Rank()
		d := must(c.Dup())(t)
		var all []mpi.Persistent
		for range 2 {
			all = append(all, must(mpi.SendInit(d, []int{}, other, 0))(t), must(mpi.RecvInit(d, []int{}, other, 0))(t), must(d.BarrierInit())(t))
		}
		ok(t, mpi.Start(all[:3]...))
		for _, p := range all[:3] {
			must(p.Wait())(t)
		}
		ok(t, d.Free())
		for i, p := range all {
			if s, err := p.Wait(); s != emptyStatus || err != nil {
				t.Errorf("operation %d, inactive: %+v, %v", i, s, err)
			}
			if err := mpi.Start(p); !errors.Is(err, mpi.ErrFreed) {
				t.Errorf("operation %d, started after Free: %v, want %v", i, err, mpi.ErrFreed)
			}
		}
	}, hangTimeout)
}
