package xunix

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// dialSlice is how long a connect waits before the context is checked again, in microseconds.
const dialSlice = 50_000

// DialPackets connects to a unix socket of type SEQPACKET. A name that begins with @ is an abstract one.
//
// If the listener's queue is full, DialPackets waits in the kernel's line for room. Package net would fail at
// once, so a process that connects often enough could keep others away.
func DialPackets(ctx context.Context, name string) (*net.UnixConn, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer func() { _ = f.Close() }() // the returned connection has a duplicate of the descriptor
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Usec: dialSlice}); err != nil {
		return nil, fmt.Errorf("set the timeout of connect (SO_SNDTIMEO): %w", err)
	}
	for {
		err := unix.Connect(fd, &unix.SockaddrUnix{Name: name})
		switch {
		case err == nil:
			return packetConn(f)
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR):
			return nil, fmt.Errorf("connect: %w", err)
		case ctx.Err() != nil:
			return nil, fmt.Errorf("connect: %w (%w)", context.Cause(ctx), err)
		}
	}
}

// packetConn returns f as a connection, on a duplicate of the descriptor.
func packetConn(f *os.File) (*net.UnixConn, error) {
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		_ = c.Close()
		return nil, errors.New("not a unix socket")
	}
	return conn, nil
}
