package mpi

import "unsafe"

// Pack appends the bytes of elements to dst, and returns the longer slice: several pieces of different types go in one message of bytes.
//
//   - Shape: the bytes are those in memory. All nodes of a job have the same order of bytes.
//   - Errors: ErrElementType.
//   - Concurrent calls: allowed.
//   - Source: MPI_Pack.
func Pack[T any](dst []byte, src []T) ([]byte, error) {
	if err := checkType[T]("Pack"); err != nil {
		return dst, err
	}
	s := spanOf(src)
	if s.bytes == 0 {
		return dst, nil
	}
	return append(dst, unsafe.Slice((*byte)(s.at), s.bytes)...), nil
}

// Unpack copies the first bytes of src to the elements of dst, and returns the bytes behind them.
//
//   - Errors: ErrElementType; ErrTruncated if src has fewer bytes than dst. Then dst has what fits, in whole elements.
//   - Concurrent calls: allowed.
//   - Source: MPI_Unpack.
func Unpack[T any](src []byte, dst []T) (rest []byte, err error) {
	const op = "Unpack"
	if err := checkType[T](op); err != nil {
		return src, err
	}
	d := spanOf(dst)
	n := min(d.bytes, len(src)/d.elem*d.elem)
	if n > 0 {
		copyBytes(d.at, unsafe.Pointer(&src[0]), n)
	}
	if n < d.bytes {
		return src[n:], usage(op, ErrTruncated, "%d bytes for %d elements of %d bytes, want at least %d", len(src), len(dst), d.elem, d.bytes)
	}
	return src[n:], nil
}

// PackSize returns how many bytes Pack appends for n elements.
//
//   - Source: MPI_Pack_size.
func PackSize[T any](n int) int { return n * elemSize[T]() }
