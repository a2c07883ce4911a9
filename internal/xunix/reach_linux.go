package xunix

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// AllowTracer permits a process and its descendants to access this process's memory. The Yama security module
// would permit its ancestors only. Without Yama the call fails, and no permission is needed.
func AllowTracer(pid int) { _ = unix.Prctl(unix.PR_SET_PTRACER, uintptr(pid), 0, 0, 0) }

// ReadMemory copies n bytes, at least 1, from address src of process pid to dst.
func ReadMemory(pid int, dst unsafe.Pointer, src uint64, n int) error {
	return transfer(unix.SYS_PROCESS_VM_READV, pid, dst, src, n)
}

// WriteMemory copies n bytes, at least 1, from src to address dst of process pid.
func WriteMemory(pid int, dst uint64, src unsafe.Pointer, n int) error {
	return transfer(unix.SYS_PROCESS_VM_WRITEV, pid, src, dst, n)
}

// transfer calls process_vm_readv or process_vm_writev until all n bytes are copied.
//
//   - A call may copy fewer bytes than asked for, if a later page of the other process is not accessible.
//     The next call, which begins at that page, then returns its error.
//   - A call that copies nothing without an error would repeat forever; transfer returns EFAULT.
//   - transfer returns before it advances here past the last byte. Such a pointer could point into another
//     object of the Go heap.
//   - The calls are raw: the thread keeps its Go processor during the copy.
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
			return nil
		}
		here, there, n = unsafe.Add(here, int(did)), there+uint64(did), n-int(did)
	}
}
