//go:build !amd64

package rma

import "unsafe"

// Ahead does nothing on this processor.
func Ahead(unsafe.Pointer) {}
