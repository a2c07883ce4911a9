package coll_test

import (
	"context"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/symheap/layout"
)

// BenchmarkTogether measures collectives of two members, which are goroutines here, on a strict
// and a tolerant team. best/op is the smallest mean of 64 calls in a row, which is the most useful
// figure when other programs use the processors as well.
func BenchmarkTogether(b *testing.B) {
	calls := map[string]func(ctx context.Context, tm *coll.Team) error{
		"Sync": func(ctx context.Context, tm *coll.Team) error { return tm.Sync(ctx) },
		"Agree": func(ctx context.Context, tm *coll.Team) error {
			_, err := coll.Agree(ctx, tm, 1)
			return err
		},
	}
	for name, n := range map[string]int{"8B": 2, "1KiB": 256, "64KiB": 16 << 10, "1MiB": 256 << 10} {
		x := coll.Buffers{Dst: layout.HeapOffset, Src: layout.HeapOffset + 2<<20, N: n}
		calls["Reduce/"+name] = func(ctx context.Context, tm *coll.Team) error { return coll.Reduce[uint32](ctx, tm, x, sum) }
		calls["Broadcast/"+name] = func(ctx context.Context, tm *coll.Team) error { return coll.Broadcast[uint32](ctx, tm, x, 0) }
		y := coll.Buffers{Dst: x.Src, Src: x.Src, N: n}
		calls["ReduceInPlace/"+name] = func(ctx context.Context, tm *coll.Team) error { return coll.Reduce[uint32](ctx, tm, y, sum) }
	}
	for name, call := range calls {
		for mode, tolerant := range map[string]bool{"strict": false, "tolerant": true} {
			b.Run(name+"/"+mode, func(b *testing.B) { together(b, tolerant, call) })
		}
	}
}

func together(b *testing.B, tolerant bool, call func(ctx context.Context, tm *coll.Team) error) {
	b.Helper()
	nd := newNodeOf(b, 2, 4<<20, wait.Policy{Polls: 2000, Yields: 20, First: time.Millisecond, Most: time.Millisecond})
	best := math.Inf(1)
	var wg sync.WaitGroup
	for me := range 2 {
		tm := teamOf(b, nd, me, tolerant)
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for i := 0; i < b.N; i += 64 {
				begin := time.Now()
				for range 64 {
					if err := call(b.Context(), tm); err != nil {
						b.Error(err)
						return
					}
				}
				if me == 0 {
					best = min(best, float64(time.Since(begin).Nanoseconds())/64)
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(best, "best-ns/op")
}

func teamOf(b *testing.B, nd *node, me int, tolerant bool) *coll.Team {
	b.Helper()
	cfg := nd.config(0, me, []int{0, 1})
	cfg.Tolerant = tolerant
	return newTeam(b, cfg)
}
