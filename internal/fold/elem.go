package fold

import (
	"fmt"
	"reflect"
	"unsafe"
)

// Elem is a type of elements that predefined operators fold, as one process tells another. Types of a program are what they are
// made of: time.Duration is Int64.
type Elem uint8

// The types of elements.
const (
	NoElem Elem = iota // no such type
	Int8
	Int16
	Int32
	Int64
	Uint8
	Uint16
	Uint32
	Uint64
	Float32
	Float64
	Complex64
	Complex128
	Bool
)

var elems = [...]struct {
	name string
	size int
}{
	NoElem: {"no type", 0},
	Int8:   {"int8", 1}, Int16: {"int16", 2}, Int32: {"int32", 4}, Int64: {"int64", 8},
	Uint8: {"uint8", 1}, Uint16: {"uint16", 2}, Uint32: {"uint32", 4}, Uint64: {"uint64", 8},
	Float32: {"float32", 4}, Float64: {"float64", 8}, Complex64: {"complex64", 8}, Complex128: {"complex128", 16},
	Bool: {"bool", 1},
}

// String names the type.
func (e Elem) String() string {
	if int(e) < len(elems) {
		return elems[e].name
	}
	return fmt.Sprintf("type %d", uint8(e))
}

// Size returns the bytes of an element, 0 if there is no such type.
func (e Elem) Size() int {
	if int(e) < len(elems) {
		return elems[e].size
	}
	return 0
}

// ElemOf returns the type of elements that T is, or NoElem.
func ElemOf[T any]() Elem {
	var x T
	switch kind := reflect.TypeFor[T]().Kind(); kind {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return bySize(Int8, unsafe.Sizeof(x))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return bySize(Uint8, unsafe.Sizeof(x))
	case reflect.Float32:
		return Float32
	case reflect.Float64:
		return Float64
	case reflect.Complex64:
		return Complex64
	case reflect.Complex128:
		return Complex128
	case reflect.Bool:
		return Bool
	}
	return NoElem
}

// bySize returns the integer type of a size. least is the one of one byte.
func bySize(least Elem, size uintptr) Elem {
	for ; size > 1; size >>= 1 {
		least++
	}
	return least
}

// Has reports whether operators of a kind fold elements of the type.
func (e Elem) Has(k Kind) bool {
	switch e {
	case Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64:
		return k >= KindSum && k <= KindXor
	case Float32, Float64:
		return k >= KindSum && k <= KindMax
	case Complex64, Complex128:
		return k == KindSum || k == KindProd
	case Bool:
		return k >= KindAnd && k <= KindXor
	}
	return false
}

// Bytes combines each element of acc with that of in, which has as many, by the predefined operator of a kind. The bytes are
// elements of a type that has the operator, in the order of this machine's memory, at any address.
func Bytes(k Kind, e Elem, acc, in []byte) {
	switch in = in[:len(acc)]; e {
	case Int8:
		integers[int8](k, acc, in)
	case Int16:
		integers[int16](k, acc, in)
	case Int32:
		integers[int32](k, acc, in)
	case Int64:
		integers[int64](k, acc, in)
	case Uint8:
		integers[uint8](k, acc, in)
	case Uint16:
		integers[uint16](k, acc, in)
	case Uint32:
		integers[uint32](k, acc, in)
	case Uint64:
		integers[uint64](k, acc, in)
	case Float32:
		ordered[float32](k, acc, in)
	case Float64:
		ordered[float64](k, acc, in)
	case Complex64:
		complexes[complex64](k, acc, in)
	case Complex128:
		complexes[complex128](k, acc, in)
	case Bool:
		bits[bool](k, acc, in)
	}
}

func integers[T interface {
	Ordered
	Bits
}](k Kind, acc, in []byte) {
	if k <= KindMax {
		ordered[T](k, acc, in)
		return
	}
	bits[T](k, acc, in)
}

func ordered[T Ordered](k Kind, acc, in []byte) {
	switch k {
	case KindSum:
		apply(Sum[T], acc, in)
	case KindProd:
		apply(Prod[T], acc, in)
	case KindMin:
		apply(Min[T], acc, in)
	case KindMax:
		apply(Max[T], acc, in)
	}
}

func bits[T Bits](k Kind, acc, in []byte) {
	switch k {
	case KindAnd:
		apply(And[T], acc, in)
	case KindOr:
		apply(Or[T], acc, in)
	case KindXor:
		apply(Xor[T], acc, in)
	}
}

func complexes[T Number](k Kind, acc, in []byte) {
	switch k {
	case KindSum:
		apply(Sum[T], acc, in)
	case KindProd:
		apply(Prod[T], acc, in)
	}
}

// apply calls a loop on bytes as elements. What is not aligned as elements are goes through memory that is.
func apply[T any](loop func(acc, in []T), acc, in []byte) {
	if !isAligned[T](in) {
		in = aligned(in)
	}
	if isAligned[T](acc) {
		loop(elements[T](acc), elements[T](in))
		return
	}
	room := aligned(acc)
	loop(elements[T](room), elements[T](in))
	copy(acc, room)
}

func isAligned[T any](b []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%unsafe.Alignof(*new(T)) == 0
}

// aligned returns a copy of b that is aligned as any element is.
func aligned(b []byte) []byte {
	words := make([]uint64, (len(b)+7)/8)
	room := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(b))
	copy(room, b)
	return room
}

// elements returns bytes as elements.
func elements[T any](b []byte) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b))/unsafe.Sizeof(*new(T)))
}
