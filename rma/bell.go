package rma

import (
	"sync/atomic"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap/layout"
)

// RingBell wakes the owner of the bell if the owner sleeps. A writer calls it after its last store.
func RingBell(b *layout.Bell) {
	if atomic.LoadUint32(&b.Sleeping) != 0 {
		ring(b)
	}
}

// RingWanted wakes the owner of the bell if the owner sleeps and *want is not 0. An owner that waits for
// writers of this kind sets *want before it arms the bell. An owner that sleeps for something else is not
// woken.
func RingWanted(b *layout.Bell, want *uint32) {
	if atomic.LoadUint32(&b.Sleeping) != 0 {
		ringWanted(b, want)
	}
}

// ringWanted is the slow half of RingWanted. Its first access is a locked instruction, so that the
// bell is read after all stores of the caller have become visible.
//
//go:noinline
func ringWanted(b *layout.Bell, want *uint32) {
	if atomic.AddUint32(&b.Sleeping, 0)&layout.BellAsleep != 0 && atomic.LoadUint32(want) != 0 {
		wake(&b.Sleeping)
	}
}

// Rouse is RingBell for a writer that the owner's membarrier does not reach, such as the step process.
// Rouse reads the bell with a locked instruction. So the caller's store comes before this read without help
// from the owner: Rouse sees the bell set, or the owner sees the store before it sleeps.
func Rouse(b *layout.Bell) { ring(b) }

// AskLocked marks the bell for good: from now on, writers read it a second time after a locked instruction.
// Used when either side cannot use membarrier.
func AskLocked(b *layout.Bell) { atomic.OrUint32(&b.Sleeping, layout.BellAsk) }

// ring is the slow half of Target.Ring and RingBell. The caller found a bell that is not 0: the owner sleeps,
// or the bell asks for a second read after a locked instruction (AskLocked).
//
//go:noinline
func ring(b *layout.Bell) {
	if atomic.AddUint32(&b.Sleeping, 0)&layout.BellAsleep != 0 {
		wake(&b.Sleeping)
	}
}

// RingEvent is RingBell for a bell whose owner sleeps on an event descriptor: the agent of a node.
func RingEvent(b *layout.Bell, event int) {
	if atomic.LoadUint32(&b.Sleeping) != 0 {
		ringEvent(b, event)
	}
}

// ringEvent is the slow half of RingEvent. As in wake, the bell is cleared first, and only the writer that clears
// BellAsleep makes the system call.
//
//go:noinline
func ringEvent(b *layout.Bell, event int) {
	if atomic.AddUint32(&b.Sleeping, 0)&layout.BellAsleep != 0 && atomic.AndUint32(&b.Sleeping, layout.BellAsk)&layout.BellAsleep != 0 {
		xunix.PostEvent(event)
	}
}

// RingWantedEvent is RingWanted for a bell whose owner sleeps on an event descriptor.
func RingWantedEvent(b *layout.Bell, want *uint32, event int) {
	if atomic.LoadUint32(&b.Sleeping) != 0 {
		ringWantedEvent(b, want, event)
	}
}

// ringWantedEvent is the slow half of RingWantedEvent, as ringWanted is that of RingWanted.
//
//go:noinline
func ringWantedEvent(b *layout.Bell, want *uint32, event int) {
	if atomic.AddUint32(&b.Sleeping, 0)&layout.BellAsleep != 0 && atomic.LoadUint32(want) != 0 {
		ringEvent(b, event)
	}
}

// WakeOwner wakes the owner of the bell if it sleeps. It does not read the bell first.
func WakeOwner(b *layout.Bell) { wake(&b.Sleeping) }

// wake clears the bell, then wakes all sleepers of its futex. The order matters: an owner that is about to
// sleep finds another value in the futex and does not sleep. Only the writer that clears BellAsleep makes
// the system call.
//
//go:noinline
func wake(bell *uint32) {
	if atomic.AndUint32(bell, layout.BellAsk)&layout.BellAsleep != 0 {
		xunix.FutexWake(bell, 1<<30)
	}
}
