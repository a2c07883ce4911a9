package mpi

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/goshmem/goshmem/rma"
)

// lock is the engine's lock. Unlock is a store, where sync.Mutex has a locked instruction: that
// waits until the whole message before it has left the processor's queue of stores, and so for
// cache lines that the receiver has (docs/performance.md).
//
// In return, Unlock cannot see who waits, so that those look again by themselves. They seldom do
// for long: the lock is held for less than a microsecond, unless some kilobytes are copied, or the
// system has given the processor to somebody else.
type lock struct {
	held uint64 // 1: somebody has it
}

const (
	lockLooks  = 200 // of who waits, before it lets other goroutines go on
	lockYields = 200 // how often it does so, before it sleeps
	lockSleep  = 20 * time.Microsecond
)

// Lock returns when the caller has the lock.
func (l *lock) Lock() {
	if !atomic.CompareAndSwapUint64(&l.held, 0, 1) {
		l.wait()
	}
}

//go:noinline
func (l *lock) wait() {
	for looks := 1; ; looks++ {
		switch {
		case looks <= lockLooks:
		case looks <= lockLooks+lockYields:
			runtime.Gosched()
		default:
			time.Sleep(lockSleep)
		}
		if atomic.LoadUint64(&l.held) == 0 && atomic.CompareAndSwapUint64(&l.held, 0, 1) {
			return
		}
	}
}

// Unlock gives the lock back. The next one who has it sees what the caller has stored.
func (l *lock) Unlock() { rma.StoreRelease(&l.held, 0) }
