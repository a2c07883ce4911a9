package xunix

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Mux watches one end of many socket pairs, so that one goroutine serves them
// all and waits for them without a thread of its own. Wait is for that
// goroutine; the other methods are for any.
type Mux struct {
	epoll  *os.File
	conn   syscall.RawConn
	events [64]unix.EpollEvent
	ready  []uint64

	mu   sync.Mutex
	wake int            // an eventfd; -1 when closed
	fds  map[uint64]int // by id; no id is ever used again
	last uint64
}

// NewMux returns a Mux without pairs.
func NewMux() (*Mux, error) {
	epfd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	// The runtime watches the epoll descriptor itself: it is readable when one
	// of those within is.
	if err := unix.SetNonblock(epfd, true); err != nil {
		_ = unix.Close(epfd)
		return nil, fmt.Errorf("epoll: %w", err)
	}
	m := &Mux{epoll: os.NewFile(uintptr(epfd), "epoll"), wake: -1, fds: map[uint64]int{}}
	m.conn, err = m.epoll.SyscallConn()
	if err == nil {
		m.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	}
	if err == nil {
		err = m.watch(m.wake, 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("epoll: %w", err), m.Close())
	}
	return m, nil
}

// watch lets Wait report id when there is input; the first one is Wake's.
func (m *Mux) watch(fd int, id uint64) error {
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP, Fd: int32(uint32(id)), Pad: int32(uint32(id >> 32))}
	var err error
	if cerr := m.conn.Control(func(epfd uintptr) {
		err = unix.EpollCtl(int(epfd), unix.EPOLL_CTL_ADD, fd, &ev)
	}); cerr != nil {
		return cerr
	}
	return err
}

// Pair makes a pair of stream sockets. The Mux keeps the end that it calls id;
// the other one is the caller's, and blocks.
func (m *Mux) Pair() (id uint64, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, fmt.Errorf("socketpair: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	id = m.last + 1
	if err = unix.SetNonblock(fds[0], true); err == nil {
		err = m.watch(fds[0], id)
	}
	if err != nil {
		CloseFDs(fds[:])
		return 0, nil, fmt.Errorf("watch socket: %w", err)
	}
	m.last, m.fds[id] = id, fds[0]
	return id, os.NewFile(uintptr(fds[1]), "socketpair"), nil
}

// Wait blocks until there is input of some pairs, or Wake is called, and
// returns their ids, which stay valid until the next call. A pair whose other
// end is closed has input: its end.
func (m *Mux) Wait() (ready []uint64, err error) {
	n := 0
	cerr := m.conn.Read(func(epfd uintptr) bool {
		n, err = unix.EpollWait(int(epfd), m.events[:], 0)
		if errors.Is(err, unix.EINTR) {
			n, err = 0, nil
		}
		return n > 0 || err != nil
	})
	if err = errors.Join(err, cerr); err != nil {
		return nil, fmt.Errorf("epoll_wait: %w", err)
	}
	m.ready = m.ready[:0]
	for i := range m.events[:n] {
		id := uint64(uint32(m.events[i].Fd)) | uint64(uint32(m.events[i].Pad))<<32
		if id != 0 {
			m.ready = append(m.ready, id)
			continue
		}
		m.mu.Lock()
		_, _ = unix.Read(m.wake, make([]byte, 8))
		m.mu.Unlock()
	}
	return m.ready, nil
}

// Wake lets Wait return.
func (m *Mux) Wake() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wake >= 0 {
		_, _ = unix.Write(m.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // full: it is awake
	}
}

// Read reads what is there: ErrAgain if nothing is, io.EOF at the end.
func (m *Mux) Read(id uint64, b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fd, ok := m.fds[id]
	if !ok {
		return 0, ErrAgain // dropped since Wait
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

// Write writes all of text at once, or fails.
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

// HangUp ends a pair in both directions; Wait reports its end.
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
		_ = m.conn.Control(func(epfd uintptr) { // a fork that is under way holds a copy of fd
			_ = unix.EpollCtl(int(epfd), unix.EPOLL_CTL_DEL, fd, nil)
		})
		_ = unix.Close(fd)
	}
}

// Close closes everything. Wait must not be under way.
func (m *Mux) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, fd := range m.fds {
		_ = unix.Close(fd)
	}
	m.fds = nil
	if m.wake >= 0 {
		_ = unix.Close(m.wake)
		m.wake = -1
	}
	return m.epoll.Close()
}
