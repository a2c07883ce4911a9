package xunix

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// NewEvent makes an event descriptor (eventfd), non-blocking and close-on-exec. It is readable after PostEvent until it
// is read.
func NewEvent() (fd int, err error) {
	fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return -1, fmt.Errorf("eventfd: %w", err)
	}
	return fd, nil
}

// PostEvent makes an event descriptor readable. It allocates nothing. An error means that the counter is full, so the
// descriptor is readable anyway.
func PostEvent(fd int) {
	one := uint64(1)
	_, _, _ = unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&one)), 8)
}
