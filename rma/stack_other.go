//go:build !amd64 && !arm64

package rma

import "unsafe"

// OffStack returns nil: on this processor every pointer may point into a stack.
func OffStack(unsafe.Pointer) unsafe.Pointer { return nil }
