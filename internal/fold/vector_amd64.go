//go:build !race

package fold

import "unsafe"

// The processor adds 32 bytes at a time, where a loop of Go adds one element: of 4,096 float64 in its first cache, that takes a third of the time.
// A program under the race detector has the loop, whose accesses the detector sees.

const (
	vectorRound = 128      // bytes that the functions in assembly take in a round
	vectorMost  = 64 << 10 // bytes of a call: it cannot be preempted
)

var vectors = hasAVX2()

// hasAVX2 reports whether processor and kernel support AVX2.
func hasAVX2() bool

//go:noescape
func addFloat64(acc, in *float64, n int)

//go:noescape
func addFloat32(acc, in *float32, n int)

//go:noescape
func addInt64(acc, in *int64, n int)

//go:noescape
func addInt32(acc, in *int32, n int)

// The numbers that an element is of.
const (
	ofOthers = iota
	ofFloat64
	ofFloat32
	ofInt64 // or without a sign
	ofInt32 // or without a sign
)

// sumVectors adds the first elements of in to those of acc, and returns how many: none, unless the processor can and the type is a predefined
// one.
func sumVectors[T Number](acc, in []T) int {
	size := int(unsafe.Sizeof(*new(T)))
	bytes := len(acc) * size
	if !vectors {
		return 0
	}
	a, b := unsafe.Pointer(unsafe.SliceData(acc)), unsafe.Pointer(unsafe.SliceData(in))
	if d := uintptr(a) - uintptr(b); d != 0 && (d < vectorRound || -d < vectorRound) {
		return 0 // the loop's elements depend on each other
	}
	numbers := numbersOf[T]()
	if numbers == ofOthers {
		return 0
	}
	bytes -= bytes % vectorRound
	for at := 0; at < bytes; at += vectorMost {
		x, y, n := unsafe.Add(a, at), unsafe.Add(b, at), min(vectorMost, bytes-at)
		switch numbers {
		case ofFloat64:
			addFloat64((*float64)(x), (*float64)(y), n/8)
		case ofFloat32:
			addFloat32((*float32)(x), (*float32)(y), n/4)
		case ofInt64:
			addInt64((*int64)(x), (*int64)(y), n/8)
		default:
			addInt32((*int32)(x), (*int32)(y), n/4)
		}
	}
	return bytes / size
}

// numbersOf returns what numbers an element of a predefined type is of.
func numbersOf[T Number]() int {
	switch any(*new(T)).(type) {
	case float64, complex128:
		return ofFloat64
	case float32, complex64:
		return ofFloat32
	case int64, uint64, int, uint, uintptr:
		return ofInt64
	case int32, uint32:
		return ofInt32
	default:
		return ofOthers
	}
}
