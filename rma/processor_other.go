//go:build !linux || !amd64

package rma

// Processor returns 0: there is no cheap way to ask here.
func Processor() uint32 { return 0 }
