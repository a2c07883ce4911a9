package rma

import "unsafe"

// fewPerBlock is how many elements of a block are better copied one by one than by
// a call of memmove for them.
const fewPerBlock = 4

// Scatter writes n blocks of src, srcStep elements apart, to dst, dstStep elements
// apart. Steps are at least block, which is at least 1, and src has what is asked of
// it; the two do not overlap.
func Scatter[T any](dst unsafe.Pointer, src []T, dstStep, srcStep, block, n int) {
	strided[T](dst, unsafe.Pointer(unsafe.SliceData(src)), dstStep, srcStep, block, n)
}

// Gather reads n blocks from src, srcStep elements apart, to dst, dstStep elements
// apart, as Scatter writes them.
func Gather[T any](dst []T, src unsafe.Pointer, dstStep, srcStep, block, n int) {
	strided[T](unsafe.Pointer(unsafe.SliceData(dst)), src, dstStep, srcStep, block, n)
}

// CopyStrided is Scatter and Gather for callers that do not know the type of the elements, which
// are of size bytes.
func CopyStrided(dst, src unsafe.Pointer, size uintptr, dstStep, srcStep, block, n int) {
	switch size {
	case 8:
		strided[uint64](dst, src, dstStep, srcStep, block, n)
	case 4:
		strided[uint32](dst, src, dstStep, srcStep, block, n)
	case 2:
		strided[uint16](dst, src, dstStep, srcStep, block, n)
	default: // blocks of bytes
		bytes := int(size)
		strided[byte](dst, src, dstStep*bytes, srcStep*bytes, block*bytes, n)
	}
}

// strided counts in offsets, not pointers: one that was moved on behind the last
// element would point to another object of the Go heap.
func strided[T any](dst, src unsafe.Pointer, dstStep, srcStep, block, n int) {
	size := int(unsafe.Sizeof(*new(T)))
	if dstStep == block && srcStep == block && block*n != 1 { // all of it is one block
		move(dst, src, uintptr(n*block*size))
		return
	}
	bytes := block * size
	dstBytes, srcBytes := dstStep*size, srcStep*size // in no loop: the compiler leaves them there
	d, s := 0, 0
	switch {
	case block == 1:
		for range n {
			One[T](unsafe.Add(dst, d), unsafe.Add(src, s))
			d += dstBytes
			s += srcBytes
		}
	case block < fewPerBlock:
		for range n {
			for k := 0; k < bytes; k += size {
				One[T](unsafe.Add(dst, d+k), unsafe.Add(src, s+k))
			}
			d += dstBytes
			s += srcBytes
		}
	default:
		for range n {
			move(unsafe.Add(dst, d), unsafe.Add(src, s), uintptr(bytes))
			d += dstBytes
			s += srcBytes
		}
	}
}
