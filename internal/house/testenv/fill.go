package testenv

import (
	"fmt"
	"reflect"
)

// Fill gives every part of a value one that is not zero, and slices two elements. So a field that
// an encoding leaves out is noticed.
func Fill(v reflect.Value) { fill(v, new(int)) }

// fill counts the parts in n.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field, n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64, reflect.Float32:
		v.SetFloat(float64(*n))
	default:
		if v.CanInt() {
			v.SetInt(int64(1 + *n%100))
		} else {
			v.SetUint(uint64(1 + *n%100))
		}
	}
}
