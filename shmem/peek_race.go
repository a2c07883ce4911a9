//go:build race

package shmem

import "sync/atomic"

// peekTag reads an entry of a tag table, which another goroutine may write at the same time.
func peekTag(word *uint64) uint64 { return atomic.LoadUint64(word) }
