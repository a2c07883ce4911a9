package rma

import (
	"sync/atomic"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap/layout"
)

// RingBell wakes the owner of the bell if it sleeps.
func RingBell(b *layout.Bell) {
	if atomic.LoadUint32(&b.Sleeping) != 0 {
		ring(b)
	}
}

// RingWanted is RingBell for an owner who cares only while *want is not 0, which it has
// set before it fell asleep. So one who sleeps for something else is left alone.
func RingWanted(b *layout.Bell, want *uint32) {
	if atomic.LoadUint32(&b.Sleeping) != 0 {
		ringWanted(b, want)
	}
}

//go:noinline
func ringWanted(b *layout.Bell, want *uint32) {
	if atomic.AddUint32(&b.Sleeping, 0)&layout.BellAsleep != 0 && atomic.LoadUint32(want) != 0 {
		wake(&b.Sleeping)
	}
}

// Rouse is RingBell for a writer whom no membarrier reaches, as the step process is:
// its look at the bell is a locked instruction. What the caller has stored before by
// a locked instruction is seen by the owner before it sleeps.
func Rouse(b *layout.Bell) { ring(b) }

// AskLocked makes everybody who looks at the bell look once more behind a locked
// instruction, from the caller's next look on. It is for who is not reached by
// membarrier, as a writer or as the owner.
func AskLocked(b *layout.Bell) { atomic.OrUint32(&b.Sleeping, layout.BellAsk) }

// ring is the slow half of Ring: the bell was found set, or asks for a look that
// no store before it is late for.
//
//go:noinline
func ring(b *layout.Bell) {
	if atomic.AddUint32(&b.Sleeping, 0)&layout.BellAsleep != 0 {
		wake(&b.Sleeping)
	}
}

// WakeOwner wakes the owner of the bell if it sleeps: the slow half of Ring, for callers that
// have not looked whether it does.
func WakeOwner(b *layout.Bell) { wake(&b.Sleeping) }

// wake rings a bell that was found set.
//
//go:noinline
func wake(bell *uint32) {
	if atomic.AndUint32(bell, layout.BellAsk)&layout.BellAsleep != 0 {
		xunix.FutexWake(bell, 1<<30)
	}
}
