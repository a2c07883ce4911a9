package mpi

import (
	"fmt"
	"reflect"
	"sync/atomic"
	"unsafe"
)

// good has element types that were found good, each at a place that its address gives,
// so that a call compares one word.
var good [64]atomic.Uintptr

// checkType reports whether T may be an element: pointer-free, because addresses mean
// nothing in another process, and of some size.
func checkType[T any](op string) error {
	var of any = (*T)(nil)
	word := *(*uintptr)(unsafe.Pointer(&of)) // which names the type
	place := &good[word>>5%uintptr(len(good))]
	if place.Load() == word {
		return nil
	}
	if why := unsuitable(reflect.TypeFor[T]()); why != "" {
		return usage(op, ErrElementType, "element type %v %s, want a type of numbers, arrays and structs of them", reflect.TypeFor[T](), why)
	}
	place.Store(word)
	return nil
}

func unsuitable(t reflect.Type) string {
	if t.Size() == 0 {
		return "has no size"
	}
	if where := pointerIn(t); where != "" {
		return "holds a pointer (" + where + ")"
	}
	return ""
}

// pointerIn returns where in t a pointer is, or nothing.
func pointerIn(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Array:
		if t.Len() == 0 {
			return ""
		}
		return pointerIn(t.Elem())
	case reflect.Struct:
		for f := range t.Fields() {
			if where := pointerIn(f.Type); where != "" {
				return fmt.Sprintf("field %s: %s", f.Name, where)
			}
		}
		return ""
	case reflect.Pointer, reflect.UnsafePointer, reflect.Map, reflect.Chan, reflect.Func,
		reflect.Interface, reflect.Slice, reflect.String:
		return t.String()
	default:
		return ""
	}
}
