//go:build !linux

package xunix

// Sender is the address that a datagram came from.
type Sender struct{}

// ReceiveDatagram needs Linux.
func ReceiveDatagram(int, []byte, *Sender) (int, error) { return 0, ErrNotSupported }

// SendDatagram needs Linux.
func SendDatagram(int, []byte, *Sender) error { return ErrNotSupported }

// GoRealTime needs Linux.
func GoRealTime(uint32) error { return ErrNotSupported }

// LockMemory needs Linux.
func LockMemory() error { return ErrNotSupported }
