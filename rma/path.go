package rma

import (
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/symheap/layout"
)

// Path is how a context reaches the members of its team: member i's segment
// begins at Base + i*Stride. Plain data, copied freely.
type Path struct {
	Base   unsafe.Pointer // segment of the team's PE 0
	Stride int            // bytes from one member's segment to the next one's; may be negative
}

// To returns the way to member pe.
func (p *Path) To(pe int) Target { return Target{seg: unsafe.Add(p.Base, pe*p.Stride)} }

// Target is one member's segment as an operation sees it: the address is
// computed once, and the compiler keeps it in a register.
type Target struct{ seg unsafe.Pointer }

// At returns the address of offset off.
func (t Target) At(off uint64) unsafe.Pointer { return unsafe.Add(t.seg, int(off)) }

// Ring ends an operation that wrote into the segment: it wakes the owner if it
// sleeps. It has one slow path and one branch, so that it is put in line: a
// comparison of the bell with 0, at a distance from the segment's start that is a
// constant.
func (t Target) Ring() {
	if peek((*uint32)(unsafe.Add(t.seg, layout.BellOffset))) != 0 {
		ring((*layout.Bell)(unsafe.Add(t.seg, layout.BellOffset)))
	}
}

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

// One copies one element, of 1, 2, 4 or 8 bytes by one load and one store: of a structure,
// the compiler would copy field by field. It is called where its type is an argument of
// the caller, so that it is put in line without a look at a dictionary.
func One[T any](dst, src unsafe.Pointer) {
	switch unsafe.Sizeof(*new(T)) {
	case 8:
		*(*uint64)(dst) = *(*uint64)(src)
	case 4:
		*(*uint32)(dst) = *(*uint32)(src)
	case 2:
		*(*uint16)(dst) = *(*uint16)(src)
	default:
		*(*T)(dst) = *(*T)(src)
	}
}
