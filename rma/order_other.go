//go:build !amd64 && !arm64

package rma

import "sync/atomic"

var order uint32

// Fence orders this thread's earlier stores before its later ones.
func Fence() { atomic.AddUint32(&order, 0) }

// Drain waits until this thread's earlier stores are visible to every processor.
func Drain(word *uint32) { atomic.OrUint32(word, 0) }
