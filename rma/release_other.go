//go:build !amd64 || race

package rma

import "sync/atomic"

// StoreRelease writes the word; what this thread stored before is visible to
// whoever sees it with an atomic load. (On arm64 every atomic store is a STLR; the
// race detector wants to be told.)
func StoreRelease(word *uint64, v uint64) { atomic.StoreUint64(word, v) }
