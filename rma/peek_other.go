//go:build !amd64 || race

package rma

import "sync/atomic"

// peek reads the word with an atomic load.
func peek(word *uint32) uint32 { return atomic.LoadUint32(word) }
