package xunix

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// KillSelf ends this process at once by SIGKILL. No handler and no deferred function runs.
func KillSelf() { _ = unix.Kill(unix.Getpid(), unix.SIGKILL) }

// Subreaper makes this process inherit the orphans among its descendants.
func Subreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl PR_SET_CHILD_SUBREAPER: %w", err)
	}
	return nil
}

// Peer is the process at the other end of a unix socket, as the kernel recorded it at the connect.
type Peer struct {
	PID      int
	UID, GID uint32
}

// PeerOf returns the credentials of the process that connected conn.
func PeerOf(conn syscall.Conn) (Peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return Peer{}, err
	}
	var cred *unix.Ucred
	var cerr error
	err = raw.Control(func(fd uintptr) {
		cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err == nil {
		err = cerr
	}
	if err != nil {
		return Peer{}, fmt.Errorf("credentials of the peer: %w", err)
	}
	return Peer{PID: int(cred.Pid), UID: cred.Uid, GID: cred.Gid}, nil
}

// Leash makes the kernel kill the process group pgid when the last write end of a pipe is closed. r is the
// pipe's read end. The owner of the write end may end in any way, including SIGKILL.
//
//   - How: a pipe sends its asynchronous I/O signal when its last writer closes it. Leash sets the signal to
//     SIGKILL and its receiver to the group.
//   - A process of the group must keep r open: the kernel sends the signal through an open read end.
func Leash(r *os.File, pgid int) error {
	fd := r.Fd()
	if _, err := unix.FcntlInt(fd, unix.F_SETOWN, -pgid); err != nil {
		return fmt.Errorf("F_SETOWN %d: %w", -pgid, err)
	}
	if _, err := unix.FcntlInt(fd, unix.F_SETSIG, int(unix.SIGKILL)); err != nil {
		return fmt.Errorf("F_SETSIG: %w", err)
	}
	flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
	if err != nil {
		return fmt.Errorf("F_GETFL: %w", err)
	}
	if _, err := unix.FcntlInt(fd, unix.F_SETFL, flags|unix.O_ASYNC); err != nil {
		return fmt.Errorf("F_SETFL O_ASYNC: %w", err)
	}
	return nil
}

// LeashHold makes this process keep a read end of a leash as well. So a program that closes its own read end
// does not disarm the leash. It returns new descriptors for the read end and the write end; the caller closes
// r and w.
//
// The read end gets the lower number, for the case that this process ends with both open. An ending process
// closes its descriptors in descending order (since Linux 4.3). So the write end is closed while the read end
// is still open, and the leash acts.
func LeashHold(r, w *os.File) (hold, write *os.File, err error) {
	low, err := unix.FcntlInt(r.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("F_DUPFD_CLOEXEC: %w", err)
	}
	high, err := unix.FcntlInt(w.Fd(), unix.F_DUPFD_CLOEXEC, low+1)
	if err != nil {
		_ = unix.Close(low)
		return nil, nil, fmt.Errorf("F_DUPFD_CLOEXEC: %w", err)
	}
	return os.NewFile(uintptr(low), "leash"), os.NewFile(uintptr(high), "leash"), nil
}

// Foreground says whether this process may read the terminal fd. It returns false for a background job of a
// shell, which the kernel would stop at a read, and true if fd is not a terminal.
func Foreground(fd uintptr) bool {
	pgrp, err := unix.IoctlGetInt(int(fd), unix.TIOCGPGRP)
	if err != nil {
		return true // not a terminal
	}
	return pgrp == unix.Getpgrp()
}

// IsTerminal says whether fd is a terminal.
func IsTerminal(fd uintptr) bool {
	_, err := unix.IoctlGetTermios(int(fd), unix.TCGETS)
	return err == nil
}

// WaitExited blocks until the child pid has ended. It does not reap the child, so the number is not reused. It
// blocks no thread if the kernel has non-blocking pidfds (Linux 5.10).
func WaitExited(pid int) error {
	if err := pollExited(pid); err == nil {
		return nil
	}
	_, err := ended(unix.P_PID, pid, 0)
	return err
}

// pollExited is WaitExited by a pidfd in the Go runtime's poller.
func pollExited(pid int) error {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer func() { _ = f.Close() }() // nothing was written
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	cerr := conn.Read(func(uintptr) bool {
		var over bool
		over, err = ended(unix.P_PID, pid, unix.WNOHANG)
		return over || err != nil
	})
	return errors.Join(err, cerr)
}

// TryWait checks that this process may call waitid.
func TryWait() error {
	if _, err := ended(unix.P_ALL, 0, unix.WNOHANG); err != nil && !errors.Is(err, unix.ECHILD) {
		return err
	}
	return nil
}

// AnyEnded says whether a child has ended and is not reaped yet.
func AnyEnded() bool {
	one, _ := ended(unix.P_ALL, 0, unix.WNOHANG) // the only error is that there are no children
	return one
}

// ended waits until a child has ended, and returns true. With WNOHANG in options it does not wait, and returns
// whether one has ended. It does not reap the child.
func ended(which, pid, options int) (bool, error) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(which, pid, &info, unix.WEXITED|unix.WNOWAIT|options, nil)
		if err == nil {
			return info.Signo != 0, nil
		}
		if !errors.Is(err, unix.EINTR) {
			return false, fmt.Errorf("waitid %d: %w", pid, err)
		}
	}
}

// KillGroup sends a signal to every process of a group.
func KillGroup(pgid int, sig syscall.Signal) error { return unix.Kill(-pgid, sig) }

// Kill sends a signal to one process.
func Kill(pid int, sig syscall.Signal) error { return unix.Kill(pid, sig) }

// KillSame sends a signal to a process, unless same says that the number is another
// process's by now.
//
// A pidfd stands for the process that had the number when it was opened. So if same
// holds after that, the signal reaches no other process, even if that one is reaped
// and its number used again before the signal is sent. Before Linux 5.3 there are no
// pidfds: then a process that is reaped between the two calls may be missed.
func KillSame(pid int, same func() bool, sig syscall.Signal) error {
	fd, err := OpenProcess(pid)
	if errors.Is(err, unix.ESRCH) {
		return err
	}
	if err == nil {
		defer CloseFD(fd)
	}
	switch {
	case !same():
		return unix.ESRCH
	case err != nil:
		return unix.Kill(pid, sig)
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

// Reap waits for the end of the child pid and collects it.
func Reap(pid int) {
	for {
		_, err := unix.Wait4(pid, nil, 0, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// ReapEnded collects the child pid if it has ended.
func ReapEnded(pid int) { _, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil) }

// NotifyEnds makes the runtime send to c when a child has ended (SIGCHLD).
func NotifyEnds(c chan<- os.Signal) { signal.Notify(c, unix.SIGCHLD) }

// ChildAttr returns the attributes of a PE: it leads its own process group, and the kernel kills it when the
// thread that started it ends.
func ChildAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
}

// SessionAttr is ChildAttr for a PE that also leads a session. The session has no terminal.
func SessionAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL}
}

// LastingAttr returns the attributes of a process that leads a session and may outlive this one.
func LastingAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// Held returns a copy of attr with which the kernel stops the new process before the first instruction of its
// program, until LetGo. The process is traced (ptrace).
//
//   - Thread: the thread that starts the process must also call LetGo.
//   - Errors: the start fails with EPERM if tracing is forbidden, or another process traces this one.
func Held(attr *syscall.SysProcAttr) *syscall.SysProcAttr {
	held := *attr
	held.Ptrace = true
	return &held
}

// LetGo continues a child that was started with Held. It does not reap a child that has ended already.
func LetGo(pid int) error { return letGo(pid, 0) }

// LetGoStopped gives up a child that was started Held and leaves it stopped before the first instruction of its
// program, until SIGCONT or a debugger lets it go on. Nobody traces it any more, so that a debugger can. It returns when
// the child is stopped, or has ended.
//
// The stop that Held asks for is that of a signal (SIGTRAP after exec), so the kernel takes another signal in its place:
// SIGSTOP has effect before the process is back in its program.
func LetGoStopped(pid int) error {
	if err := letGo(pid, unix.SIGSTOP); err != nil {
		return err
	}
	return waitStopped(pid)
}

// waitStopped waits until a child is stopped or has ended, and leaves that to be learnt by others.
func waitStopped(pid int) error {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("waitid %d: %w", pid, err)
		}
	}
}

// letGo ends the tracing of a child that was started Held, and has it get a signal first; 0: none.
func letGo(pid int, sig unix.Signal) error {
	if err := waitStopped(pid); err != nil {
		return err
	}
	_, _, e := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(pid), 0, uintptr(sig), 0, 0)
	if e != 0 && e != unix.ESRCH { // killed meanwhile
		return fmt.Errorf("ptrace detach %d: %w", pid, e)
	}
	return nil
}
