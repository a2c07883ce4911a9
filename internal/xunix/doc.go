// Package xunix is the only importer of golang.org/x/sys: every system call
// that the standard library does not offer goes through a small function here.
//
// On systems other than Linux everything compiles and each function returns
// ErrNotSupported, so that the pure cores and the simulators run anywhere.
package xunix

import "errors"

// ErrNotSupported reports that the operating system does not offer what was
// asked for; goshmem's runtime needs Linux.
var ErrNotSupported = errors.New("not supported on this system (requires Linux)")

// ErrTimeout reports that a FutexWait ended by its own timeout.
var ErrTimeout = errors.New("timed out")

// ErrAgain reports that there is nothing to read yet.
var ErrAgain = errors.New("nothing to read yet")
