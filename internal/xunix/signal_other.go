//go:build !linux

package xunix

import "syscall"

// Signals that not every system has: here they have no meaning, and no number that is sent.
const (
	SIGCONT  = syscall.Signal(-1 - iota)
	SIGSTOP  = syscall.Signal(-1 - iota)
	SIGTSTP  = syscall.Signal(-1 - iota)
	SIGUSR1  = syscall.Signal(-1 - iota)
	SIGUSR2  = syscall.Signal(-1 - iota)
	SIGWINCH = syscall.Signal(-1 - iota)
)

// SignalName returns the name of a signal.
func SignalName(sig syscall.Signal) string { return sig.String() }

// StopSelf does nothing here.
func StopSelf() {}
