package rma

import (
	"runtime"
	"sync/atomic"
	"time"
)

// Lock is a mutual exclusion of goroutines, for sections behind which other processes wait for
// what was stored. Unlock is a store, where sync.Mutex has a locked instruction: that waits until
// all stores of the section have left the processor's queue, and so for cache lines that other
// processors have (docs/performance.md). The zero Lock is free.
//
// In return, Unlock does not hand the Lock over. Those who wait look again by themselves, and who
// gives the Lock back while they do lets other goroutines go on: so it is not one goroutine's that
// gives it back and takes it again at once, however long its sections are.
type Lock struct {
	held uint64        // 1: somebody has it
	wait atomic.Uint32 // goroutines that have looked in vain for long
}

const (
	lockLooks  = 200 // of who waits, before it lets other goroutines go on
	lockYields = 200 // how often it does so, before it sleeps
	lockSleep  = 20 * time.Microsecond
)

// Lock returns when the caller has the lock.
func (l *Lock) Lock() {
	if !atomic.CompareAndSwapUint64(&l.held, 0, 1) {
		l.await()
	}
}

// await is Lock where somebody has it. It is not put in line, so that Lock is.
//
//go:noinline
func (l *Lock) await() {
	for range lockLooks {
		if l.take() {
			return
		}
	}
	l.wait.Add(1)
	defer l.wait.Add(^uint32(0))
	for looks := 0; ; looks++ {
		if looks < lockYields {
			runtime.Gosched()
		} else {
			time.Sleep(lockSleep)
		}
		if l.take() {
			return
		}
	}
}

// take takes the lock if nobody has it.
func (l *Lock) take() bool {
	return atomic.LoadUint64(&l.held) == 0 && atomic.CompareAndSwapUint64(&l.held, 0, 1)
}

// Unlock gives the lock back. The next one who has it sees what the caller has stored.
func (l *Lock) Unlock() {
	StoreRelease(&l.held, 0)
	if l.wait.Load() != 0 {
		giveWay()
	}
}

//go:noinline
func giveWay() { runtime.Gosched() }
