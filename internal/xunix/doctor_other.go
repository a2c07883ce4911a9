//go:build !linux

package xunix

// TryFutex is not supported here.
func TryFutex() error { return ErrNotSupported }

// TrySubreaper is not supported here.
func TrySubreaper() error { return ErrNotSupported }

// TryBPF is not supported here.
func TryBPF() error { return ErrNotSupported }

// TryNamespaces is not supported here.
func TryNamespaces(bool) error { return ErrNotSupported }

// OpenFileLimit is not supported here.
func OpenFileLimit() (uint64, error) { return 0, ErrNotSupported }
