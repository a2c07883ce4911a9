//go:build !linux

package xunix

import "os"

// StartTime is not supported here.
func StartTime(int) (uint64, error) { return 0, ErrNotSupported }

// Lock is not supported here.
func Lock(*os.File) error { return ErrNotSupported }

// OwnedBySelf is not supported here.
func OwnedBySelf(*os.File) (bool, error) { return false, ErrNotSupported }

// Dup is not supported here.
func Dup(*os.File) (*os.File, error) { return nil, ErrNotSupported }
