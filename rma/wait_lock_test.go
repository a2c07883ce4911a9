package rma_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goshmem/goshmem/rma"
)

// A Lock is had by one goroutine at a time, which sees what those before it have done,
// on one processor and among more threads than there are.
func TestLock(t *testing.T) {
	for _, threads := range []int{1, 2, 8} {
		func() {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
			const goroutines, rounds = 10, 5000
			l, sum := new(rma.Lock), 0
			var wg sync.WaitGroup
			for range goroutines {
				wg.Go(func() {
					for range rounds {
						l.Lock()
						sum++
						l.Unlock()
					}
				})
			}
			wg.Wait()
			if sum != goroutines*rounds {
				t.Errorf("%d threads: %d rounds, want %d", threads, sum, goroutines*rounds)
			}
		}()
	}
}

// Who waits for a goroutine that has the lock for long sleeps, and gets it.
func TestLockHeldLong(t *testing.T) {
	l := new(rma.Lock)
	l.Lock()
	got := make(chan struct{})
	go func() {
		l.Lock()
		close(got)
		l.Unlock()
	}()
	select {
	case <-got:
		t.Fatal("a lock that another goroutine has")
	case <-time.After(20 * time.Millisecond):
	}
	l.Unlock()
	<-got
}

// A goroutine that takes the lock again and again lets one that waits have it soon, on one
// processor as well.
func TestLockTurns(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const rounds, most = 100, 1000 // sections of the other one; in one time slice there are thousands
	var l rma.Lock
	var over atomic.Bool
	var sections atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		for !over.Load() {
			l.Lock()
			for range 100 {
				sections.Add(1)
			}
			l.Unlock()
		}
	})
	for range rounds {
		for before := sections.Load(); sections.Load() == before; { // until the other one has begun
			runtime.Gosched()
		}
		before := sections.Load()
		l.Lock()
		if took := (sections.Load() - before) / 100; took > most {
			t.Errorf("waited for %d sections, want at most %d", took, most)
		}
		l.Unlock()
	}
	over.Store(true)
	wg.Wait()
}
