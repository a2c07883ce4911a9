package tcp

import (
	"net/netip"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

// deafTime is how long no connection is accepted after one for which no descriptor was left.
const deafTime = 100 * time.Millisecond

// doors are the sockets that listen.
type doors struct {
	fds       []int
	addrs     []netip.AddrPort
	deafUntil time.Time // until then the sockets are not watched

	strangers    uint64 // connections that were turned away
	lastStranger error
}

// open adds a socket that listens at an address.
func (d *doors) open(e *xunix.Epoll, addr netip.AddrPort) error {
	fd, bound, err := xunix.ListenTCP(addr)
	if err != nil {
		return err
	}
	d.fds, d.addrs = append(d.fds, fd), append(d.addrs, bound)
	return e.Add(fd, listenerID|uint64(len(d.fds)-1), false)
}

// deafen stops the watch of the sockets for a while.
func (d *doors) deafen(e *xunix.Epoll) {
	d.deafUntil = time.Now().Add(deafTime)
	for _, fd := range d.fds {
		e.Remove(fd)
	}
}

// hear watches the sockets again.
func (d *doors) hear(e *xunix.Epoll) error {
	d.deafUntil = time.Time{}
	for i, fd := range d.fds {
		if err := e.Add(fd, listenerID|uint64(i), false); err != nil {
			return err
		}
	}
	return nil
}

// countStranger notes that a connection was turned away.
func (d *doors) countStranger(err error) {
	d.strangers++
	d.lastStranger = err
}

// close closes the sockets.
func (d *doors) close() {
	for _, fd := range d.fds {
		xunix.CloseSocket(fd)
	}
}
