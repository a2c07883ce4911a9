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
	Locked bool           // no membarrier here: fence before looking at a bell
}

// To returns the way to member pe.
func (p *Path) To(pe int) Target {
	t := Target{seg: unsafe.Add(p.Base, pe*p.Stride)}
	if p.Locked {
		t.locked = 1
	}
	return t
}

// Target is one member's segment as an operation sees it: the address is
// computed once, and the compiler keeps it in a register.
type Target struct {
	seg    unsafe.Pointer
	locked uint32 // 1: Path.Locked
}

// At returns the address of offset off.
func (t Target) At(off uint64) unsafe.Pointer { return unsafe.Add(t.seg, int(off)) }

// Ring ends an operation that wrote into the segment: it wakes the owner if it
// sleeps. It has one slow path and one branch, so that it is put in line.
func (t Target) Ring() {
	bell := (*layout.Bell)(unsafe.Add(t.seg, layout.BellOffset))
	if t.locked|atomic.LoadUint32(&bell.Sleeping) != 0 {
		ring(bell, t.locked)
	}
}

// RingBell wakes the owner of the bell if it sleeps. Locked says that there is
// no membarrier on this system.
func RingBell(b *layout.Bell, locked bool) {
	if locked {
		ring(b, 1)
	} else if atomic.LoadUint32(&b.Sleeping) != 0 {
		wake(&b.Sleeping)
	}
}

// ring is the slow half of Ring: the bell was found set, or nobody may tell
// without a barrier of their own, because the sleeper cannot supply it.
//
//go:noinline
func ring(b *layout.Bell, locked uint32) {
	if locked != 0 && atomic.AddUint32(&b.Sleeping, 0) == 0 {
		return
	}
	wake(&b.Sleeping)
}

// Store writes one element.
func Store[T any](dst unsafe.Pointer, v T) { *(*T)(dst) = v }

// Load reads one element.
func Load[T any](src unsafe.Pointer) T { return *(*T)(src) }
