package wait

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/goshmem/goshmem/rma"
)

// Lock excludes goroutines from each other, in sections behind which other processes wait for what
// was stored. Unlock is a store, where sync.Mutex has a locked instruction: that waits until all
// stores of the section have left the processor's queue, and so for cache lines that other processors
// have (docs/performance.md). The zero Lock is free.
//
// Goroutines that wait look again by themselves. As long as there are any, Unlock lets other
// goroutines run first, so that a waiter on the same processor gets the Lock. Beside other processors
// that does not keep the holder from taking the Lock again at once; so a waiter that has waited for
// lockPatience has it reserved: Unlock gives it to nobody but such waiters then.
type Lock struct {
	state    uint64        // lockFree, lockHeld or lockReserved
	waiting  atomic.Uint32 // goroutines that have looked in vain for long
	starving atomic.Uint32 // those of them that have waited for lockPatience
}

// States of a Lock.
const (
	lockFree     = iota
	lockHeld     // somebody has it
	lockReserved // free for those who starve. They do not give up, so one takes it
)

const (
	lockLooks    = 200 // of a waiter, before it lets other goroutines run
	lockYields   = 200 // how often it does so, before it sleeps
	lockSleep    = 20 * time.Microsecond
	lockPatience = time.Millisecond
)

// Lock returns when the caller has the lock.
func (l *Lock) Lock() {
	if !atomic.CompareAndSwapUint64(&l.state, lockFree, lockHeld) {
		l.await()
	}
}

// await is Lock where somebody has it. It is not inlined, so that Lock can be.
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

// pause lets other goroutines run, and sleeps behind many looks.
func (*Lock) pause(looks int) {
	if looks < lockYields {
		runtime.Gosched()
	} else {
		time.Sleep(lockSleep)
	}
}

// take takes the lock if it is in a state.
func (l *Lock) take(state uint64) bool {
	return atomic.LoadUint64(&l.state) == state && atomic.CompareAndSwapUint64(&l.state, state, lockHeld)
}

// Unlock gives the lock back. The next one who has it sees what the caller has stored. It looks for
// waiters before the store, behind which a processor may have to wait until that is seen.
func (l *Lock) Unlock() {
	if l.waiting.Load() != 0 {
		l.giveWay()
		return
	}
	rma.StoreRelease(&l.state, lockFree)
}

// giveWay is Unlock where somebody waits.
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
