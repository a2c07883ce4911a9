//go:build !linux

package responder

import (
	"net/netip"

	"github.com/goshmem/goshmem/internal/xunix"
)

// Responder answers for a node.
type Responder struct{}

// Open is not supported here.
func Open(cfg Config) (*Responder, error) {
	return nil, &TierError{max(cfg.Tier, Kernel), "Linux", xunix.ErrNotSupported}
}

// RunKeeper is not supported here.
func RunKeeper() error { return xunix.ErrNotSupported }

// Tier returns 0 here.
func (r *Responder) Tier() Tier { return 0 }

// Passed returns nothing here.
func (r *Responder) Passed() []error { return nil }

// Addr returns no address here.
func (r *Responder) Addr() netip.AddrPort { return netip.AddrPort{} }

// Tick does nothing here.
func (r *Responder) Tick() {}

// Add is not supported here.
func (r *Responder) Add(int) error { return xunix.ErrNotSupported }

// Remove does nothing here.
func (r *Responder) Remove(int) {}

// IsFenced returns false here.
func (r *Responder) IsFenced() bool { return false }

// Owns returns false here.
func (r *Responder) Owns(int) bool { return false }

// Close does nothing here.
func (r *Responder) Close() error { return nil }
