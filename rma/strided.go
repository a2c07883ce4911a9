package rma

import "unsafe"

// fewPerBlock is the size of a block from which on memmove is faster than copying element by element.
const fewPerBlock = 4

// Scatter copies n blocks of block elements from src to dst. Blocks begin srcStep elements apart in src, and
// dstStep elements apart in dst.
//
//   - Arguments: block is at least 1, both steps are at least block, src holds all blocks, and src and dst
//     do not overlap.
func Scatter[T any](dst unsafe.Pointer, src []T, dstStep, srcStep, block, n int) {
	strided[T](dst, unsafe.Pointer(unsafe.SliceData(src)), dstStep, srcStep, block, n)
}

// Gather is Scatter in the other direction: it copies n blocks from the remote src to the local dst.
func Gather[T any](dst []T, src unsafe.Pointer, dstStep, srcStep, block, n int) {
	strided[T](unsafe.Pointer(unsafe.SliceData(dst)), src, dstStep, srcStep, block, n)
}

// CopyStrided is Scatter and Gather for callers that know only the size of an element in bytes.
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

// strided copies blocks. It advances offsets rather than pointers: a pointer that is advanced past the last
// element could point into another object of the Go heap.
func strided[T any](dst, src unsafe.Pointer, dstStep, srcStep, block, n int) {
	size := int(unsafe.Sizeof(*new(T)))
	if dstStep == block && srcStep == block && block*n != 1 { // all of it is one block
		move(dst, src, uintptr(n*block*size))
		return
	}
	bytes := block * size
	dstBytes, srcBytes := dstStep*size, srcStep*size // outside of the loops, because the compiler does not hoist them
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
