package symheap

import (
	"fmt"
	"reflect"
)

// Unsuitable returns why elements of type t cannot lie in memory that processes share, or be
// copied between them as bytes; empty if they can. A pointer is valid in one process only.
func Unsuitable(t reflect.Type) string {
	if t.Size() == 0 {
		return "has no size"
	}
	if where := pointerIn(t); where != "" {
		return "holds a pointer (" + where + ")"
	}
	return ""
}

// pointerIn returns where t holds a pointer, empty if it holds none.
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
