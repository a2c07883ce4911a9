package rma

import "unsafe"

// Ahead asks for the cache line at p, which is to be written soon, and waits for nothing. A
// processor without the instruction takes it for one that does nothing.
//
//go:noescape
func Ahead(p unsafe.Pointer)
