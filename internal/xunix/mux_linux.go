package xunix

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Mux watches one end of many socket pairs. One goroutine serves them all, and waits for them without
// blocking a thread.
//
//   - Concurrent calls: one goroutine calls Wait; any goroutine may call the other methods.
type Mux struct {
	poll *Poller

	mu   sync.Mutex
	fds  map[uint64]int // descriptors by id; ids are never reused
	last uint64         // the latest id
}

// NewMux returns a Mux without pairs.
func NewMux() (*Mux, error) {
	poll, err := NewPoller()
	if err != nil {
		return nil, err
	}
	return &Mux{poll: poll, fds: map[uint64]int{}}, nil
}

// Pair makes a pair of stream sockets. The Mux keeps one end and names it id. The other end belongs to the
// caller and blocks.
func (m *Mux) Pair() (id uint64, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, fmt.Errorf("socketpair: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	id = m.last + 1
	if err = unix.SetNonblock(fds[0], true); err == nil {
		err = m.poll.Watch(fds[0], id, false)
	}
	if err != nil {
		CloseFDs(fds[:])
		return 0, nil, fmt.Errorf("watch socket: %w", err)
	}
	m.last, m.fds[id] = id, fds[0]
	return id, os.NewFile(uintptr(fds[1]), "socketpair"), nil
}

// Wait blocks until some pairs have input or Wake is called. It returns the ids of these pairs. A pair whose
// other end is closed has input: its end. The slice is valid until the next call.
func (m *Mux) Wait() (ready []uint64, err error) { return m.poll.Wait(time.Time{}) }

// Wake makes Wait return.
func (m *Mux) Wake() { m.poll.Wake() }

// Read reads without blocking.
//
//   - Errors: ErrAgain if there is nothing to read or the pair was dropped; io.EOF at the end.
func (m *Mux) Read(id uint64, b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fd, ok := m.fds[id]
	if !ok {
		return 0, ErrAgain // dropped after Wait
	}
	n, err := unix.Read(fd, b)
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return 0, ErrAgain
	case err != nil:
		return 0, fmt.Errorf("read: %w", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write writes all of text without blocking. It fails if the socket has no room for all of it.
func (m *Mux) Write(id uint64, text string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	fd, ok := m.fds[id]
	if !ok {
		return os.ErrClosed
	}
	n, err := unix.SendmsgN(fd, []byte(text), nil, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if n < len(text) {
		return io.ErrShortWrite
	}
	return nil
}

// HangUp shuts a pair down in both directions. Wait then reports its end.
func (m *Mux) HangUp(id uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if fd, ok := m.fds[id]; ok {
		_ = unix.Shutdown(fd, unix.SHUT_RDWR)
	}
}

// Drop closes the Mux's end of a pair.
func (m *Mux) Drop(id uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if fd, ok := m.fds[id]; ok {
		delete(m.fds, id)
		m.poll.Forget(fd)
		_ = unix.Close(fd)
	}
}

// Close closes all pairs. It must not be called during Wait.
func (m *Mux) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, fd := range m.fds {
		_ = unix.Close(fd)
	}
	m.fds = nil
	return m.poll.Close()
}
