package xunix

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// SocketAddress is an address of IP as the kernel takes it and gives it. The zero value is none.
type SocketAddress struct {
	raw  unix.RawSockaddrInet6 // of an IPv4 socket: a RawSockaddrInet4
	size uint32
}

// NewSocketAddress returns an address for an IPv6 socket (six) or an IPv4 socket. The scope is the index of the interface of a
// link-local address, otherwise 0.
func NewSocketAddress(addr netip.AddrPort, scope uint32, six bool) (a SocketAddress, err error) {
	ip := addr.Addr()
	switch {
	case !ip.IsValid():
		return a, fmt.Errorf("address %s: not an IP address", addr)
	case six:
		a.raw.Family, a.raw.Addr, a.raw.Scope_id = unix.AF_INET6, ip.As16(), scope
		a.size = unix.SizeofSockaddrInet6
		setPort(&a.raw.Port, addr.Port())
	case !ip.Unmap().Is4():
		return a, fmt.Errorf("address %s: an IPv4 socket cannot send there, use an IPv6 socket", addr)
	default:
		four := (*unix.RawSockaddrInet4)(unsafe.Pointer(&a.raw))
		four.Family, four.Addr = unix.AF_INET, ip.Unmap().As4()
		a.size = unix.SizeofSockaddrInet4
		setPort(&four.Port, addr.Port())
	}
	return a, nil
}

// setPort stores a port in the byte order of the network.
func setPort(field *uint16, port uint16) {
	*(*[2]byte)(unsafe.Pointer(field)) = [2]byte{byte(port >> 8), byte(port)}
}

// IsIPv6 reports whether a socket is one of IPv6, which may be able to reach IPv4 addresses as well.
func IsIPv6(fd int) (bool, error) {
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	switch {
	case err != nil:
		return false, fmt.Errorf("domain of socket %d: %w", fd, err)
	case domain != unix.AF_INET && domain != unix.AF_INET6:
		return false, fmt.Errorf("domain of socket %d is %d, want that of IPv4 or IPv6", fd, domain)
	}
	return domain == unix.AF_INET6, nil
}

// ReceiveFrom receives one datagram into b without blocking, and stores the address of its sender. One that does not fit is
// cut. It allocates nothing.
//
//   - Errors: ErrAgain if there is none; a syscall.Errno otherwise, which may tell of a datagram that was sent before.
func ReceiveFrom(fd int, b []byte, from *SocketAddress) (int, error) {
	for {
		from.size = uint32(unsafe.Sizeof(from.raw))
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
			unix.MSG_DONTWAIT, uintptr(unsafe.Pointer(&from.raw)), uintptr(unsafe.Pointer(&from.size)))
		switch errno {
		case 0:
			return int(n), nil
		case unix.EAGAIN:
			return 0, ErrAgain
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

// SendTo sends one datagram without blocking. It allocates nothing. An error is a syscall.Errno.
func SendTo(fd int, b []byte, to *SocketAddress) error {
	for {
		_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
			unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, uintptr(unsafe.Pointer(&to.raw)), uintptr(to.size))
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return errno
		}
	}
}

// WaitInput waits until a descriptor has input or an error, PostEvent was called for an event descriptor, or the timeout is over.
// It resets the event descriptor. It blocks the calling thread, and a signal ends it early. It allocates nothing.
func WaitInput(fd, event int, timeout time.Duration) error {
	fds := [2]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(event), Events: unix.POLLIN}}
	left := unix.NsecToTimespec(max(int64(timeout), 0))
	if _, err := unix.Ppoll(fds[:], &left, nil); err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("ppoll: %w", err)
	}
	if fds[1].Revents != 0 {
		var count uint64
		_, _, _ = unix.RawSyscall(unix.SYS_READ, uintptr(event), uintptr(unsafe.Pointer(&count)), 8) // an error: it is reset
	}
	return nil
}
