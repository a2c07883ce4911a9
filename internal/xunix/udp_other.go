//go:build !linux

package xunix

import (
	"net/netip"
	"time"
)

// SocketAddress needs Linux.
type SocketAddress struct{}

// NewSocketAddress needs Linux.
func NewSocketAddress(netip.AddrPort, uint32, bool) (SocketAddress, error) {
	return SocketAddress{}, ErrNotSupported
}

// IsIPv6 needs Linux.
func IsIPv6(int) (bool, error) { return false, ErrNotSupported }

// ReceiveFrom needs Linux.
func ReceiveFrom(int, []byte, *SocketAddress) (int, error) { return 0, ErrNotSupported }

// SendTo needs Linux.
func SendTo(int, []byte, *SocketAddress) error { return ErrNotSupported }

// WaitInput needs Linux.
func WaitInput(int, int, time.Duration) error { return ErrNotSupported }
