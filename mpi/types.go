package mpi

import (
	"reflect"
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/symheap"
)

// checkedTypes caches element types that are suitable, each at a place that follows from its address. A
// call with such a type compares one word.
var checkedTypes [64]uintptr

// checkType returns an error unless T can be an element type. It must have no pointers, because addresses
// mean nothing in another process, and it must have a size.
func checkType[T any](op string) error {
	var of any = (*T)(nil)
	word := *(*uintptr)(unsafe.Pointer(&of)) // the address of the type
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
