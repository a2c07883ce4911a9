package coll_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Deaths end these collectives as they end all others.
func init() {
	everyCollective["Collect"] = func(ctx context.Context, tm *coll.Team, _ int) error {
		return coll.Collect[uint32](ctx, tm, small, small.N*tm.Size())
	}
	everyCollective["Collect large"] = func(ctx context.Context, tm *coll.Team, _ int) error {
		return coll.Collect[uint32](ctx, tm, large, large.N*tm.Size())
	}
	everyCollective["AlltoallS"] = func(ctx context.Context, tm *coll.Team, _ int) error {
		return coll.AlltoallS[uint32](ctx, tm, small, coll.Strides{Dst: 2, Src: 3})
	}
	everyCollective["AlltoallS large"] = func(ctx context.Context, tm *coll.Team, _ int) error {
		return coll.AlltoallS[uint32](ctx, tm, large, coll.Strides{Dst: 1, Src: 2})
	}
	everyCollective["Scan"] = func(ctx context.Context, tm *coll.Team, _ int) error {
		return coll.Scan[uint32](ctx, tm, small, sum, false)
	}
	everyCollective["Scan large"] = func(ctx context.Context, tm *coll.Team, _ int) error {
		return coll.Scan[uint32](ctx, tm, large, sum, true)
	}
}

// Random sequences of these and other collectives, of random sizes, run on teams in any order of
// members, without barriers.
func TestRandomGathers(t *testing.T) {
	steps := 1500
	if testing.Short() {
		steps = 400
	}
	for _, crowded := range []bool{false, true} {
		policy := sleepEarly
		policy.Crowded = crowded
		nd := newNodeWith(t, 4, policy)
		for id, members := range [][]int{{0, 1, 2, 3}, {3, 1}, {2}, {1, 0, 3}} {
			seed := uint64(id + 100)
			t.Logf("team %v: seed %d", members, seed)
			nd.each(t, id, members, func(me int, tm *coll.Team) error {
				rng := rand.New(rand.NewPCG(seed, 0)) // the same on all members
				for step := range steps {
					g := gathering{nd: nd, tm: tm, members: members, me: me, salt: rng.Uint32()}
					err := g.step(t.Context(), rng)
					if err == nil && rng.IntN(3) == 0 {
						err = randomCollective(t.Context(), nd, tm, members, me, rng)
					}
					if err != nil {
						return fmt.Errorf("step %d, member %d: %w", step, me, err)
					}
				}
				return nil
			})
		}
	}
}

// gathering is one step of TestRandomGathers.
type gathering struct {
	nd      *node
	tm      *coll.Team
	members []int
	me      int
	salt    uint32
}

const untouched = 0xdeadbeef

func (g gathering) value(m, i int) uint32 { return g.salt + uint32(m)*1000003 + uint32(i) }

func (g gathering) step(ctx context.Context, rng *rand.Rand) error {
	const dst, src = 0, 256 << 10
	kind, inPlace := rng.IntN(3), rng.IntN(2) == 0
	counts := make([]int, len(g.members))
	most := 300
	if rng.IntN(3) == 0 {
		most = 6000
	}
	total := 0
	for i := range counts {
		counts[i] = rng.IntN(most)
		if rng.IntN(4) == 0 {
			counts[i] = 0
		}
		total += counts[i]
	}
	s := coll.Strides{Dst: 1 + rng.IntN(3), Src: 1 + rng.IntN(3)}
	n := rng.IntN(max(most/3/len(counts), 1))
	exclusive := rng.IntN(2) == 0

	room := len(counts)*most + 300 // more than any of them needs
	in := elements[uint32](g.nd, g.members[g.me], src, room)
	for i := range in {
		in[i] = g.value(g.me, i)
	}
	out := elements[uint32](g.nd, g.members[g.me], dst, room)
	for i := range out {
		out[i] = untouched
	}
	b := coll.Buffers{Dst: layout.HeapOffset + dst, Src: layout.HeapOffset + src}
	want := make([]uint32, len(out))
	for i := range want {
		want[i] = untouched
	}
	var err error
	switch kind {
	case 0:
		b.N = counts[g.me]
		k := 0
		for m, c := range counts {
			for i := range c {
				want[k] = g.value(m, i)
				k++
			}
		}
		err = coll.Collect[uint32](ctx, g.tm, b, total+rng.IntN(3))
	case 1:
		b.N = n
		for m := range counts {
			for i := range n {
				want[(m*n+i)*s.Dst] = g.value(m, (g.me*n+i)*s.Src)
			}
		}
		err = coll.AlltoallS[uint32](ctx, g.tm, b, s)
	default:
		b.N = counts[0]
		if inPlace {
			b.Dst, out, want = b.Src, in, slices.Clone(in)
		}
		end := g.me + 1
		if exclusive {
			end--
		}
		for i := range b.N {
			want[i] = 0
			for m := range end {
				want[i] += g.value(m, i)
			}
		}
		err = coll.Scan[uint32](ctx, g.tm, b, sum, exclusive)
	}
	if err != nil {
		return err
	}
	for i, v := range out {
		if v != want[i] {
			return fmt.Errorf("kind %d, counts %v, n %d, %+v, exclusive %v, in place %v: element %d is %#x, want %#x",
				kind, counts, n, s, exclusive, inPlace, i, v, want[i])
		}
	}
	return nil
}

// If one member has too little room or calls another collective, all members get the error, and
// the team goes on.
func TestCollectRefuses(t *testing.T) {
	nd := newNode(t, 3)
	nd.each(t, 0, []int{0, 1, 2}, func(me int, tm *coll.Team) error {
		b := coll.Buffers{Dst: layout.HeapOffset, Src: layout.HeapOffset + 256<<10}
		for _, n := range []int{5, 5000} {
			b.N = n * me
			room := 3 * n
			if me == 1 {
				room--
			}
			err := coll.Collect[uint64](t.Context(), tm, b, room)
			if short, ok := errors.AsType[*coll.RoomError](err); !ok || *short != (coll.RoomError{Member: 1, Room: 3*n - 1, Total: 3 * n}) {
				return fmt.Errorf("room for one element less than needed: %w", err)
			}
		}
		var err error
		if me == 2 {
			err = coll.Collect[uint32](t.Context(), tm, b, 100)
		} else {
			err = coll.Collect[uint64](t.Context(), tm, b, 100)
		}
		if other, ok := errors.AsType[*coll.OtherError](err); !ok || (other.Member == 2) != (me != 2) {
			return fmt.Errorf("different element type: %w", err)
		}
		if me == 2 {
			err = tm.Sync(t.Context())
		} else if err = coll.Collect[uint64](t.Context(), tm, b, 100); err != nil {
			if other, ok := errors.AsType[*coll.OtherError](err); ok && other.Member == 2 {
				err = nil
			}
		}
		if err != nil {
			return fmt.Errorf("another collective: %w", err)
		}
		return tm.Sync(t.Context())
	})
}
