package xunix

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// OpenProcess returns a pidfd of a process (Linux 5.3). It has input, for a Poller, when all threads have
// ended and their memory is freed.
func OpenProcess(pid int) (fd int, err error) {
	fd, err = unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, fmt.Errorf("pidfd_open %d: %w", pid, err)
	}
	return fd, nil
}

// ProcessOver says whether the process of a pidfd has ended.
func ProcessOver(fd int) bool {
	one := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(one, 0)
		if !errors.Is(err, unix.EINTR) {
			return n > 0
		}
	}
}

// CloseFD closes a descriptor.
func CloseFD(fd int) { _ = unix.Close(fd) }

// ChildStatus returns whether a child has ended, and its status. It does not reap the child.
//
//   - Errors: ECHILD if the process is not a child, or was reaped.
func ChildStatus(pid int) (status syscall.WaitStatus, over bool, err error) {
	var info struct { // siginfo_t as SIGCHLD fills it
		signo, errno, code int32
		of                 struct {
			_      [0]uintptr // the union of the kernel is aligned for pointers
			pid    int32
			uid    uint32
			status int32
			_      [112]byte
		}
	}
	for {
		err = unix.Waitid(unix.P_PID, pid, (*unix.Siginfo)(unsafe.Pointer(&info)), unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EINTR) {
			return 0, false, fmt.Errorf("waitid %d: %w", pid, err)
		}
	}
	const exited, dumped = 1, 3 // CLD_EXITED, CLD_DUMPED; between them CLD_KILLED
	switch {
	case info.signo == 0, info.code > dumped: // waitid also reports stops of a traced child, unasked
		return 0, false, nil
	case info.code == exited:
		return syscall.WaitStatus(info.of.status&0xff) << 8, true, nil
	case info.code == dumped:
		return syscall.WaitStatus(info.of.status) | 0x80, true, nil
	}
	return syscall.WaitStatus(info.of.status), true, nil
}

// EffectiveCapabilities returns the effective capabilities of this thread: bit i is the kernel's capability i.
func EffectiveCapabilities() (uint64, error) {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&head, &data[0]); err != nil {
		return 0, fmt.Errorf("capget: %w", err)
	}
	return uint64(data[0].Effective) | uint64(data[1].Effective)<<32, nil
}

// ErrLost reports that the kernel dropped packets, because they came faster than they were read.
var ErrLost = errors.New("packets were lost")

// ProcessEvents opens a non-blocking socket to the kernel's process connector. The kernel sends events after a
// request by SendPacket.
func ProcessEvents() (fd int, err error) {
	fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_CONNECTOR)
	if err != nil {
		return -1, fmt.Errorf("socket of the connector: %w", err)
	}
	const group = 1 // CN_IDX_PROC
	// The buffer is large because events of all threads of the machine come. A smaller one still works:
	// ErrLost reports dropped packets.
	const room = 1 << 20
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, room)
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: group}); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("bind to the process connector: %w", err)
	}
	return fd, nil
}

// SendPacket sends a packet to the kernel.
func SendPacket(fd int, packet []byte) error {
	if err := unix.Sendto(fd, packet, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("send to netlink: %w", err)
	}
	return nil
}

// ReadPacket reads one packet of the kernel. It skips packets of other senders.
//
//   - Errors: ErrAgain if there is no packet; ErrLost if the kernel has dropped packets.
func ReadPacket(fd int, b []byte) (int, error) {
	for {
		n, from, err := unix.Recvfrom(fd, b, 0)
		switch {
		case err == nil:
			if kernel, ok := from.(*unix.SockaddrNetlink); ok && kernel.Pid == 0 {
				return n, nil
			}
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return 0, ErrAgain
		case errors.Is(err, unix.ENOBUFS):
			return 0, ErrLost
		default:
			return 0, fmt.Errorf("read from netlink: %w", err)
		}
	}
}
