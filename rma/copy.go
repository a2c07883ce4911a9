package rma

import "unsafe"

// Go's memmove turns to non-temporal stores at 1 MiB, except to a destination
// aligned to 16 bytes on a processor with fast string instructions. They send
// to memory what would have stayed in the cache for whoever reads it next, and
// are slower by a third and more as long as the data fit there. So what is not
// Few is for Move, which copies in pieces.
const (
	bulkMin = 1 << 20
	bulkMax = 8 << 20        // from here on few caches hold it all
	piece   = bulkMin - 4096 // pages, so that all pieces are as aligned as the first
)

// Few says whether elements are so few that Copy and CopyOut are for them.
func Few[T any](elements []T) bool {
	return uintptr(len(elements)) < bulkMin/max(unsafe.Sizeof(*new(T)), 1)
}

// CopyElements copies n elements of size bytes, however much it is. It is for callers that do not
// know the type; what it promises of each element is what Copy does.
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

// Copy writes src to dst, in line. A single element is one store, which memmove
// does not promise for two bytes.
func Copy[T any](dst unsafe.Pointer, src []T) {
	if len(src) == 1 {
		One[T](dst, unsafe.Pointer(&src[0]))
		return
	}
	copy(unsafe.Slice((*T)(dst), len(src)), src)
}

// CopyOut reads len(dst) elements from src, in line.
func CopyOut[T any](dst []T, src unsafe.Pointer) {
	if len(dst) == 1 {
		One[T](unsafe.Pointer(&dst[0]), src)
		return
	}
	copy(dst, unsafe.Slice((*T)(src), len(dst)))
}

// Move writes src to dst, however much it is.
func Move[T any](dst unsafe.Pointer, src []T) {
	move(dst, unsafe.Pointer(unsafe.SliceData(src)), uintptr(len(src))*unsafe.Sizeof(*new(T)))
}

// MoveOut reads len(dst) elements from src, however much it is.
func MoveOut[T any](dst []T, src unsafe.Pointer) {
	move(unsafe.Pointer(unsafe.SliceData(dst)), src, uintptr(len(dst))*unsafe.Sizeof(*new(T)))
}

// move copies n bytes, which may overlap.
func move(dst, src unsafe.Pointer, n uintptr) {
	d, s := unsafe.Slice((*byte)(dst), n), unsafe.Slice((*byte)(src), n)
	behind := uintptr(dst)-uintptr(src) < n // and so copied from the end
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
