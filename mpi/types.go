package mpi

import (
	"reflect"
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/symheap"
)

// checkedTypes has element types that were found checkedTypes, each at a place that its address gives,
// so that a call compares one word.
var checkedTypes [64]uintptr

// checkType reports whether T may be an element: pointer-free, because addresses mean
// nothing in another process, and of some size.
func checkType[T any](op string) error {
	var of any = (*T)(nil)
	word := *(*uintptr)(unsafe.Pointer(&of)) // which names the type
	place := &checkedTypes[word>>5%uintptr(len(checkedTypes))]
	if atomic.LoadUintptr(place) == word {
		return nil
	}
	if why := symheap.Unsuitable(reflect.TypeFor[T]()); why != "" {
		return usage(op, ErrElementType, "element type %v %s, want a type of numbers, arrays and structs of them", reflect.TypeFor[T](), why)
	}
	atomic.StoreUintptr(place, word)
	return nil
}
