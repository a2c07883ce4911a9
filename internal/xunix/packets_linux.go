package xunix

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// PacketPair returns two ends of a connection of packets: one for this process, and one for a child.
func PacketPair() (here, there *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	there = os.NewFile(uintptr(fds[1]), "packets")
	if here, err = connection(fds[0], "packets"); err != nil {
		_ = there.Close() // the error above says more
		return nil, nil, err
	}
	return here, there, nil
}

// PacketConn returns the connection of a descriptor that it takes, such as the one of PacketPair in a child.
func PacketConn(fd uintptr) (*os.File, error) {
	if domain, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil || domain != unix.AF_UNIX {
		return nil, fmt.Errorf("descriptor %d is no unix socket: domain %d (%w)", fd, domain, err)
	}
	return connection(int(fd), "packets")
}

// SendFDs sends one packet with descriptors attached.
func SendFDs(conn syscall.Conn, packet []byte, fds []int) error {
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var sendErr error
	err = raw.Write(func(fd uintptr) bool {
		sendErr = retry(func() error { return unix.Sendmsg(int(fd), packet, oob, nil, unix.MSG_NOSIGNAL) })
		return !errors.Is(sendErr, unix.EAGAIN)
	})
	if err = errors.Join(err, sendErr); err != nil {
		return fmt.Errorf("send packet with %d descriptors: %w", len(fds), err)
	}
	return nil
}

// RecvAtOnce receives one packet into b without blocking, and returns its size. It fails with EAGAIN if there is none, and
// with io.EOF if the other side has closed the connection. A packet that does not fit is cut.
func RecvAtOnce(conn syscall.Conn, b []byte) (n int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	cerr := raw.Control(func(fd uintptr) {
		err = retry(func() (err error) {
			n, _, err = unix.Recvfrom(int(fd), b, unix.MSG_DONTWAIT)
			return err
		})
	})
	if err = errors.Join(err, cerr); err == nil && n == 0 {
		err = io.EOF
	}
	return n, err
}

// SendAtOnce sends one packet without blocking. It fails with EAGAIN if there is no room.
func SendAtOnce(conn syscall.Conn, packet []byte) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	cerr := raw.Control(func(fd uintptr) {
		err = unix.Send(int(fd), packet, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	})
	return errors.Join(err, cerr)
}

// RecvFDs receives one packet of at most size bytes and at most most descriptors. The caller owns the
// descriptors. A larger packet is an error, and so is the end of the connection: io.EOF.
func RecvFDs(conn syscall.Conn, size, most int) (packet []byte, fds []int, err error) {
	packet, oob := make([]byte, size), make([]byte, unix.CmsgSpace(4*most))
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, nil, err
	}
	var n, oobn, flags int
	var recvErr error
	err = raw.Read(func(fd uintptr) bool {
		recvErr = retry(func() (err error) {
			n, oobn, flags, _, err = unix.Recvmsg(int(fd), packet, oob, unix.MSG_CMSG_CLOEXEC)
			return err
		})
		return !errors.Is(recvErr, unix.EAGAIN)
	})
	if err = errors.Join(err, recvErr); err != nil {
		return nil, nil, fmt.Errorf("receive packet: %w", err)
	}
	if n == 0 && oobn == 0 {
		return nil, nil, io.EOF
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return nil, nil, fmt.Errorf("control message: %w", err)
	}
	for i := range msgs {
		got, err := unix.ParseUnixRights(&msgs[i])
		if err == nil {
			fds = append(fds, got...)
		}
	}
	if flags&(unix.MSG_CTRUNC|unix.MSG_TRUNC) != 0 {
		CloseFDs(fds)
		return nil, nil, fmt.Errorf("packet is too large, want at most %d bytes and %d descriptors", size, most)
	}
	return packet[:n], fds, nil
}

// retry repeats a system call that a signal has interrupted.
func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// KeepFD returns a copy of a descriptor, close-on-exec.
func KeepFD(fd int) (int, error) {
	return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
}

// CloseFDs closes descriptors that RecvFDs returned.
func CloseFDs(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}
