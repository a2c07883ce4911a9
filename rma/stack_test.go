package rma

import (
	"runtime"
	"testing"
	"unsafe"
)

var kept *[64]byte

// OffStack finds local variables wherever the stack is, and lets them stay there.
func TestOffStack(t *testing.T) {
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("OffStack takes everything for a stack on " + runtime.GOARCH)
	}
	kept = new([64]byte)
	var deep func(n int) bool
	deep = func(n int) bool {
		var local [256]byte
		at := unsafe.Pointer(&local[n%256])
		if OffStack(at) != nil || OffStack(unsafe.Pointer(kept)) != unsafe.Pointer(kept) || OffStack(unsafe.Pointer(&kept)) != unsafe.Pointer(&kept) {
			return false
		}
		return n == 0 || deep(n-1) && OffStack(at) == nil // the stack has moved since at was taken
	}
	results := make(chan bool)
	go func() { results <- deep(10_000) }()
	if !<-results || !deep(10) || OffStack(nil) != nil {
		t.Error("OffStack takes a local variable for one of the heap, or the other way round")
	}
	if n := testing.AllocsPerRun(100, func() {
		var local [64]byte
		if OffStack(unsafe.Pointer(&local)) != nil {
			kept = nil
		}
	}); n != 0 || kept == nil {
		t.Errorf("a local variable is allocated %v times, want none", n)
	}
}
