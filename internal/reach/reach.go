// Package reach lets the PEs of a node access each other's private memory (process_vm_readv, process_vm_writev).
//
// The kernel may refuse that, for example by Yama's ptrace_scope or by seccomp. In another PID namespace, a number
// stands for another process. So each process publishes the address of a random number of its own. A process that
// reads this number at this address may access the memory, and has found the right process.
package reach

import (
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Refuse is for tests: the error that it returns is that of an access. Nil: no access is refused. It is set while no
// process is accessed.
var Refuse func() error

// cookie is a random number. A process that reads it at its address has found this process.
var cookie = sync.OnceValue(func() *uint64 {
	c := new(uint64)
	*c = rand.Uint64() | 1
	return c
})

// Publish tells the other PEs how to access this process's memory. own is this process's control region.
func Publish(own *layout.Control) {
	// The parent's other children are the PEs, unless another process stands between oshrun and this one.
	xunix.AllowTracer(os.Getppid())
	c := cookie()
	own.Reach = layout.Reach{PID: uint64(os.Getpid()), Addr: uint64(uintptr(unsafe.Pointer(c))), Cookie: *c}
}

// Process is the process of another PE, whose memory this process may access. The zero Process may not be accessed.
type Process struct{ pid int }

// Find returns the process of a PE, and whether the kernel lets this process read its memory. c is the PE's control
// region, and the PE has published its process.
func Find(c *layout.Control) (Process, bool) {
	p, found := Process{int(c.Reach.PID)}, new(uint64)
	if p.pid == 0 || p.Read(unsafe.Pointer(found), c.Reach.Addr, 8) != nil || *found != c.Reach.Cookie {
		return Process{}, false
	}
	return p, true
}

// Read copies n bytes, at least 1, from address src of the process to dst.
//
//   - Errors: syscall.ESRCH if the process has ended. If another process has the number by then, Read may return
//     nil: the caller looks for the PE's death afterwards. Any other error means that the kernel refuses the access.
func (p Process) Read(dst unsafe.Pointer, src uint64, n int) error {
	if err := p.refusal(); err != nil {
		return err
	}
	return xunix.ReadMemory(p.pid, dst, src, n)
}

// Write copies n bytes, at least 1, from src to address dst of the process. Errors are those of Read.
func (p Process) Write(dst uint64, src unsafe.Pointer, n int) error {
	if err := p.refusal(); err != nil {
		return err
	}
	return xunix.WriteMemory(p.pid, dst, src, n)
}

func (p Process) refusal() error {
	switch {
	case p.pid == 0:
		return syscall.ESRCH
	case Refuse != nil:
		return Refuse()
	}
	return nil
}
