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

// FutexWait sleeps until a FutexWake on the same shared word, if *addr holds val. The kernel compares and
// falls asleep in one step: a FutexWake after the comparison wakes the sleeper.
//
//   - Errors: nil if woken, if *addr holds another value, or after a signal; ErrTimeout after timeout.
//   - Other goroutines run meanwhile: the call goes through the Go scheduler.
func FutexWait(addr *uint32, val uint32, timeout time.Duration) error {
	ts := unix.NsecToTimespec(int64(timeout))
	_, _, e := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(addr)), futexWait, uintptr(val),
		uintptr(unsafe.Pointer(&ts)), 0, 0)
	return waited(e)
}

// waited returns what FUTEX_WAIT says.
func waited(e unix.Errno) error {
	switch e {
	case 0, unix.EAGAIN, unix.EINTR:
		return nil
	case unix.ETIMEDOUT:
		return ErrTimeout
	default:
		return e
	}
}

// FutexWaitSoon is FutexWait past the Go scheduler, for a FutexWake that comes within some microseconds as a rule. Otherwise the
// runtime's monitor thread takes the processor of a process with GOMAXPROCS=1 away from the call, and has to be woken after it.
// The call holds up other goroutines for at most the timeout. A signal ends it, so it does not hold up collections of garbage.
func FutexWaitSoon(addr *uint32, val uint32, timeout time.Duration) error {
	ts := unix.NsecToTimespec(int64(timeout))
	_, _, e := unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(addr)), futexWait, uintptr(val),
		uintptr(unsafe.Pointer(&ts)), 0, 0)
	return waited(e)
}

// FutexWake wakes up to n sleepers on the shared word addr, in any process.
func FutexWake(addr *uint32, n int) {
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(addr)), futexWake, uintptr(n), 0, 0, 0)
}

// SchedYield gives the processor to another runnable process. It bypasses the Go scheduler, because a waiter
// yields only a few times before it sleeps.
func SchedYield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// MembarrierRegister makes this process a target of other processes' Membarrier calls. It fails if the kernel
// lacks the command (Linux 4.16).
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

// Membarrier executes a full memory barrier in every running thread of every registered process. After it:
//
//   - This thread sees what these threads stored before the barrier.
//   - Their loads after the barrier see what this thread stored before the call.
//
// Linux 6.18 and earlier may leave a processor out. It knows by a flag of each processor which ones to interrupt. Registration sets
// the flag where a thread of the process runs. A processor that is idle at that moment, and ran such a thread last, keeps the old
// flag when the next thread of the same process comes, until another process has run there. (A program of two threads, one of
// which slept on its own processor during the registration: in 5 of 6 runs, no later call interrupted that processor.) So no protocol
// may lose anything if a barrier is missing: sleeps have a timeout, and agents look back at the blocks that they leave.
func Membarrier() error {
	if _, _, e := unix.RawSyscall(unix.SYS_MEMBARRIER, membarrierGlobalExpedited, 0, 0); e != 0 {
		return e
	}
	return nil
}
