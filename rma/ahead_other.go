//go:build !amd64

package rma

import "unsafe"

// Ahead asks for the cache line at p, which is to be written soon, where that pays.
func Ahead(unsafe.Pointer) {}
