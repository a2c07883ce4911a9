package daemon

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

// outlet is the reading end of an output of a PE, a pipe or a pseudo terminal. It
// knows what of it has been passed on.
type outlet struct {
	*os.File
	conn    syscall.RawConn
	pty     bool
	attempt func(fd uintptr) bool // made once: reading allocates nothing
	passed  Gauge                 // bytes

	mu       sync.Mutex // held while bytes leave the pipe or the terminal
	into     []byte
	n        int
	err      error
	taken    uint64    // bytes
	early    []byte    // of a terminal: taken by mark, and not read yet
	deadline time.Time // of reading, as it was set
	woken    bool      // the file's deadline is over because there is something in early
}

// mostInPTY is more than a pseudo terminal holds: 8 KiB on the way and 4 KiB to be
// read, rounded up to pages.
const mostInPTY = 64 << 10

// newOutlet takes the end of a pipe, or the person's side of a pseudo terminal.
func newOutlet(f *os.File, pty bool) (*outlet, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	o := &outlet{File: f, conn: conn, pty: pty}
	o.attempt = o.tryRead
	return o, nil
}

// tryRead reads what is there. It says whether that was anything, the end or an
// error: otherwise it is to be called again when there is.
func (o *outlet) tryRead(fd uintptr) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.early) > 0 {
		o.n, o.err = copy(o.into, o.early), nil
		o.early = o.early[o.n:]
		return true
	}
	o.n, o.err = o.readOnce(fd, o.into)
	o.taken += uint64(o.n)
	if o.pty && o.err == syscall.EIO { //nolint:errorlint // as it comes from the kernel
		o.err = nil // nobody has the terminal open any more: the end
	}
	return o.err != syscall.EAGAIN //nolint:errorlint // as above
}

// readOnce reads from the pipe or the terminal. A terminal whose end is found is read again: the kernel looks for input
// first, and then whether anybody still has the terminal open. A program that writes its last words in between, and ends,
// would lose them. Nobody writes any more when the second read begins.
func (o *outlet) readOnce(fd uintptr, b []byte) (n int, err error) {
	n, err = readSome(fd, b)
	if o.pty && err == syscall.EIO { //nolint:errorlint // as it comes from the kernel
		n, err = readSome(fd, b)
	}
	return n, err
}

// readSome reads from a descriptor, whatever signals come.
func readSome(fd uintptr, b []byte) (n int, err error) {
	for {
		n, err = xunix.Read(fd, b)
		if err != syscall.EINTR { //nolint:errorlint // as it comes from the kernel
			return max(n, 0), err
		}
	}
}

// SetReadDeadline limits how long Read may take.
func (o *outlet) SetReadDeadline(t time.Time) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.deadline = t; o.woken {
		return nil // Read sets it
	}
	return o.File.SetReadDeadline(t)
}

// wakeReader lets Read look at what mark has taken. The caller holds the lock.
func (o *outlet) wakeReader() {
	o.woken = o.File.SetReadDeadline(time.Unix(1, 0)) == nil // it fails on a closed file: nobody reads
}

// restoreDeadline sets the deadline that wakeReader has moved, and says whether it was moved.
func (o *outlet) restoreDeadline() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.woken {
		return false
	}
	o.woken = false
	return o.File.SetReadDeadline(o.deadline) == nil
}

// Read differs from that of a file in one thing: it does not report that a
// deadline is over while there is something to read.
func (o *outlet) Read(b []byte) (int, error) {
	o.into = b
	err := o.conn.Read(o.attempt)
	for errors.Is(err, os.ErrDeadlineExceeded) && o.restoreDeadline() {
		err = o.conn.Read(o.attempt)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		some := false
		if cerr := o.conn.Control(func(fd uintptr) { some = o.tryRead(fd) }); cerr == nil && some {
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

// mark returns how many bytes have been written so far: those that were taken, and
// those that are in the pipe or the terminal now. When as many have been passed on,
// or the outlet has ended, all that was written before the call has been passed on.
func (o *outlet) mark() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pty {
		o.takeAll()
		return o.taken
	}
	n, err := xunix.Unread(o.conn)
	if err != nil {
		n = 0 // closed: all has been read
	}
	return o.taken + uint64(n)
}

// takeAll takes what is in a pseudo terminal. The kernel passes what a program
// writes there through a queue, which FIONREAD does not count. A read that finds
// nothing has waited until the queue was empty, so all that was written before it
// is taken then; otherwise as much as a terminal can hold. The caller holds the
// lock.
func (o *outlet) takeAll() {
	before := len(o.early)
	_ = o.conn.Control(func(fd uintptr) { // it fails on a closed file: all has been read
		buf := make([]byte, mostInPTY)
		for len(o.early)-before < mostInPTY {
			n, err := o.readOnce(fd, buf)
			if n == 0 || err != nil {
				return
			}
			o.early = append(o.early, buf[:n]...)
			o.taken += uint64(n)
		}
	})
	if len(o.early) > before {
		o.wakeReader() // what it waits for has been taken
	}
}
