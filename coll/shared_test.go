package coll_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/goshmem/goshmem/coll"
)

func init() {
	every["ReducePrivate"] = func(ctx context.Context, tm *coll.Team, root int) error {
		return coll.ReducePrivate(ctx, tm, make([]uint32, 100), make([]uint32, 100), sum{}, root)
	}
	every["ReducePrivate large"] = func(ctx context.Context, tm *coll.Team, _ int) error {
		return coll.ReducePrivate(ctx, tm, make([]uint32, 40_000), make([]uint32, 40_000), sum{}, -1)
	}
}

// nested is an operator that, once, makes a reduction on another team.
type nested struct {
	ctx  context.Context
	tm   *coll.Team
	src  []uint32
	dst  []uint32
	done bool
	err  error
}

func (n *nested) Fold(acc, in []uint32) {
	sum{}.Fold(acc, in)
	if !n.done {
		n.done = true
		n.err = coll.ReducePrivate(n.ctx, n.tm, n.dst, n.src, sum{}, -1)
	}
}

// A PE's area is one team's at a time: a reduction on another team in the middle of
// one gives the right result, and takes nothing from the first.
func TestAreaOfOneTeam(t *testing.T) {
	const elems = 50_000 // four pieces
	for _, n := range []int{2, 3, 5} {
		nd := newNode(t, n)
		members := make([]int, n)
		for i := range members {
			members[i] = i
		}
		inner := make([]*coll.Team, n)
		for me := range inner {
			tm, err := coll.New(coll.Config{Map: nd.m, Waiter: nd.waiters[me], Members: members, Me: me, ID: 7, Failures: nd.failures})
			if err != nil {
				t.Fatal(err)
			}
			inner[me] = tm
		}
		nd.each(t, 6, members, func(me int, tm *coll.Team) error {
			src, dst := make([]uint32, elems), make([]uint32, elems)
			op := &nested{ctx: t.Context(), tm: inner[me], src: make([]uint32, elems), dst: make([]uint32, elems)}
			for i := range src {
				src[i], op.src[i] = uint32(i+me), uint32(i*me)
			}
			for range 3 {
				op.done = false
				if err := coll.ReducePrivate(t.Context(), tm, dst, src, op, -1); err != nil {
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
