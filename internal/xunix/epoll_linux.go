package xunix

import (
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Epoll reports which of many descriptors are ready. Wait blocks the calling thread, unlike that of Poller, which asks
// the poller of the Go runtime first. So it is for a goroutine that has a thread to itself and waits at each of its
// steps.
//
//   - Concurrent calls: one goroutine calls the methods; any goroutine may call Wake.
type Epoll struct {
	fd     int
	events [128]unix.EpollEvent
	alone  bool // see Alone

	mu   sync.Mutex // orders Wake and Close
	wake int        // an eventfd; -1 when closed
}

// Readiness is what Epoll says of a descriptor.
type Readiness struct {
	ID  uint64
	In  bool // there is input, its end, or an error
	Out bool // there is room for output, or an error
}

// epollWake is the id of the Epoll's own eventfd.
const epollWake = 0

// NewEpoll returns an Epoll without descriptors.
func NewEpoll() (*Epoll, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	e := &Epoll{fd: fd, wake: -1}
	if e.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err == nil {
		ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET} // its id is epollWake
		err = unix.EpollCtl(e.fd, unix.EPOLL_CTL_ADD, e.wake, &ev)
	}
	if err != nil {
		e.Close()
		return nil, fmt.Errorf("eventfd of epoll: %w", err)
	}
	return e, nil
}

func (e *Epoll) control(op, fd int, id uint64, out bool) error {
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(uint32(id)), Pad: int32(uint32(id >> 32))}
	if out {
		ev.Events |= unix.EPOLLOUT
	}
	if err := unix.EpollCtl(e.fd, op, fd, &ev); err != nil {
		return fmt.Errorf("epoll_ctl of descriptor %d: %w", fd, err)
	}
	return nil
}

// Add watches a descriptor for input, and for room for output if out is set. The id must not be 0.
func (e *Epoll) Add(fd int, id uint64, out bool) error {
	return e.control(unix.EPOLL_CTL_ADD, fd, id, out)
}

// Change changes what Add has said.
func (e *Epoll) Change(fd int, id uint64, out bool) error {
	return e.control(unix.EPOLL_CTL_MOD, fd, id, out)
}

// Remove ends the watch of a descriptor. It must be called before the descriptor is closed: a fork at the same time may
// hold a duplicate, which would keep the watch alive.
func (e *Epoll) Remove(fd int) { _ = unix.EpollCtl(e.fd, unix.EPOLL_CTL_DEL, fd, nil) }

// Wait waits until descriptors are ready, Wake was called, or the timeout is over (negative: none). It rounds the
// timeout up to milliseconds. A signal ends it early. Ready appends to ready, and returns whether Wake was called.
func (e *Epoll) Wait(ready []Readiness, timeout time.Duration) ([]Readiness, bool, error) {
	ms := -1
	if timeout >= 0 {
		ms = int(min((timeout+time.Millisecond-1)/time.Millisecond, 1<<30))
	}
	n, err := e.wait(ms)
	if errors.Is(err, unix.EINTR) {
		return ready, false, nil
	}
	if err != nil {
		return ready, false, fmt.Errorf("epoll_wait: %w", err)
	}
	woken := false
	for i := range e.events[:n] {
		ev := &e.events[i]
		id := uint64(uint32(ev.Fd)) | uint64(uint32(ev.Pad))<<32
		if id == epollWake {
			woken = true // nobody reads the counter: it is watched for its changes
			continue
		}
		failed := ev.Events&(unix.EPOLLERR|unix.EPOLLHUP) != 0
		ready = append(ready, Readiness{
			ID: id, In: failed || ev.Events&unix.EPOLLIN != 0, Out: failed || ev.Events&unix.EPOLLOUT != 0,
		})
	}
	return ready, woken, nil
}

// aloneFor is how long a thread that is alone keeps the runtime's processor while it waits.
const aloneFor = 5 // milliseconds

// Alone says that no other goroutine of this process is to run while Wait waits, but after some milliseconds. Wait then
// keeps the runtime's processor, so a wake-up costs no word with the Go scheduler. Its monitor thread would take the
// processor away from each system call of 20 us, and keep a core busy with that, in a process with GOMAXPROCS=1.
func (e *Epoll) Alone() { e.alone = true }

// wait is epoll_wait. A call that does not wait, or a short wait of a thread that is alone, goes past the Go scheduler.
func (e *Epoll) wait(ms int) (n int, err error) {
	switch {
	case ms == 0:
		return e.rawWait(0)
	case e.alone:
		brief := aloneFor
		if ms > 0 {
			brief = min(ms, aloneFor)
		}
		if n, err := e.rawWait(brief); n != 0 || err != nil || brief == ms {
			return n, err
		}
		if ms > 0 {
			ms -= brief
		}
	}
	return unix.EpollWait(e.fd, e.events[:], ms)
}

// rawWait is epoll_wait past the Go scheduler.
func (e *Epoll) rawWait(ms int) (n int, err error) {
	r, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(e.fd), uintptr(unsafe.Pointer(&e.events[0])), uintptr(len(e.events)), uintptr(ms), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(r), nil
}

// Wake makes the current Wait return, or the next one.
func (e *Epoll) Wake() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.wake >= 0 {
		one := [8]byte{1}
		_, _ = unix.Write(e.wake, one[:]) // an error: the counter is full, so Wait returns anyway
	}
}

// WakeFD returns the eventfd that Wake writes to, for other processes.
func (e *Epoll) WakeFD() int { return e.wake }

// Close ends all watches. It must not be called during Wait.
func (e *Epoll) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.wake >= 0 {
		_ = unix.Close(e.wake)
		e.wake = -1
	}
	if e.fd >= 0 {
		_ = unix.Close(e.fd)
		e.fd = -1
	}
}
