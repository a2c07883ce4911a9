package xunix

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Connections here are files, not those of package net: what imports package net is linked with libc where a C
// compiler is installed, and a PE starts a millisecond later for that. Reads and writes of these files block no
// thread, have deadlines, and end when the file is closed.

// dialSlice is how long a connect waits before the context is checked again, in microseconds.
const dialSlice = 50_000

// DialPackets connects to a unix socket of type SEQPACKET. A name that begins with @ is an abstract one.
//
// If the listener's queue is full, DialPackets waits in the kernel's line for room. A socket that does not block would
// fail at once, so a process that connects often enough could keep others away.
func DialPackets(ctx context.Context, name string) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	if err := connectPackets(ctx, fd, name); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return connection(fd, name)
}

// connectPackets connects a socket, which blocks, in slices of time.
func connectPackets(ctx context.Context, fd int, name string) error {
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Usec: dialSlice}); err != nil {
		return fmt.Errorf("set the timeout of connect (SO_SNDTIMEO): %w", err)
	}
	for {
		err := unix.Connect(fd, &unix.SockaddrUnix{Name: name})
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR):
			return fmt.Errorf("connect: %w", err)
		case ctx.Err() != nil:
			return fmt.Errorf("connect: %w (%w)", context.Cause(ctx), err)
		}
	}
}

// connection returns a socket as a file, or closes it.
func connection(fd int, name string) (*os.File, error) {
	if err := unix.SetNonblock(fd, true); err != nil { // os.NewFile looks at it
		_ = unix.Close(fd)
		return nil, fmt.Errorf("set O_NONBLOCK: %w", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// DialTCP connects to an address.
func DialTCP(ctx context.Context, addr netip.AddrPort) (*os.File, error) {
	fd, to, err := tcpSocket(addr)
	if err != nil {
		return nil, err
	}
	if err := setTCPOptions(fd); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	err = unix.Connect(fd, to)
	f := os.NewFile(uintptr(fd), addr.String())
	if errors.Is(err, unix.EINPROGRESS) || errors.Is(err, unix.EINTR) { // the connect goes on
		err = awaitConnect(ctx, f)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("connect: %w", err)
	}
	return f, nil
}

// awaitConnect waits until a connect has ended, and returns its error.
func awaitConnect(ctx context.Context, f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetDeadline(time.Unix(1, 0)) })
	var connectErr error
	err = raw.Write(func(fd uintptr) bool {
		code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		if err == nil && code != 0 {
			err = unix.Errno(code)
		}
		if err == nil {
			_, err = unix.Getpeername(int(fd)) // ENOTCONN: the connect has not ended
		}
		connectErr = err
		return !errors.Is(err, unix.ENOTCONN)
	})
	if !stop() {
		return context.Cause(ctx)
	}
	return errors.Join(err, connectErr)
}
