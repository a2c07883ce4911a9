package rma

import (
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"
)

// Atomics return the old value and wrap around, in both widths.
func TestAtomics(t *testing.T) {
	testAtomics[int32](t)
	testAtomics[uint32](t)
	testAtomics[int64](t)
	testAtomics[uint64](t)
	x := 1.5
	if old := AtomicSwap(unsafe.Pointer(&x), 2.5); old != 1.5 || AtomicLoad[float64](unsafe.Pointer(&x)) != 2.5 {
		t.Errorf("swap of a float gave %v and left %v", old, x)
	}
	y := float32(1)
	AtomicStore(unsafe.Pointer(&y), float32(-3))
	if y != -3 {
		t.Errorf("set of a float left %v", y)
	}
}

func testAtomics[T int32 | uint32 | int64 | uint64](t *testing.T) {
	t.Helper()
	x := T(12)
	p := unsafe.Pointer(&x)
	for _, step := range []struct {
		name      string
		do        func() T
		old, left T
	}{
		{"add", func() T { return AtomicAdd(p, T(3)) }, 12, 15},
		{"and", func() T { return AtomicAnd(p, T(6)) }, 15, 6},
		{"or", func() T { return AtomicOr(p, T(9)) }, 6, 15},
		{"xor", func() T { return AtomicXor(p, T(5)) }, 15, 10},
		{"cas that fails", func() T { return AtomicCompareSwap(p, T(9), T(1)) }, 10, 10},
		{"cas", func() T { return AtomicCompareSwap(p, T(10), T(1)) }, 10, 1},
		{"sub", func() T { return AtomicAdd(p, ^T(0)) }, 1, 0},
		{"wrap", func() T { return AtomicAdd(p, ^T(0)) }, 0, ^T(0)},
		{"swap", func() T { return AtomicSwap(p, T(4)) }, ^T(0), 4},
	} {
		if got := step.do(); got != step.old || x != step.left {
			t.Errorf("%T %s: returned %d and left %d, want %d and %d", x, step.name, got, x, step.old, step.left)
		}
	}
}

// Elements of 1 to 8 bytes are moved by one store, so a concurrent reader never sees a mixture.
func TestSingleStore(t *testing.T) {
	p := mapShared(t)
	stop := make(chan struct{})
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				v := uint16(0)
				if i%2 == 0 {
					v = 0xffff
				}
				if i%4 < 2 {
					Copy(p, []uint16{v})
				} else {
					CopyElements(p, unsafe.Pointer(&v), 2, 1)
				}
			}
		}
	}()
	for range 2_000_000 {
		if v := uint16(atomic.LoadUint32((*uint32)(p))); v != 0 && v != 0xffff {
			t.Fatalf("torn read of a put of two bytes: %#x", v)
		}
	}
	close(stop)
}

// A word holds a value's bytes in its low bits, and FromBits returns the value.
func TestBits(t *testing.T) {
	if b := Bits(int32(-2)); b != 0xfffffffe || FromBits[int32](b) != -2 {
		t.Errorf("the word of int32 -2 is %#x, which reads as %d", b, FromBits[int32](b))
	}
	if b := Bits(float32(-1.5)); b != 0xbfc00000 || FromBits[float32](b) != -1.5 {
		t.Errorf("the word of float32 -1.5 is %#x, which reads as %g", b, FromBits[float32](b))
	}
	if b := Bits(-1.5); FromBits[float64](b) != -1.5 {
		t.Errorf("the word of float64 -1.5 is %#x, which reads as %g", b, FromBits[float64](b))
	}
}

// mapShared returns a page of shared memory. Plain accesses to it race by design, and the race
// detector does not look there.
func mapShared(t *testing.T) unsafe.Pointer {
	t.Helper()
	page, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	return unsafe.Pointer(&page[0])
}
