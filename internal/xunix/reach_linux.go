package xunix

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// AllowTracer lets a process and its descendants read and write this one's memory where
// the Yama security module would let its ancestors only. Without Yama there is nothing to do.
func AllowTracer(pid int) { _ = unix.Prctl(unix.PR_SET_PTRACER, uintptr(pid), 0, 0, 0) }

// ReadMemory copies n bytes, more than none, from an address of another process.
func ReadMemory(pid int, dst unsafe.Pointer, src uint64, n int) error {
	return transfer(unix.SYS_PROCESS_VM_READV, pid, dst, src, n)
}

// WriteMemory copies n bytes, more than none, to an address of another process.
func WriteMemory(pid int, dst uint64, src unsafe.Pointer, n int) error {
	return transfer(unix.SYS_PROCESS_VM_WRITEV, pid, src, dst, n)
}

// transfer calls one of process_vm_readv and process_vm_writev until all is copied.
func transfer(call uintptr, pid int, here unsafe.Pointer, there uint64, n int) error {
	for {
		local, remote := unix.Iovec{Base: (*byte)(here)}, unix.RemoteIovec{Base: uintptr(there), Len: n}
		local.SetLen(n)
		did, _, e := unix.RawSyscall6(call, uintptr(pid), uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0)
		switch {
		case e == unix.EINTR:
			continue
		case e != 0:
			return e
		case did == 0:
			return fmt.Errorf("process %d: nothing copied: %w", pid, syscall.EFAULT)
		case int(did) == n:
			return nil // a pointer behind the last byte may be one into nothing
		}
		here, there, n = unsafe.Add(here, int(did)), there+uint64(did), n-int(did)
	}
}
