package coll_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/goshmem/goshmem/coll"
)

func init() {
	everyCollective["ReducePrivate"] = func(ctx context.Context, tm *coll.Team, _ int) error { // to a root, a strict team waits there alone
		return coll.ReducePrivate(ctx, tm, make([]uint32, 100), make([]uint32, 100), sum, -1)
	}
	everyCollective["ReducePrivate large"] = func(ctx context.Context, tm *coll.Team, _ int) error {
		return coll.ReducePrivate(ctx, tm, make([]uint32, 40_000), make([]uint32, 40_000), sum, -1)
	}
}

// nested is an operator that makes a reduction on another team, once.
type nested struct {
	ctx  context.Context
	tm   *coll.Team
	src  []uint32
	dst  []uint32
	done bool
	err  error
}

func (n *nested) fold(acc, in []uint32) {
	sum(acc, in)
	if !n.done {
		n.done = true
		n.err = coll.ReducePrivate(n.ctx, n.tm, n.dst, n.src, sum, -1)
	}
}

// A PE's area belongs to one team at a time. A reduction on another team in the middle of one has
// the right result and leaves the first one alone.
func TestAreaOfOneTeam(t *testing.T) {
	const elems = 50_000 // four pieces
	for _, n := range []int{2, 3, 5} {
		nd := newNode(t, n)
		members := firstPEs(n)
		inner := make([]*coll.Team, n)
		for me := range inner {
			inner[me] = newTeam(t, nd.config(7, me, members))
		}
		nd.each(t, 6, members, func(me int, tm *coll.Team) error {
			src, dst := make([]uint32, elems), make([]uint32, elems)
			op := &nested{ctx: t.Context(), tm: inner[me], src: make([]uint32, elems), dst: make([]uint32, elems)}
			for i := range src {
				src[i], op.src[i] = uint32(i+me), uint32(i*me)
			}
			for range 3 {
				op.done = false
				if err := coll.ReducePrivate(t.Context(), tm, dst, src, op.fold, -1); err != nil {
					return err
				}
				if op.err != nil {
					return op.err
				}
				part := n * (n - 1) / 2
				for i := range dst {
					if dst[i] != uint32(n*i+part) || op.dst[i] != uint32(i*part) {
						return fmt.Errorf("%d members, element %d: %d and %d, want %d and %d", n, i, dst[i], op.dst[i], n*i+part, i*part)
					}
				}
			}
			return nil
		})
	}
}

// record is an element of any size, whose first and last words are summed.
type record[A any] struct {
	first uint32
	_     A
	last  uint32
}

func sumRecords[A any](acc, in []record[A]) {
	for i := range acc {
		acc[i].first += in[i].first
		acc[i].last += in[i].last
	}
}

// reduceRecords reduces records on all members, by turns with numbers, whose shares have other
// borders.
func reduceRecords[A any](t *testing.T, n, elems int) {
	nd := newNode(t, n)
	part := uint32(n * (n - 1) / 2)
	mustFinish(t, "ReducePrivate", func() {
		nd.each(t, 5, firstPEs(n), func(me int, tm *coll.Team) error {
			src, dst := make([]record[A], elems), make([]record[A], elems)
			numbers, sums := make([]uint32, 20_001), make([]uint32, 20_001)
			for i := range src {
				src[i].first, src[i].last = uint32(i+me), uint32(i*me)
			}
			for i := range numbers {
				numbers[i] = uint32(3*i + me)
			}
			for range 40 { // more than there are places
				if err := coll.ReducePrivate(t.Context(), tm, dst, src, sumRecords[A], -1); err != nil {
					return err
				}
				if err := coll.ReducePrivate(t.Context(), tm, sums, numbers, sum, -1); err != nil {
					return err
				}
				for i := range dst {
					if dst[i].first != uint32(n*i)+part || dst[i].last != uint32(i)*part {
						return fmt.Errorf("element %d of %d members: got %d and %d, want %d and %d", i, n, dst[i].first, dst[i].last, uint32(n*i)+part, uint32(i)*part)
					}
				}
				for i := range sums {
					if sums[i] != uint32(3*n*i)+part {
						return fmt.Errorf("number %d of %d members: %d", i, n, sums[i])
					}
				}
			}
			return nil
		})
	})
}

// Elements may be as large as a slot, even if a share of a piece has no room for one.
func TestLargeElements(t *testing.T) {
	const slot = coll.MaxPrivate - 8
	reduceRecords[[slot]byte](t, 3, 29)
	reduceRecords[[slot]byte](t, 9, 5)
	reduceRecords[[4093]byte](t, 9, 70)
	reduceRecords[[13]byte](t, 5, 9001)
}
