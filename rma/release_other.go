//go:build !amd64 || race

package rma

import "sync/atomic"

// StoreRelease stores v with release order: a thread that reads v with an atomic load also sees what this
// thread stored before. On arm64 an atomic store is a STLR, which is a release store. The race detector
// needs an atomic store to see the order.
func StoreRelease(word *uint64, v uint64) { atomic.StoreUint64(word, v) }

// StoreRelease32 is StoreRelease for a word of 4 bytes.
func StoreRelease32(word *uint32, v uint32) { atomic.StoreUint32(word, v) }
