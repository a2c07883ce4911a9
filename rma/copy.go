package rma

import "unsafe"

// Go's memmove uses non-temporal stores from 1 MiB on, except to a destination aligned to 16 bytes on a
// processor with fast string instructions. Non-temporal stores write to memory and bypass the cache, from
// which the target would read the data next. They are slower by a third or more while the data fit in the
// cache. So Move copies sizes from bulkMin to bulkMax in pieces below 1 MiB.
const (
	bulkMin = 1 << 20
	bulkMax = 8 << 20        // few caches hold more
	piece   = bulkMin - 4096 // whole pages, so that all pieces are aligned like the first one
)

// Few says whether the elements are few enough (below 1 MiB) for Copy and CopyOut; otherwise use Move and
// MoveOut.
func Few[T any](elements []T) bool {
	return uintptr(len(elements)) < bulkMin/max(unsafe.Sizeof(*new(T)), 1)
}

// CopyElements copies n elements of size bytes, in any amount. It serves callers that do not know the type.
// Like Copy, it writes a single element by one store.
func CopyElements(dst, src unsafe.Pointer, size uintptr, n int) {
	if n == 1 {
		copyElement(dst, src, size)
		return
	}
	move(dst, src, uintptr(n)*size)
}

// copyElement is One for callers that do not know the type.
func copyElement(dst, src unsafe.Pointer, size uintptr) {
	switch size {
	case 8:
		One[uint64](dst, src)
	case 4:
		One[uint32](dst, src)
	case 2:
		One[uint16](dst, src)
	default:
		move(dst, src, size)
	}
}

// Copy writes src to dst, in line. It writes a single element by one store; memmove does not guarantee that
// for two bytes. The length of the array is one that Few never lets pass: a slice by unsafe.Slice would cost a
// multiplication and two tests of what it gives.
func Copy[T any](dst unsafe.Pointer, src []T) {
	if len(src) == 1 {
		One[T](dst, unsafe.Pointer(&src[0]))
		return
	}
	copy((*[bulkMin]T)(dst)[:len(src)], src)
}

// CopyOut reads len(dst) elements from src, in line.
func CopyOut[T any](dst []T, src unsafe.Pointer) {
	if len(dst) == 1 {
		One[T](unsafe.Pointer(&dst[0]), src)
		return
	}
	copy(dst, (*[bulkMin]T)(src)[:len(dst)])
}

// Move writes src to dst, in any amount.
func Move[T any](dst unsafe.Pointer, src []T) {
	move(dst, unsafe.Pointer(unsafe.SliceData(src)), uintptr(len(src))*unsafe.Sizeof(*new(T)))
}

// MoveOut reads len(dst) elements from src, in any amount.
func MoveOut[T any](dst []T, src unsafe.Pointer) {
	move(unsafe.Pointer(unsafe.SliceData(dst)), src, uintptr(len(dst))*unsafe.Sizeof(*new(T)))
}

// move copies n bytes, which may overlap. It copies in pieces, the first of which ends at a destination that
// is aligned to 16 bytes. A destination that overlaps the end of the source must be copied backwards, which
// pieces in rising order would break; it goes to memmove as a whole.
func move(dst, src unsafe.Pointer, n uintptr) {
	d, s := unsafe.Slice((*byte)(dst), n), unsafe.Slice((*byte)(src), n)
	behind := uintptr(dst)-uintptr(src) < n // dst overlaps the end of src: copied backwards
	if n < bulkMin || n >= bulkMax || behind {
		copy(d, s)
		return
	}
	head := -uintptr(dst) % 16
	copy(d[:head], s)
	for at := head; at < n; at += piece {
		copy(d[at:min(at+piece, n)], s[at:])
	}
}
