package xunix

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The sockets here are bare descriptors that never block, for an Epoll.

// socketAddress returns what the kernel calls an address.
func socketAddress(addr netip.AddrPort) (family int, sa unix.Sockaddr) {
	if ip := addr.Addr().Unmap(); ip.Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(addr.Port()), Addr: ip.As4()}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: int(addr.Port()), Addr: addr.Addr().As16()}
}

// tcpSocket returns a TCP socket that does not block, for an address.
func tcpSocket(addr netip.AddrPort) (fd int, sa unix.Sockaddr, err error) {
	family, sa := socketAddress(addr)
	fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, nil, fmt.Errorf("socket: %w", err)
	}
	return fd, sa, nil
}

// setTCPOptions sets what all connections have: no delay of small packets, and probes of silent peers.
func setTCPOptions(fd int) error {
	err := errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1))
	if err != nil {
		return fmt.Errorf("setsockopt: %w", err)
	}
	return nil
}

// SetUserTimeout bounds how long a TCP connection lives while the other end acknowledges nothing that was sent, or takes
// nothing (TCP_USER_TIMEOUT). The connection fails then with ETIMEDOUT. Probes find an end that is gone after a time of about
// the same length in which nothing was sent. A limit of 10 s has room for eight probes: a network that loses some packets must not
// end an idle connection, and it may lose each probe or its answer.
func SetUserTimeout(fd int, d time.Duration) error {
	const first, each = 4, 10 // of the limit: until the first probe, and between probes
	seconds := func(share int) int { return max(1, int(d/time.Second)/share) }
	err := errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(max(1, d.Milliseconds()))),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, seconds(first)),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, seconds(each)))
	if err != nil {
		return fmt.Errorf("set the time limit of a connection (TCP_USER_TIMEOUT): %w", err)
	}
	return nil
}

// ListenTCP returns a socket that listens at an address, and the address that it has: port 0 leaves the port to the
// kernel.
func ListenTCP(addr netip.AddrPort) (fd int, bound netip.AddrPort, err error) {
	fd, sa, err := tcpSocket(addr)
	if err != nil {
		return -1, bound, err
	}
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if _, six := sa.(*unix.SockaddrInet6); six && err == nil {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
	}
	if err == nil {
		err = unix.Bind(fd, sa)
	}
	if err == nil {
		err = unix.Listen(fd, unix.SOMAXCONN)
	}
	if err == nil {
		sa, err = unix.Getsockname(fd)
	}
	if err != nil {
		CloseSocket(fd)
		return -1, bound, fmt.Errorf("listen at %s: %w", addr, err)
	}
	return fd, addrPort(sa), nil
}

// addrPort returns the address that the kernel calls sa; the zero value if it is no address of IP.
func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port))
	}
	return netip.AddrPort{}
}

// ErrNoDescriptors reports that the process or the machine cannot have more descriptors.
var ErrNoDescriptors = errors.New("no descriptor is left")

// AcceptTCP returns the next connection of a listening socket, and its peer's address.
//
//   - Errors: ErrAgain if there is none; ErrNoDescriptors: the connection is still there.
func AcceptTCP(listener int) (fd int, from netip.AddrPort, err error) {
	for {
		fd, sa, err := unix.Accept4(listener, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		switch {
		case err == nil:
			if err := setTCPOptions(fd); err != nil {
				CloseSocket(fd) // the peer has closed already
				continue
			}
			return fd, addrPort(sa), nil
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ECONNABORTED):
		case errors.Is(err, unix.EAGAIN):
			return -1, from, ErrAgain
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ENOMEM):
			return -1, from, fmt.Errorf("%w: %w", ErrNoDescriptors, err)
		default: // errors of the network that accept reports in place of the connection
			return -1, from, fmt.Errorf("accept: %w", err)
		}
	}
}

// ConnectTCP begins to connect to an address. When the socket is ready for output, ConnectResult says how it ended.
func ConnectTCP(addr netip.AddrPort) (fd int, err error) {
	fd, sa, err := tcpSocket(addr)
	if err != nil {
		return -1, err
	}
	if err = setTCPOptions(fd); err == nil {
		if err = unix.Connect(fd, sa); errors.Is(err, unix.EINPROGRESS) || errors.Is(err, unix.EINTR) {
			return fd, nil
		}
	}
	if err != nil {
		CloseSocket(fd)
		return -1, fmt.Errorf("connect: %w", err)
	}
	return fd, nil
}

// ConnectResult returns the error with which a connect has ended. It is ErrAgain if it has not ended.
func ConnectResult(fd int) error {
	code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && code != 0 {
		err = unix.Errno(code)
	}
	if err == nil {
		if _, err = unix.Getpeername(fd); errors.Is(err, unix.ENOTCONN) {
			return ErrAgain
		}
	}
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	return nil
}

// ReceiveSocket reads from a socket that does not block, past the Go scheduler.
//
//   - Errors: ErrAgain if there is nothing to read; io.EOF at the end.
func ReceiveSocket(fd int, b []byte) (int, error) {
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		switch errno {
		case 0:
			if n == 0 && len(b) > 0 {
				return 0, io.EOF
			}
			return int(n), nil
		case unix.EAGAIN:
			return 0, ErrAgain
		case unix.EINTR:
		default:
			return 0, fmt.Errorf("read: %w", errno)
		}
	}
}

// CloseSocket closes a socket. The kernel goes on sending what a TCP connection has taken and not delivered.
func CloseSocket(fd int) { _ = unix.Close(fd) }

// DiscardOnClose makes the close of a TCP connection drop what was not delivered, and reset the connection. Otherwise the
// kernel would go on sending it for minutes, also across a network that is cut meanwhile.
func DiscardOnClose(fd int) {
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}) // every socket takes it
}

// MaxVector is the greatest number of parts of a Vector.
const MaxVector = 512

// Vector is a list of parts that go to a socket in one system call, without a copy in between.
type Vector struct {
	head  unix.Msghdr
	parts [MaxVector]unix.Iovec
	n     int
	bytes int
}

// Add appends a part that is not empty. It returns false if the vector is full.
func (v *Vector) Add(b []byte) bool {
	if v.n == len(v.parts) {
		return false
	}
	v.parts[v.n].Base = unsafe.SliceData(b)
	v.parts[v.n].SetLen(len(b))
	v.n++
	v.bytes += len(b)
	return true
}

// Bytes returns the size of all parts.
func (v *Vector) Bytes() int { return v.bytes }

// Send sends the parts without blocking, past the Go scheduler, and empties the vector. It returns how many bytes the kernel has
// taken, which may be fewer than all.
//
//   - Errors: ErrAgain if the kernel has no room.
func (v *Vector) Send(fd int) (int, error) {
	v.head.Iov = &v.parts[0]
	v.head.SetIovlen(v.n)
	defer v.reset()
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&v.head)),
			unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
		switch errno {
		case 0:
			return int(n), nil
		case syscall.EAGAIN:
			return 0, ErrAgain
		case syscall.EINTR:
		default:
			return 0, fmt.Errorf("sendmsg: %w", errno)
		}
	}
}

// reset empties the vector, so that it keeps no memory alive.
func (v *Vector) reset() {
	clear(v.parts[:v.n])
	v.n, v.bytes = 0, 0
}
