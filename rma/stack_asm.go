//go:build amd64 || arm64

package rma

import "unsafe"

// OffStack returns p, or nil if p points into the stack of the calling goroutine.
//
// The compiler does not see that the result is p. So what p points to does not escape to Go's heap, and stays on the
// stack if it may. There it must not be kept beyond the call, because stacks move; the caller keeps the result alone.
//
//go:noescape
func OffStack(p unsafe.Pointer) unsafe.Pointer
