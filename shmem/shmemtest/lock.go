package shmemtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
)

// lockName is the socket name that the process which runs a job binds. An abstract name leaves no
// file, and is free again when its holder ends, however it ends.
const lockName = "@goshmem-shmemtest"

// lockMachine waits until no other process of the machine (of the network namespace) runs a job. A process that has
// to wait connects to the holder. The holder's end closes that connection, however the holder ends.
func lockMachine(ctx context.Context) (unlock func(), err error) {
	for {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: lockName, Net: "unix"})
		if err == nil {
			return func() { _ = l.Close() }, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("lock the machine: %w", err)
		}
		if err := awaitHolder(ctx); err != nil {
			return nil, err
		}
	}
}

// awaitHolder returns when the present holder has gone.
func awaitHolder(ctx context.Context) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", lockName)
	if err != nil {
		return ctx.Err() // the holder is gone, or has too many connections: the caller tries again
	}
	defer func() { _ = c.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	_, _ = c.Read(make([]byte, 1))
	return ctx.Err()
}
