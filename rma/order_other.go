//go:build !amd64 && !arm64

package rma

import "sync/atomic"

var order uint32

// Fence orders this thread's earlier stores before its later ones.
func Fence() { atomic.AddUint32(&order, 0) }

// Drain stores 1 to the word and waits until that and this thread's earlier stores are visible to every processor.
func Drain(word *uint64) { atomic.SwapUint64(word, 1) }
