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

// At returns the address of offset off in the segment of member pe.
func (p *Path) At(pe int, off uint64) unsafe.Pointer {
	return unsafe.Add(p.Base, pe*p.Stride+int(off))
}

// Ring ends an operation that wrote into pe's segment: it wakes pe if it
// sleeps.
func (p *Path) Ring(pe int) {
	RingBell((*layout.Bell)(unsafe.Add(p.Base, pe*p.Stride+layout.BellOffset)), p.Locked)
}

// RingBell wakes the owner of the bell if it sleeps. Locked says that there is
// no membarrier on this system.
func RingBell(b *layout.Bell, locked bool) {
	if locked {
		ringLocked(&b.Sleeping)
		return
	}
	if atomic.LoadUint32(&b.Sleeping) != 0 {
		wake(&b.Sleeping)
	}
}

// ringLocked is Ring where the sleeper cannot supply the barrier.
//
//go:noinline
func ringLocked(bell *uint32) {
	if atomic.AddUint32(bell, 0) != 0 {
		wake(bell)
	}
}

// Store writes one element.
func Store[T any](dst unsafe.Pointer, v T) { *(*T)(dst) = v }

// Load reads one element.
func Load[T any](src unsafe.Pointer) T { return *(*T)(src) }

// Copy writes src to dst. A single element is one store, which memmove does
// not promise for two bytes.
func Copy[T any](dst unsafe.Pointer, src []T) {
	if len(src) == 1 {
		*(*T)(dst) = src[0]
		return
	}
	copy(unsafe.Slice((*T)(dst), len(src)), src)
}

// CopyOut reads len(dst) elements from src.
func CopyOut[T any](dst []T, src unsafe.Pointer) {
	if len(dst) == 1 {
		dst[0] = *(*T)(src)
		return
	}
	copy(dst, unsafe.Slice((*T)(src), len(dst)))
}
