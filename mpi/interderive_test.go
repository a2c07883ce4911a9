package mpi_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// tryIntercomm exchanges messages and a collective. The ranks of the groups are those of c in mine and theirs.
func tryIntercomm(t *testing.T, c *mpi.Comm, x *mpi.Intercomm, mine, theirs []int) {
	t.Helper()
	me := slices.Index(mine, c.Rank())
	if x.Local().Size() != len(mine) || x.Local().Rank() != me || x.Remote().Rank() != me || x.Remote().Size() != len(theirs) {
		t.Fatalf("rank %d of %d, and %d others; want rank %d of %d, and %d", x.Local().Rank(), x.Local().Size(), x.Remote().Size(), me, len(mine), len(theirs))
	}
	for rank := range theirs {
		ok(t, mpi.Send(x.Remote(), []int{c.Rank()}, rank, 1))
	}
	in := []int{0}
	for rank, want := range theirs {
		if must(mpi.Recv(x.Remote(), in, rank, 1))(t); in[0] != want {
			t.Errorf("rank %d of the other group is %d, want %d", rank, in[0], want)
		}
	}
	all := make([]int, len(theirs))
	ok(t, mpi.InterAllgather(x, all, []int{c.Rank()}))
	if !slices.Equal(all, theirs) {
		t.Errorf("the other group is %v, want %v", all, theirs)
	}
	tryComm(t, x.Local(), 7)
	m := must(x.Merge(false))(t)
	tryComm(t, m, 9)
	ok(t, m.Free())
}

// sidesOf returns the ranks of the two groups of newIntercomm, in their order.
func sidesOf(n, split int) (sides [2][]int) {
	for rank := n - 1; rank >= 0; rank-- {
		side := 0
		if rank >= split {
			side = 1
		}
		sides[side] = append(sides[side], rank)
	}
	return sides
}

// Dup, Split and Create make Intercomms whose messages and collectives do not meet those of the first one.
func TestIntercommDerived(t *testing.T) {
	run(t, 6, func(t *testing.T, c *mpi.Comm) {
		for _, split := range []int{1, 2, 4} {
			x, side := newIntercomm(t, c, split)
			sides := sidesOf(c.Size(), split)
			mine, theirs := sides[side], sides[1-side]
			me := slices.Index(mine, c.Rank())
			pending := must(mpi.IinterAllgather(x, make([]int, len(theirs)), []int{1}))(t)
			d := must(x.Dup())(t)
			tryIntercomm(t, c, d, mine, theirs)

			y := must(d.Split(0, -me))(t) // all, in the reverse order
			reversed, others := slices.Clone(mine), slices.Clone(theirs)
			slices.Reverse(reversed)
			slices.Reverse(others)
			tryIntercomm(t, c, y, reversed, others)
			ok(t, y.Free())

			parity := func(ranks []int, of int) []int {
				return slices.DeleteFunc(slices.Clone(ranks), func(rank int) bool { return rank%2 != of })
			}
			some, few := parity(mine, c.Rank()%2), parity(theirs, c.Rank()%2)
			if y := must(d.Split(c.Rank()%2, 0))(t); (y == nil) != (len(few) == 0) {
				t.Errorf("Split by parity: %v, and the other group has %v", y, few)
			} else if y != nil {
				tryIntercomm(t, c, y, some, few)
				ok(t, y.Free())
			}
			if y := must(d.Split(mpi.Undefined, 0))(t); y != nil {
				t.Error("Split of Undefined has returned an Intercomm")
			}

			// Each side names its first and its last rank, or only one if it has one.
			ends := func(n int) []int { return slices.Compact([]int{n - 1, 0}) }
			g := must(x.Local().Group().Incl(ends(len(mine))...))(t)
			y = must(d.Create(g))(t)
			in := slices.Contains(ends(len(mine)), me)
			if (y != nil) != in {
				t.Fatalf("Create of rank %d: %v", me, y)
			}
			if in {
				at := func(ranks []int) (of []int) {
					for _, rank := range ends(len(ranks)) {
						of = append(of, ranks[rank])
					}
					return of
				}
				tryIntercomm(t, c, y, at(mine), at(theirs))
				ok(t, y.Free())
			}
			if g = (mpi.Group{}); side == 0 {
				g = x.Local().Group()
			}
			if y := must(d.Create(g))(t); y != nil {
				t.Error("Create with an empty group on one side has returned an Intercomm")
			}
			must(pending.Wait())(t)
			ok(t, d.Free())
			ok(t, x.Free())
		}
	}, hangTimeout)
}

// The handler and the context of an Intercomm are those of the ones that are made of it.
func TestIntercommDerivedInherits(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		x, _ := newIntercomm(t, c, 1)
		calls := 0
		ok(t, x.OnError(func(_ *mpi.Comm, err error) error {
			calls++
			return err
		}))
		d := must(x.Dup())(t)
		ok(t, x.Free())
		ok(t, d.Revoke())
		if err := errOf(d.Dup()); !errors.Is(err, mpi.ErrRevoked) || calls != 1 {
			t.Errorf("Dup of what is revoked: %v, and %d calls of the handler, want 1", err, calls)
		}
		ok(t, d.Free())
	}, hangTimeout)
}

// A rank with bad arguments gets its error, and the others learn of it.
func TestIntercommDerivedMistakes(t *testing.T) {
	run(t, 4, func(t *testing.T, c *mpi.Comm) {
		x, side := newIntercomm(t, c, 2)
		me := x.Local().Rank()
		wrong := side == 1 && me == 0
		color, want := 0, mpi.ErrMismatch
		if wrong {
			color, want = -5, mpi.ErrArgument
		}
		if _, err := x.Split(color, 0); !errors.Is(err, want) {
			t.Errorf("Split of color %d: %v, want %v", color, err, want)
		}
		g := x.Local().Group()
		if wrong {
			g = x.Remote().Group()
		}
		if _, err := x.Create(g); !errors.Is(err, want) {
			t.Errorf("Create: %v, want %v", err, want)
		}
		if side == 1 {
			g = must(x.Local().Group().Incl(me))(t)
		}
		if _, err := x.Create(g); !errors.Is(err, mpi.ErrMismatch) {
			t.Errorf("Create of different groups: %v, want %v", err, mpi.ErrMismatch)
		}
		d := must(x.Dup())(t)
		ok(t, x.Free())
		if _, err := x.Dup(); !errors.Is(err, mpi.ErrFreed) {
			t.Errorf("Dup after Free: %v, want %v", err, mpi.ErrFreed)
		}
		sides := sidesOf(4, 2)
		tryIntercomm(t, c, d, sides[side], sides[1-side])
		ok(t, d.Free())
	}, hangTimeout)
}

// A rank dies while others make Intercomms: all get an error or an Intercomm in which the death is one.
func TestIntercommDerivedDeath(t *testing.T) {
	const n, split, victim = 5, 2, 1
	run(t, n, func(t *testing.T, c *mpi.Comm) {
		x, side := newIntercomm(t, c, split)
		me := x.Local().Rank()
		for i := 0; ; i++ {
			if c.Rank() == victim && i == 5 {
				die()
			}
			y, err := x.Split(0, (me+i)%x.Local().Size())
			if err == nil {
				if err = y.Barrier(); err == nil {
					err = y.Free()
				} else {
					ok(t, y.Free())
				}
			}
			if err == nil {
				continue
			}
			if !errors.Is(err, mpi.ErrDied) && !errors.Is(err, mpi.ErrRankFinalized) {
				t.Errorf("Split or Barrier %d: %v, want %v", i, err, mpi.ErrDied)
			}
			break
		}
		color := mpi.Undefined
		if side == 1 {
			color = 0
		}
		if y, err := x.Split(color, 0); y != nil || !errors.Is(err, mpi.ErrDied) {
			t.Errorf("Split after the death: %v, %v, want %v", y, err, mpi.ErrDied)
		}
		ok(t, x.Free())
	}, shmemtest.Recover(victim), hangTimeout)
}
