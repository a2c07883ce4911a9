package mpi_test

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/goshmem/goshmem/mpi"
)

// The engine's lock is had by one goroutine at a time, which sees what those before it have done,
// on one processor and among more threads than there are.
func TestLock(t *testing.T) {
	for _, threads := range []int{1, 2, 8} {
		func() {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
			const goroutines, rounds = 10, 5000
			l, sum := mpi.NewLock(), 0
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
	l := mpi.NewLock()
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
