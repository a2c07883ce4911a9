package xunix

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Signals that not every system has.
const (
	SIGCONT  = syscall.SIGCONT // continues a stopped process
	SIGSTOP  = syscall.SIGSTOP // stops a process; it cannot be caught or ignored
	SIGTSTP  = syscall.SIGTSTP // asks a process to stop, as Ctrl-Z does
	SIGUSR1  = syscall.SIGUSR1
	SIGUSR2  = syscall.SIGUSR2
	SIGWINCH = syscall.SIGWINCH
)

// SignalName returns the name of a signal, such as "SIGKILL", or "" if there is no such signal.
func SignalName(sig syscall.Signal) string { return unix.SignalName(sig) }

// StopSelf stops this process until it gets SIGCONT.
func StopSelf() { _ = unix.Kill(unix.Getpid(), unix.SIGSTOP) }

// DefaultAction restores the kernel's default action of a signal for this process. It bypasses Go's runtime,
// which would turn a SIGSEGV into a stack dump and exit status 2. It also disables core files.
func DefaultAction(sig syscall.Signal) error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("setrlimit RLIMIT_CORE: %w", err)
	}
	// The kernel's struct sigaction has four words at most: handler, flags, restorer and a mask of 64
	// signals. All zeros mean the default action.
	var action [4]uint64
	const maskBytes = 8
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, maskBytes, 0, 0)
	if errno != 0 {
		return fmt.Errorf("rt_sigaction %d: %w", int(sig), errno)
	}
	return nil
}
