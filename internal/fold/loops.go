package fold

import "unsafe"

// Ordered has the elements that Min and Max fold.
type Ordered interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr | ~float32 | ~float64
}

// Number has the elements that Sum and Prod fold.
type Number interface {
	Ordered | ~complex64 | ~complex128
}

// Bits has the elements that And, Or and Xor fold.
type Bits interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr | ~bool
}

// vectorLeast is the number of elements from which on the functions in assembly are faster than a loop.
const vectorLeast = 64

// Sum adds to each element of acc that of in, which has as many.
//
// Its loop takes four elements in each round: how fast a shorter loop is depends on where the
// linker puts it, by a third.
func Sum[T Number](acc, in []T) {
	in = in[:len(acc)]
	if len(acc) >= vectorLeast {
		n := sumVectors(acc, in)
		acc, in = acc[n:], in[n:]
	}
	for len(acc) >= 4 && len(in) >= 4 {
		a, b := acc[:4], in[:4]
		a[0] += b[0]
		a[1] += b[1]
		a[2] += b[2]
		a[3] += b[3]
		acc, in = acc[4:], in[4:]
	}
	for i := range acc {
		acc[i] += in[i]
	}
}

// Prod multiplies each element of acc by that of in, which has as many.
func Prod[T Number](acc, in []T) {
	in = in[:len(acc)]
	for i := range acc {
		acc[i] *= in[i]
	}
}

// Min lets each element of acc be the smaller one of it and that of in, which has as many. A NaN
// on either side gives NaN.
func Min[T Ordered](acc, in []T) {
	in = in[:len(acc)]
	for i := range acc {
		acc[i] = min(acc[i], in[i])
	}
}

// Max lets each element of acc be the larger one of it and that of in, which has as many. A NaN
// on either side gives NaN.
func Max[T Ordered](acc, in []T) {
	in = in[:len(acc)]
	for i := range acc {
		acc[i] = max(acc[i], in[i])
	}
}

// word has the types that And, Or and Xor work on. An integer and a word of its size have the same
// bits. So have a bool and a byte, 0 or 1, and what is made of two such bytes bit by bit is the
// byte of the logical result.
type word interface {
	uint8 | uint16 | uint32 | uint64
}

// words returns the memory of x as words, which are as large as a T.
func words[W word, T Bits](x []T) []W {
	return unsafe.Slice((*W)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

// And combines each element of acc with that of in, which has as many, by bitwise and. Bools are
// combined by logical and.
func And[T Bits](acc, in []T) {
	switch unsafe.Sizeof(*new(T)) {
	case 1:
		and(words[uint8](acc), words[uint8](in))
	case 2:
		and(words[uint16](acc), words[uint16](in))
	case 4:
		and(words[uint32](acc), words[uint32](in))
	default:
		and(words[uint64](acc), words[uint64](in))
	}
}

func and[W word](acc, in []W) {
	in = in[:len(acc)]
	for i := range acc {
		acc[i] &= in[i]
	}
}

// Or combines each element of acc with that of in, which has as many, by bitwise or. Bools are
// combined by logical or.
func Or[T Bits](acc, in []T) {
	switch unsafe.Sizeof(*new(T)) {
	case 1:
		or(words[uint8](acc), words[uint8](in))
	case 2:
		or(words[uint16](acc), words[uint16](in))
	case 4:
		or(words[uint32](acc), words[uint32](in))
	default:
		or(words[uint64](acc), words[uint64](in))
	}
}

func or[W word](acc, in []W) {
	in = in[:len(acc)]
	for i := range acc {
		acc[i] |= in[i]
	}
}

// Xor combines each element of acc with that of in, which has as many, by bitwise exclusive or.
// Bools are combined by logical exclusive or: whether they differ.
func Xor[T Bits](acc, in []T) {
	switch unsafe.Sizeof(*new(T)) {
	case 1:
		xor(words[uint8](acc), words[uint8](in))
	case 2:
		xor(words[uint16](acc), words[uint16](in))
	case 4:
		xor(words[uint32](acc), words[uint32](in))
	default:
		xor(words[uint64](acc), words[uint64](in))
	}
}

func xor[W word](acc, in []W) {
	in = in[:len(acc)]
	for i := range acc {
		acc[i] ^= in[i]
	}
}
