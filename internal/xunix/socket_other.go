//go:build !linux

package xunix

import (
	"errors"
	"net/netip"
	"time"
)

// Epoll is not supported here.
type Epoll struct{}

// Readiness is what Epoll says of a descriptor.
type Readiness struct {
	ID      uint64
	In, Out bool
}

// NewEpoll is not supported here.
func NewEpoll() (*Epoll, error) { return nil, ErrNotSupported }

// Alone is not supported here.
func (*Epoll) Alone() {}

// Add is not supported here.
func (*Epoll) Add(int, uint64, bool) error { return ErrNotSupported }

// Change is not supported here.
func (*Epoll) Change(int, uint64, bool) error { return ErrNotSupported }

// Remove does nothing here.
func (*Epoll) Remove(int) {}

// Wait is not supported here.
func (*Epoll) Wait(ready []Readiness, _ time.Duration) ([]Readiness, bool, error) {
	return ready, false, ErrNotSupported
}

// Wake does nothing here.
func (*Epoll) Wake() {}

// WakeFD is not supported here.
func (*Epoll) WakeFD() int { return -1 }

// Close does nothing here.
func (*Epoll) Close() {}

// ListenTCP is not supported here.
func ListenTCP(netip.AddrPort) (int, netip.AddrPort, error) {
	return -1, netip.AddrPort{}, ErrNotSupported
}

// ErrNoDescriptors reports that the process or the machine cannot have more descriptors.
var ErrNoDescriptors = errors.New("no descriptor is left")

// AcceptTCP is not supported here.
func AcceptTCP(int) (int, netip.AddrPort, error) { return -1, netip.AddrPort{}, ErrNotSupported }

// ConnectTCP is not supported here.
func ConnectTCP(netip.AddrPort) (int, error) { return -1, ErrNotSupported }

// ConnectResult is not supported here.
func ConnectResult(int) error { return ErrNotSupported }

// SetUserTimeout is not supported here.
func SetUserTimeout(int, time.Duration) error { return ErrNotSupported }

// ReceiveSocket is not supported here.
func ReceiveSocket(int, []byte) (int, error) { return 0, ErrNotSupported }

// CloseSocket does nothing here.
func CloseSocket(int) {}

// DiscardOnClose does nothing here.
func DiscardOnClose(int) {}

// MaxVector is the greatest number of parts of a Vector.
const MaxVector = 512

// Vector is not supported here.
type Vector struct{ bytes int }

// Add counts the bytes of a part.
func (v *Vector) Add(b []byte) bool {
	v.bytes += len(b)
	return true
}

// Bytes returns the size of all parts.
func (v *Vector) Bytes() int { return v.bytes }

// Send is not supported here.
func (*Vector) Send(int) (int, error) { return 0, ErrNotSupported }
