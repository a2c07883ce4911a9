package rma

import (
	"sync/atomic"
	"unsafe"
)

// Word is a type with atomic instructions: four or eight bytes.
type Word interface {
	~int | ~int32 | ~int64 | ~uint | ~uint32 | ~uint64 | ~uintptr | ~float32 | ~float64
}

// Integer is a Word that can be added to.
type Integer interface {
	~int | ~int32 | ~int64 | ~uint | ~uint32 | ~uint64 | ~uintptr
}

// The compiler knows the size of T when it instantiates a function. So each function below becomes one
// instruction, or one loop, per type.

func bits32[T Word](v T) uint32 { return *(*uint32)(unsafe.Pointer(&v)) }
func bits64[T Word](v T) uint64 { return *(*uint64)(unsafe.Pointer(&v)) }
func from32[T Word](b uint32) T { return *(*T)(unsafe.Pointer(&b)) }
func from64[T Word](b uint64) T { return *(*T)(unsafe.Pointer(&b)) }

// Bits returns the bytes of a word, in the low bits.
func Bits[T Word](v T) uint64 {
	if unsafe.Sizeof(v) == 4 {
		return uint64(bits32(v))
	}
	return bits64(v)
}

// FromBits returns the word with the bytes that are in the low bits of b.
func FromBits[T Word](b uint64) (v T) {
	if unsafe.Sizeof(v) == 4 {
		return from32[T](uint32(b))
	}
	return from64[T](b)
}

// AtomicLoad reads the word with acquire order.
func AtomicLoad[T Word](p unsafe.Pointer) (v T) {
	if unsafe.Sizeof(v) == 4 {
		return from32[T](atomic.LoadUint32((*uint32)(p)))
	}
	return from64[T](atomic.LoadUint64((*uint64)(p)))
}

// AtomicStore writes the word, sequentially consistent.
func AtomicStore[T Word](p unsafe.Pointer, v T) {
	if unsafe.Sizeof(v) == 4 {
		atomic.StoreUint32((*uint32)(p), bits32(v))
		return
	}
	atomic.StoreUint64((*uint64)(p), bits64(v))
}

// AtomicSwap writes the word and returns what it held.
func AtomicSwap[T Word](p unsafe.Pointer, v T) T {
	if unsafe.Sizeof(v) == 4 {
		return from32[T](atomic.SwapUint32((*uint32)(p), bits32(v)))
	}
	return from64[T](atomic.SwapUint64((*uint64)(p), bits64(v)))
}

// AtomicCompareSwap writes v if the word holds cond and returns what it held.
func AtomicCompareSwap[T Integer](p unsafe.Pointer, cond, v T) T {
	if unsafe.Sizeof(v) == 4 {
		w := (*uint32)(p)
		for {
			if atomic.CompareAndSwapUint32(w, uint32(cond), uint32(v)) {
				return cond
			}
			// The word did not hold cond at the swap. If it does not hold cond now either, this value is a
			// valid answer: the operation then took place at this load. Otherwise try again.
			if old := atomic.LoadUint32(w); old != uint32(cond) {
				return T(old)
			}
		}
	}
	w := (*uint64)(p)
	for {
		if atomic.CompareAndSwapUint64(w, uint64(cond), uint64(v)) {
			return cond
		}
		if old := atomic.LoadUint64(w); old != uint64(cond) {
			return T(old)
		}
	}
}

// AtomicAdd adds v and returns what the word held before.
func AtomicAdd[T Integer](p unsafe.Pointer, v T) T {
	if unsafe.Sizeof(v) == 4 {
		return T(atomic.AddUint32((*uint32)(p), uint32(v)) - uint32(v))
	}
	return T(atomic.AddUint64((*uint64)(p), uint64(v)) - uint64(v))
}

// AtomicAnd ands v into the word and returns what it held before.
func AtomicAnd[T Integer](p unsafe.Pointer, v T) T {
	if unsafe.Sizeof(v) == 4 {
		return T(atomic.AndUint32((*uint32)(p), uint32(v)))
	}
	return T(atomic.AndUint64((*uint64)(p), uint64(v)))
}

// AtomicOr ors v into the word and returns what it held before.
func AtomicOr[T Integer](p unsafe.Pointer, v T) T {
	if unsafe.Sizeof(v) == 4 {
		return T(atomic.OrUint32((*uint32)(p), uint32(v)))
	}
	return T(atomic.OrUint64((*uint64)(p), uint64(v)))
}

// AtomicXor xors v into the word and returns what it held before. It is a compare-and-swap loop, because no
// instruction returns the old value.
func AtomicXor[T Integer](p unsafe.Pointer, v T) T {
	if unsafe.Sizeof(v) == 4 {
		w := (*uint32)(p)
		for {
			old := atomic.LoadUint32(w)
			if atomic.CompareAndSwapUint32(w, old, old^uint32(v)) {
				return T(old)
			}
		}
	}
	w := (*uint64)(p)
	for {
		old := atomic.LoadUint64(w)
		if atomic.CompareAndSwapUint64(w, old, old^uint64(v)) {
			return T(old)
		}
	}
}
