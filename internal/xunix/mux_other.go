//go:build !linux

package xunix

import "os"

// Mux is not supported here.
type Mux struct{}

// NewMux is not supported here.
func NewMux() (*Mux, error) { return nil, ErrNotSupported }

// Pair is not supported here.
func (*Mux) Pair() (uint64, *os.File, error) { return 0, nil, ErrNotSupported }

// Wait is not supported here.
func (*Mux) Wait() ([]uint64, error) { return nil, ErrNotSupported }

// Wake does nothing here.
func (*Mux) Wake() {}

// Read is not supported here.
func (*Mux) Read(uint64, []byte) (int, error) { return 0, ErrNotSupported }

// Write is not supported here.
func (*Mux) Write(uint64, string) error { return ErrNotSupported }

// HangUp does nothing here.
func (*Mux) HangUp(uint64) {}

// Drop does nothing here.
func (*Mux) Drop(uint64) {}

// Close does nothing here.
func (*Mux) Close() error { return nil }
