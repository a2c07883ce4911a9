package wait

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/goshmem/goshmem/rma"
)

// Lock is a mutual exclusion of goroutines of one process, for sections whose stores other processes
// wait for. Its Unlock is a plain store. The Unlock of sync.Mutex is a locked instruction, which
// waits until all stores of the section have left the processor's store buffer, and so for cache
// lines that other processors hold (docs/performance.md says what that costs). The zero Lock is free.
//
// Waiters are not queued: each looks at the state again and again. Two rules let them have the Lock:
//
//   - While goroutines wait, Unlock lets other goroutines run before it returns. So a waiter on the
//     same processor gets the Lock.
//   - A waiter on another processor may still lose every race against a holder that unlocks and locks
//     at once. After lockPatience such a waiter starves, and Unlock reserves the Lock: only starving
//     waiters can take a reserved Lock. They do not give up, so one of them takes it.
type Lock struct {
	state    uint64        // lockFree, lockHeld or lockReserved
	waiting  atomic.Uint32 // goroutines that have made lockLooks looks in vain
	starving atomic.Uint32 // goroutines that have waited for lockPatience
}

// States of a Lock.
const (
	lockFree     = iota // any goroutine can take it
	lockHeld            // a goroutine is in its section
	lockReserved        // starving goroutines alone can take it
)

const (
	lockLooks    = 200 // looks of a waiter before it first lets other goroutines run
	lockYields   = 200 // pauses by runtime.Gosched before the first sleep
	lockSleep    = 20 * time.Microsecond
	lockPatience = time.Millisecond
)

// Lock returns when the caller has the lock.
func (l *Lock) Lock() {
	if !atomic.CompareAndSwapUint64(&l.state, lockFree, lockHeld) {
		l.await()
	}
}

// await is the slow half of Lock: another goroutine holds it. It is not inlined, so that Lock can be.
//
//go:noinline
func (l *Lock) await() {
	for range lockLooks {
		if l.take(lockFree) {
			return
		}
	}
	l.waiting.Add(1)
	defer l.waiting.Add(^uint32(0))
	begin := time.Now()
	for looks := 0; time.Since(begin) < lockPatience; looks++ {
		l.pause(looks)
		if l.take(lockFree) {
			return
		}
	}
	l.starving.Add(1)
	defer l.starving.Add(^uint32(0))
	for looks := 0; !l.take(lockFree) && !l.take(lockReserved); looks++ {
		l.pause(looks)
	}
}

// pause lets other goroutines run; after lockYields pauses it sleeps for lockSleep.
func (*Lock) pause(looks int) {
	if looks < lockYields {
		runtime.Gosched()
	} else {
		time.Sleep(lockSleep)
	}
}

// take takes the lock if it is in the given state.
func (l *Lock) take(state uint64) bool {
	return atomic.LoadUint64(&l.state) == state && atomic.CompareAndSwapUint64(&l.state, state, lockHeld)
}

// Unlock releases the lock. The next holder sees all stores of the section. Unlock reads waiting
// before its store, not after it: a read after the store would have to wait for it.
func (l *Lock) Unlock() {
	if l.waiting.Load() != 0 {
		l.giveWay()
		return
	}
	rma.StoreRelease(&l.state, lockFree)
}

// giveWay is the slow half of Unlock: other goroutines wait.
//
//go:noinline
func (l *Lock) giveWay() {
	if l.starving.Load() != 0 {
		rma.StoreRelease(&l.state, lockReserved)
	} else {
		rma.StoreRelease(&l.state, lockFree)
	}
	runtime.Gosched()
}
