package shmemtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
)

// lockName is bound by whoever runs a job. An abstract name leaves no file and
// is free again when its holder ends in any way.
const lockName = "@goshmem-shmemtest"

// lock waits until no other process of the machine (of the network namespace)
// runs a job. Who has to wait connects to the holder, whose end, in any way,
// closes the connection.
func lock(ctx context.Context) (unlock func(), err error) {
	for {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: lockName, Net: "unix"})
		if err == nil {
			return func() { _ = l.Close() }, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("lock of the machine: %w", err)
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
		return ctx.Err() // gone in between, or too many wait: look again
	}
	defer func() { _ = c.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	_, _ = c.Read(make([]byte, 1))
	return ctx.Err()
}
