package coll_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/goshmem/goshmem/coll"
)

// A reduction of private memory in several steps has one set of contributors as a whole, or fails
// on all survivors of a tolerant team alike. The team goes on.
func TestReducePrivateIsWhole(t *testing.T) {
	const n, victim, size = 4, 1, 3*(64<<10)/4 + 5
	for folds := range 9 { // of the victim, before it dies
		nd := newNode(t, n)
		over := make(chan struct{})
		var ended, died sync.WaitGroup
		die := nd.killLater(&died, victim, folds*10)
		var failed [n]bool
		for me := range n {
			tm, g := nd.tolerantTeam(t, me), &given{n: size, who: firstPEs(n)}
			src, dst := make([]uint32, size), make([]uint32, size)
			for j := range src {
				src[j] = g.of(me, j)
			}
			if left := folds; me == victim {
				go func() {
					_ = coll.ReducePrivate(t.Context(), tm, dst, src, dieIn{left: &left, mortal: mortal{die, over}}.fold, -1)
					die()
				}()
				continue
			}
			ended.Go(func() {
				err := coll.ReducePrivate(t.Context(), tm, dst, src, sum, -1)
				if failed[me] = err != nil; err != nil {
					wantDeadError(t, "a survivor", err, victim)
				}
				for j := range dst {
					if err == nil && dst[j] != g.sum(j) {
						t.Errorf("element %d is %#x, want %#x", j, dst[j], g.sum(j))
						break
					}
				}
				for len(tm.Outcome().Failed) == 0 && t.Context().Err() == nil { // it may die after the last step
					runtime.Gosched()
					if err := tm.Sync(t.Context()); err != nil {
						t.Error(err)
						return
					}
				}
				g.who = []int{0, 2, 3}
				if err := coll.ReducePrivate(t.Context(), tm, dst, src, sum, -1); err != nil || dst[size-1] != g.sum(size-1) {
					t.Errorf("the next reduction: error %v, got %#x, want %#x", err, dst[size-1], g.sum(size-1))
				}
			})
		}
		mustFinish(t, "ReducePrivate", func() { ended.Wait(); died.Wait() })
		close(over)
		if failed[0] != failed[2] || failed[0] != failed[3] {
			t.Errorf("%d folds: failed on some survivors only: %v", folds, failed)
		}
	}
}
