package wait_test

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/wait"
)

// One goroutine at a time holds a Lock and sees what earlier holders have written, on one
// processor and with more threads than processors.
func TestLock(t *testing.T) {
	for _, threads := range []int{1, 2, 8} {
		func() {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
			const goroutines, rounds = 10, 5000
			l, sum := new(wait.Lock), 0
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

// A goroutine that waits for a lock which is held for long gets it, and not before it is free.
func TestLockHeldLong(t *testing.T) {
	l := new(wait.Lock)
	l.Lock()
	got := make(chan struct{})
	go func() {
		l.Lock()
		close(got)
		l.Unlock()
	}()
	select {
	case <-got:
		t.Fatal("Lock returned although another goroutine holds the lock")
	case <-time.After(20 * time.Millisecond):
	}
	l.Unlock()
	<-got
}

// A goroutine that takes the lock again and again soon lets a waiting one have it, whether they
// share a processor or not, and however long its critical sections are.
func TestLockTurns(t *testing.T) {
	for _, x := range []struct {
		threads, rounds int
		section         time.Duration
		most            int64 // sections of the other goroutine in all rounds
	}{
		{1, 20, 0, 100000}, // one time slice has thousands of them
		{1, 20, 100 * time.Microsecond, 2000},
		{2, 20, 100 * time.Microsecond, 2000},
		{2, 20, time.Millisecond, 300}, // some 600 without turns, 20 with them
		{4, 20, time.Millisecond, 300},
	} {
		t.Run(fmt.Sprintf("%d threads, %v", x.threads, x.section), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(x.threads))
			var l wait.Lock
			var over atomic.Bool
			var sections atomic.Int64
			var wg sync.WaitGroup
			wg.Go(func() {
				for !over.Load() {
					l.Lock()
					sections.Add(1)
					for begin := time.Now(); time.Since(begin) < x.section; { // computes for the length of the section
					}
					l.Unlock()
				}
			})
			waited := int64(0)
			for round := 0; round < x.rounds && waited <= x.most; round++ {
				for before := sections.Load(); sections.Load() == before; { // until the other goroutine has begun a section
					runtime.Gosched()
				}
				before := sections.Load()
				l.Lock()
				waited += sections.Load() - before
				l.Unlock()
			}
			over.Store(true)
			wg.Wait()
			if waited > x.most {
				t.Errorf("waited for %d sections in %d rounds, want at most %d", waited, x.rounds, x.most)
			}
			t.Logf("waited for %d sections in %d rounds", waited, x.rounds)
		})
	}
}
