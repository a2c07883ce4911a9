package rma

import "unsafe"

// Ahead prefetches the cache line at p for a write that follows soon. It does not wait. A processor without
// the instruction (PREFETCHW) executes it as a no-op.
//
//go:noescape
func Ahead(p unsafe.Pointer)
