//go:build race

package shmem

import "sync/atomic"

// peek reads a word of the table of tags, which another goroutine may write.
func peek(word *uint64) uint64 { return atomic.LoadUint64(word) }
