package xunix

import (
	"errors"
	"fmt"
	"io"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The sockets and connections of packets here are bare descriptors, as a PE has them for operations on other nodes. Files
// would cost a word with the poller of the Go runtime for each call.

// BlockFor makes reads of a socket block, each for at most d or a little longer.
func BlockFor(fd int, d time.Duration) error {
	if err := unix.SetNonblock(fd, false); err != nil {
		return fmt.Errorf("clear O_NONBLOCK: %w", err)
	}
	tv := unix.NsecToTimeval(int64(d))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		return fmt.Errorf("set the timeout of reads (SO_RCVTIMEO): %w", err)
	}
	return nil
}

// ReceiveBlocking reads from a socket that blocks (BlockFor).
//
//   - Errors: ErrTimeout if nothing has come in time; io.EOF at the end. A signal counts as a timeout.
func ReceiveBlocking(fd int, b []byte) (int, error) {
	n, err := unix.Read(fd, b)
	errno, _ := err.(unix.Errno) //nolint:errorlint // as unix.Read returns it
	return received(max(n, 0), errno, len(b))
}

// ReceiveSoon is ReceiveBlocking past the Go scheduler, for an answer that comes within some microseconds as a rule. Otherwise
// the runtime's monitor thread takes the processor of a process with GOMAXPROCS=1 away from the call, and has to be woken after
// it. A late answer holds up other goroutines as long as the read blocks.
func ReceiveSoon(fd int, b []byte) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return received(int(n), errno, len(b))
}

// received returns what a read of most bytes of a socket that blocks says.
func received(n int, errno unix.Errno, most int) (int, error) {
	switch {
	case errno == 0 && n == 0 && most > 0:
		return 0, io.EOF
	case errno == 0:
		return n, nil
	case errno == unix.EAGAIN, errno == unix.EINTR:
		return 0, ErrTimeout
	default:
		return 0, fmt.Errorf("read: %w", errno)
	}
}

// SendSocket sends b without blocking. The kernel takes all of it, or SendSocket returns an error.
func SendSocket(fd int, b []byte) error {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
			unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, 0, 0)
		switch {
		case errno == 0 && int(n) == len(b):
			return nil
		case errno == 0:
			return io.ErrShortWrite
		case errno != unix.EINTR:
			return fmt.Errorf("send: %w", errno)
		}
	}
}

// ReceiveAtOnce reads from a socket without blocking, whether it blocks or not, and past the Go scheduler, as it does not wait.
//
//   - Errors: ErrAgain if there is nothing to read; io.EOF at the end.
func ReceiveAtOnce(fd int, b []byte) (int, error) {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_DONTWAIT, 0, 0)
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
			return 0, fmt.Errorf("receive: %w", errno)
		}
	}
}

// SendPacketFD is SendFDs for a bare descriptor, without blocking. It fails with EAGAIN if there is no room.
func SendPacketFD(fd int, packet []byte, fds ...int) error {
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	err := retry(func() error { return unix.Sendmsg(fd, packet, oob, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT) })
	if err != nil {
		return fmt.Errorf("send packet with %d descriptors: %w", len(fds), err)
	}
	return nil
}

// RecvPacketFD receives one packet into b without blocking, and at most one descriptor with it, which the caller owns; it is
// -1 if there is none. A packet that does not fit is cut.
//
//   - Errors: ErrAgain if there is no packet; io.EOF at the end of the connection.
func RecvPacketFD(conn int, b []byte) (n, fd int, err error) {
	var oob [64]byte // more than unix.CmsgSpace(4)
	var oobn int
	err = retry(func() (err error) {
		n, oobn, _, _, err = unix.Recvmsg(conn, b, oob[:unix.CmsgSpace(4)], unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		return err
	})
	switch {
	case errors.Is(err, unix.EAGAIN):
		return 0, -1, ErrAgain
	case err != nil:
		return 0, -1, fmt.Errorf("receive packet: %w", err)
	case n == 0 && oobn == 0:
		return 0, -1, io.EOF
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(msgs) == 0 {
		return n, -1, err
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) == 0 {
		return n, -1, err
	}
	return n, fds[0], nil // the kernel has closed what has no room
}
