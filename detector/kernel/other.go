//go:build !linux

package kernel

import "github.com/goshmem/goshmem/internal/xunix"

// Watch reports deaths, stops and hangs of processes.
type Watch struct{}

// Open is not supported here.
func Open(cfg Config) (*Watch, error) {
	return nil, &TierError{max(cfg.Tier, BPF), "Linux", xunix.ErrNotSupported}
}

// Tier returns 0 here.
func (w *Watch) Tier() Tier { return 0 }

// Passed returns nothing here.
func (w *Watch) Passed() []error { return nil }

// Add is not supported here.
func (w *Watch) Add(int, uint64) error { return xunix.ErrNotSupported }

// Remove does nothing here.
func (w *Watch) Remove(int) {}

// Close does nothing here.
func (w *Watch) Close() error { return nil }
