package wait

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/goshmem/goshmem/rma"
)

// Lock is a mutex between goroutines of one process, for sections whose stores other processes wait for. The
// zero Lock is free.
//
// Its Unlock is a plain store. The Unlock of sync.Mutex is a locked instruction: it waits until all stores of
// the section have left the store buffer, and so for cache lines that other processors hold.
// docs/performance.md has the cost.
//
// Waiters are not queued; each reads the state in a loop. Two rules ensure that each waiter gets the Lock:
//
//   - While goroutines wait, Unlock lets other goroutines run before it returns. So a waiter on the
//     same processor gets the Lock.
//   - A waiter on another processor may still lose every race against a holder that unlocks and locks
//     at once. After lockPatience the waiter counts as starving, and Unlock reserves the Lock: only
//     starving waiters can acquire a reserved Lock. They do not give up, so one of them acquires it.
type Lock struct {
	state    uint64        // lockFree, lockHeld or lockReserved
	waiting  atomic.Uint32 // goroutines that did not get the lock in lockLooks looks
	starving atomic.Uint32 // goroutines that have waited for lockPatience
}

// States of a Lock.
const (
	lockFree     = iota // any goroutine can acquire it
	lockHeld            // a goroutine is in its section
	lockReserved        // only starving goroutines can acquire it
)

const (
	lockLooks    = 200 // looks of a waiter before it first lets other goroutines run
	lockYields   = 200 // pauses by runtime.Gosched before the first sleep
	lockSleep    = 20 * time.Microsecond
	lockPatience = time.Millisecond // a goroutine that waits longer is starving
)

// Lock returns when the caller has the lock.
func (l *Lock) Lock() {
	if !atomic.CompareAndSwapUint64(&l.state, lockFree, lockHeld) {
		l.lockSlow()
	}
}

// lockSlow is the slow half of Lock: another goroutine holds it. It is not inlined, so that Lock is.
//
//go:noinline
func (l *Lock) lockSlow() {
	for range lockLooks {
		if l.acquireFrom(lockFree) {
			return
		}
	}
	l.waiting.Add(1)
	defer l.waiting.Add(^uint32(0))
	begin := time.Now()
	for looks := 0; time.Since(begin) < lockPatience; looks++ {
		l.pause(looks)
		if l.acquireFrom(lockFree) {
			return
		}
	}
	l.starving.Add(1)
	defer l.starving.Add(^uint32(0))
	for looks := 0; !l.acquireFrom(lockFree) && !l.acquireFrom(lockReserved); looks++ {
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

// acquireFrom acquires the lock if it is in the given state. It reads first: a compare-and-swap that fails would
// still take the cache line from the holder.
func (l *Lock) acquireFrom(state uint64) bool {
	return atomic.LoadUint64(&l.state) == state && atomic.CompareAndSwapUint64(&l.state, state, lockHeld)
}

// Unlock releases the lock. The next holder sees all stores of the section. Unlock reads waiting before its
// store: a read that must come after the store would have to wait for the store buffer.
func (l *Lock) Unlock() {
	if l.waiting.Load() != 0 {
		l.unlockSlow()
		return
	}
	rma.StoreRelease(&l.state, lockFree)
}

// unlockSlow is the slow half of Unlock: other goroutines wait.
//
//go:noinline
func (l *Lock) unlockSlow() {
	if l.starving.Load() != 0 {
		rma.StoreRelease(&l.state, lockReserved)
	} else {
		rma.StoreRelease(&l.state, lockFree)
	}
	runtime.Gosched()
}
