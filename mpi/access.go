package mpi

import (
	"math/rand/v2"
	"os"
	"sync"
	"unsafe"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Access to the private memory of another process, by process_vm_readv and process_vm_writev.

// cookie is a random number. A process that reads it at its address has found this process.
var cookie = sync.OnceValue(func() *uint64 {
	c := new(uint64)
	*c = rand.Uint64() | 1
	return c
})

// publishReach tells the other PEs how to access this process's memory.
func (p *process) publishReach() {
	// The parent's other children are the PEs, unless another process stands between oshrun and this one.
	xunix.AllowTracer(os.Getppid())
	c := cookie()
	p.own.Reach = layout.Reach{PID: uint64(os.Getpid()), Addr: uint64(uintptr(unsafe.Pointer(c))), Cookie: *c}
}

// What is known of this process's access to the memory of another one.
const (
	accessUntried = iota
	accessGranted
	accessDenied
)

// canAccess reports whether the kernel lets this process read the memory of a PE that has sent a
// message. The first call tries it.
func (p *process) canAccess(pe layout.PE) bool {
	if p.access[pe] == accessUntried {
		at, found := &p.control(pe).Reach, new(uint64)
		p.access[pe] = accessDenied
		if singleCopies && at.PID != 0 && xunix.ReadMemory(int(at.PID), unsafe.Pointer(found), at.Addr, 8) == nil && *found == at.Cookie {
			p.access[pe] = accessGranted
		}
	}
	return p.access[pe] == accessGranted
}
