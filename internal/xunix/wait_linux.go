package xunix

import (
	"errors"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	futexWait = 0 // FUTEX_WAIT, shared between processes
	futexWake = 1 // FUTEX_WAKE, shared between processes

	membarrierQuery                   = 0
	membarrierGlobalExpedited         = 1 << 1
	membarrierRegisterGlobalExpedited = 1 << 2
)

// FutexWait sleeps while *addr holds val, at most for timeout, until a
// FutexWake on the same shared word. It returns nil when woken or when *addr
// no longer holds val, ErrTimeout when the time is over. It goes through the
// scheduler, so that other goroutines run meanwhile.
func FutexWait(addr *uint32, val uint32, timeout time.Duration) error {
	ts := unix.NsecToTimespec(int64(timeout))
	_, _, e := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(addr)), futexWait, uintptr(val),
		uintptr(unsafe.Pointer(&ts)), 0, 0)
	switch e {
	case 0, unix.EAGAIN, unix.EINTR:
		return nil
	case unix.ETIMEDOUT:
		return ErrTimeout
	default:
		return e
	}
}

// FutexWake wakes up to n sleepers on the shared word addr, in any process.
func FutexWake(addr *uint32, n int) {
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(addr)), futexWake, uintptr(n), 0, 0, 0)
}

// SchedYield gives the processor to another runnable process. It does not
// tell the Go scheduler: a waiter yields a few times, then sleeps.
func SchedYield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// MembarrierRegister makes this process a target of other processes'
// Membarrier calls. It fails where the kernel lacks the command.
func MembarrierRegister() error {
	have, _, e := unix.RawSyscall(unix.SYS_MEMBARRIER, membarrierQuery, 0, 0)
	if e != 0 {
		return e
	}
	if have&membarrierRegisterGlobalExpedited == 0 || have&membarrierGlobalExpedited == 0 {
		return errors.New("membarrier: no global expedited command (requires kernel >= 4.16)")
	}
	if _, _, e := unix.Syscall(unix.SYS_MEMBARRIER, membarrierRegisterGlobalExpedited, 0, 0); e != 0 {
		return e
	}
	return nil
}

// Membarrier puts a full memory barrier into every running thread of every
// registered process: what they stored before it is visible after it, and
// what this thread stored before it is visible to their later loads.
func Membarrier() error {
	if _, _, e := unix.RawSyscall(unix.SYS_MEMBARRIER, membarrierGlobalExpedited, 0, 0); e != 0 {
		return e
	}
	return nil
}
