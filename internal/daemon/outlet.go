package daemon

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/goshmem/goshmem/internal/xunix"
)

// outlet is the reading end of an output of a PE. It knows what of it has been
// passed on.
type outlet struct {
	*os.File
	conn    syscall.RawConn
	attempt func(fd uintptr) bool // made once: reading allocates nothing
	passed  Gauge                 // bytes

	mu    sync.Mutex // held while bytes leave the pipe
	into  []byte
	n     int
	err   error
	taken uint64 // bytes
}

// newOutlet takes a pipe's end.
func newOutlet(f *os.File) (*outlet, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	o := &outlet{File: f, conn: conn}
	o.attempt = o.try
	return o, nil
}

// try reads what is there. It says whether that was anything, the end or an
// error: otherwise it is to be called again when there is.
func (o *outlet) try(fd uintptr) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		o.n, o.err = xunix.Read(fd, o.into)
		if o.err != syscall.EINTR { //nolint:errorlint // as it comes from the kernel
			break
		}
	}
	o.n = max(o.n, 0)
	o.taken += uint64(o.n)
	return o.err != syscall.EAGAIN //nolint:errorlint // as it comes from the kernel
}

// Read differs from that of a file in one thing: it does not report that a
// deadline is over while there is something to read.
func (o *outlet) Read(b []byte) (int, error) {
	o.into = b
	err := o.conn.Read(o.attempt)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		some := false
		if cerr := o.conn.Control(func(fd uintptr) { some = o.try(fd) }); cerr == nil && some {
			err = nil
		}
	}
	switch {
	case err != nil:
		return 0, err
	case o.n == 0 && o.err == nil:
		return 0, io.EOF
	}
	return o.n, o.err
}

// mark returns a channel that is closed when everything that is in the pipe
// now has been passed on.
func (o *outlet) mark() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := xunix.Unread(o.conn)
	if err != nil {
		n = 0 // closed: all has been read
	}
	return o.passed.Reached(o.taken + uint64(n))
}
