package coll_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/goshmem/goshmem/coll"
)

// If one member calls a different large collective, all members notice it, and the team is broken
// for all.
func TestMismatch(t *testing.T) {
	type called func(ctx context.Context, tm *coll.Team) error
	buffers := func(n int, skip uint64) coll.Buffers {
		return coll.Buffers{Dst: small.Dst, Src: small.Src + skip, N: n}
	}
	const n = 4000
	calls := map[string]called{
		"Reduce":      func(ctx context.Context, tm *coll.Team) error { return coll.Reduce(ctx, tm, buffers(n, 0), sum) },
		"Reduce more": func(ctx context.Context, tm *coll.Team) error { return coll.Reduce(ctx, tm, buffers(n+1, 0), sum) },
		"Reduce other object": func(ctx context.Context, tm *coll.Team) error {
			return coll.Reduce(ctx, tm, buffers(n, 32), sum)
		},
		"Scan":           func(ctx context.Context, tm *coll.Team) error { return coll.Scan(ctx, tm, buffers(n, 0), sum, false) },
		"Scan exclusive": func(ctx context.Context, tm *coll.Team) error { return coll.Scan(ctx, tm, buffers(n, 0), sum, true) },
		"FCollect":       func(ctx context.Context, tm *coll.Team) error { return coll.FCollect[uint32](ctx, tm, buffers(n, 0)) },
		"FCollect of 8 bytes": func(ctx context.Context, tm *coll.Team) error {
			return coll.FCollect[uint64](ctx, tm, buffers(n, 0))
		},
		"Alltoall": func(ctx context.Context, tm *coll.Team) error { return coll.Alltoall[uint32](ctx, tm, buffers(n, 0)) },
		"AlltoallS": func(ctx context.Context, tm *coll.Team) error {
			return coll.AlltoallS[uint32](ctx, tm, buffers(n, 0), coll.Strides{Dst: 1, Src: 1})
		},
		"AlltoallS wider": func(ctx context.Context, tm *coll.Team) error {
			return coll.AlltoallS[uint32](ctx, tm, buffers(n, 0), coll.Strides{Dst: 1, Src: 2})
		},
		"Reduce little": func(ctx context.Context, tm *coll.Team) error { return coll.Reduce(ctx, tm, small, sum) },
		"Sync":          func(ctx context.Context, tm *coll.Team) error { return tm.Sync(ctx) },
	}
	for one, first := range calls {
		for other, second := range calls {
			if one == other || one == "Sync" || one == "Reduce little" {
				continue
			}
			nd := newNode(t, 3)
			mustFinish(t, one+" and "+other, func() {
				var wg sync.WaitGroup
				for me := range 3 {
					tm := nd.tolerantTeam(t, me)
					if me == 0 {
						tm = nd.member(t, me, nd.failures)
					}
					wg.Go(func() {
						call, finds := first, me != 2
						if !finds {
							call, finds = second, other != "Sync" && other != "Reduce little"
						}
						err := call(t.Context(), tm)
						if e, is := errors.AsType[*coll.OtherError](err); finds && (!is || (e.Member == 2) != (me != 2)) || !finds && err != nil {
							t.Errorf("%s, but member 2 %s: member %d: %v", one, other, me, err)
						}
						if err := tm.Sync(t.Context()); !errors.Is(err, coll.ErrBroken) {
							t.Errorf("%s, but member 2 %s: member %d in the next collective: %v, want ErrBroken", one, other, me, err)
						}
					})
				}
				wg.Wait()
			})
		}
	}
}

// In a large broadcast, a member with another root or another length notices it.
func TestMismatchOfRoots(t *testing.T) {
	for name, b := range map[string]struct{ n, root int }{"root": {large.N, 1}, "length": {large.N + 1, 0}} {
		nd := newNode(t, 3)
		errs := make([]error, 3)
		mustFinish(t, name, func() {
			var wg sync.WaitGroup
			for me := range 3 {
				tm := nd.tolerantTeam(t, me)
				wg.Go(func() {
					x, root := large, 0
					if me == 2 {
						x.N, root = b.n, b.root
					}
					errs[me] = coll.Broadcast[uint32](t.Context(), tm, x, root)
					if err := tm.Sync(t.Context()); !errors.Is(err, coll.ErrBroken) {
						t.Errorf("%s: member %d in the next collective: %v, want ErrBroken", name, me, err)
					}
				})
			}
			wg.Wait()
		})
		other, is := errors.AsType[*coll.OtherError](errs[2])
		if !is || other.Member != b.root || !errors.Is(errs[0], coll.ErrBroken) {
			t.Error(fmt.Sprintf("%s: ", name), errs)
		}
	}
}
