package mpi

import (
	"github.com/goshmem/goshmem/internal/reach"
	"github.com/goshmem/goshmem/symheap/layout"
)

// peerMemory is what is known of this process's access to the private memory of another one.
type peerMemory struct {
	process reach.Process // of a PE that may be accessed
	tried   bool
	granted bool
}

// canAccess reports whether the kernel lets this process read the memory of a PE that has sent a
// message. The first call tries it.
func (p *process) canAccess(pe layout.PE) bool {
	m := &p.access[pe]
	if !m.tried {
		m.tried = true
		m.process, m.granted = reach.Find(p.control(pe))
	}
	return m.granted
}
