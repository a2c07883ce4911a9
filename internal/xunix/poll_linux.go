package xunix

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Poller reports which of many descriptors have input. One goroutine serves them all, and waits for them
// without blocking a thread.
//
//   - Concurrent calls: one goroutine calls Wait; any goroutine may call the other methods.
type Poller struct {
	epoll  *os.File
	conn   syscall.RawConn
	events [64]unix.EpollEvent
	ready  []uint64  // result of the latest Wait
	until  time.Time // deadline of the latest Wait

	mu   sync.Mutex
	wake int // an eventfd; -1 when closed
}

// NewPoller returns a Poller without descriptors.
func NewPoller() (*Poller, error) {
	epfd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	// The Go runtime polls the epoll descriptor, which is readable when a descriptor in it is.
	if err := unix.SetNonblock(epfd, true); err != nil {
		_ = unix.Close(epfd)
		return nil, fmt.Errorf("epoll: %w", err)
	}
	p := &Poller{epoll: os.NewFile(uintptr(epfd), "epoll"), wake: -1}
	p.conn, err = p.epoll.SyscallConn()
	if err == nil {
		p.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	}
	if err == nil {
		err = p.Watch(p.wake, 0, false)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("epoll: %w", err), p.Close())
	}
	return p, nil
}

// Watch makes Wait report id when fd has input or its other end is closed. id must not be 0. With once, Wait
// reports id once; otherwise in each call while fd has input.
func (p *Poller) Watch(fd int, id uint64, once bool) error {
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP, Fd: int32(uint32(id)), Pad: int32(uint32(id >> 32))}
	if once {
		ev.Events |= unix.EPOLLONESHOT
	}
	var err error
	if cerr := p.conn.Control(func(epfd uintptr) {
		err = unix.EpollCtl(int(epfd), unix.EPOLL_CTL_ADD, fd, &ev)
	}); cerr != nil {
		return cerr
	}
	return err
}

// Forget ends the watch of fd. It must be called before fd is closed: a fork at the same time may hold a
// duplicate of fd, which would keep the watch alive.
func (p *Poller) Forget(fd int) {
	_ = p.conn.Control(func(epfd uintptr) {
		_ = unix.EpollCtl(int(epfd), unix.EPOLL_CTL_DEL, fd, nil)
	})
}

// Wait blocks until some descriptors have input, until Wake is called, or until the given time (zero: no
// limit). It returns the ids of these descriptors. The slice is valid until the next call.
func (p *Poller) Wait(until time.Time) (ready []uint64, err error) {
	if until != p.until {
		if err := p.epoll.SetReadDeadline(until); err != nil {
			return nil, fmt.Errorf("epoll: %w", err)
		}
		p.until = until
	}
	n := 0
	cerr := p.conn.Read(func(epfd uintptr) bool {
		n, err = unix.EpollWait(int(epfd), p.events[:], 0)
		if errors.Is(err, unix.EINTR) {
			n, err = 0, nil
		}
		return n > 0 || err != nil
	})
	if errors.Is(cerr, os.ErrDeadlineExceeded) {
		cerr = nil
	}
	if err = errors.Join(err, cerr); err != nil {
		return nil, fmt.Errorf("epoll_wait: %w", err)
	}
	p.ready = p.ready[:0]
	for i := range p.events[:n] {
		id := uint64(uint32(p.events[i].Fd)) | uint64(uint32(p.events[i].Pad))<<32
		if id != 0 {
			p.ready = append(p.ready, id)
			continue
		}
		p.mu.Lock()
		_, _ = unix.Read(p.wake, make([]byte, 8))
		p.mu.Unlock()
	}
	return p.ready, nil
}

// Wake makes Wait return.
func (p *Poller) Wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wake >= 0 {
		_, _ = unix.Write(p.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // an error: the counter is full, so Wait returns anyway
	}
}

// Close ends all watches. It must not be called during Wait.
func (p *Poller) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wake >= 0 {
		_ = unix.Close(p.wake)
		p.wake = -1
	}
	return p.epoll.Close()
}
