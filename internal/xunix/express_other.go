//go:build !linux

package xunix

import "time"

// BlockFor needs Linux.
func BlockFor(int, time.Duration) error { return ErrNotSupported }

// ReceiveBlocking needs Linux.
func ReceiveBlocking(int, []byte) (int, error) { return 0, ErrNotSupported }

// ReceiveSoon needs Linux.
func ReceiveSoon(int, []byte) (int, error) { return 0, ErrNotSupported }

// SendSocket needs Linux.
func SendSocket(int, []byte) error { return ErrNotSupported }

// ReceiveAtOnce needs Linux.
func ReceiveAtOnce(int, []byte) (int, error) { return 0, ErrNotSupported }

// SendPacketFD needs Linux.
func SendPacketFD(int, []byte, ...int) error { return ErrNotSupported }

// RecvPacketFD needs Linux.
func RecvPacketFD(int, []byte) (n, fd int, err error) { return 0, -1, ErrNotSupported }
