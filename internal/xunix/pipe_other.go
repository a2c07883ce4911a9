//go:build !linux

package xunix

import (
	"os"
	"syscall"
)

// Unread is not supported here.
func Unread(syscall.RawConn) (int, error) { return 0, ErrNotSupported }

// HungUp is not supported here.
func HungUp(syscall.RawConn) bool { return false }

// Read is not supported here.
func Read(uintptr, []byte) (int, error) { return 0, ErrNotSupported }

// WaitReadable returns at once here: the read that follows blocks.
func WaitReadable(uintptr) error { return nil }

// Unnamed is not supported here.
func Unnamed(string) (*os.File, error) { return nil, ErrNotSupported }

// Punch does nothing here.
func Punch(*os.File, int64, int64) error { return nil }

// OpenPTY is not supported here.
func OpenPTY() (person, terminal *os.File, err error) { return nil, nil, ErrNotSupported }

// OpenOutputPTY is not supported here.
func OpenOutputPTY() (read, terminal *os.File, err error) { return nil, nil, ErrNotSupported }

// WindowOf is not supported here.
func WindowOf(*os.File) (Window, error) { return Window{}, ErrNotSupported }

// SetWindow is not supported here.
func SetWindow(*os.File, Window) error { return ErrNotSupported }

// TerminalModes is not supported here.
func TerminalModes(*os.File) (string, error) { return "", ErrNotSupported }
