// Package xunix has a small function for each system call that goshmem needs and the standard library lacks.
// It is the only package that imports golang.org/x/sys.
//
// On systems other than Linux everything compiles, and functions return ErrNotSupported. So the pure packages
// and the simulators run anywhere.
package xunix

import "errors"

// ErrNotSupported reports that the operating system lacks the function. The runtime of goshmem needs Linux.
var ErrNotSupported = errors.New("not supported on this system (requires Linux)")

// ErrTimeout reports that a FutexWait ended by its timeout.
var ErrTimeout = errors.New("timed out")

// ErrAgain reports that there is nothing to read yet.
var ErrAgain = errors.New("nothing to read yet")
