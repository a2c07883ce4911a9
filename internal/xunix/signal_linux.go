package xunix

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Signals that not every system has.
const (
	SIGCONT  = syscall.SIGCONT // lets a stopped process go on
	SIGSTOP  = syscall.SIGSTOP // stops a process, whatever it thinks of it
	SIGTSTP  = syscall.SIGTSTP // asks a process to stop, as Ctrl-Z does
	SIGUSR1  = syscall.SIGUSR1
	SIGUSR2  = syscall.SIGUSR2
	SIGWINCH = syscall.SIGWINCH
)

// SignalName returns the name of a signal, "SIGKILL", or nothing if there is no
// such signal.
func SignalName(sig syscall.Signal) string { return unix.SignalName(sig) }

// StopSelf stops this process until somebody sends it SIGCONT.
func StopSelf() { _ = unix.Kill(unix.Getpid(), unix.SIGSTOP) }
