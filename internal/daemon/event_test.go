package daemon

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"reflect"
	"testing"
)

// checkPlain returns what keeps a type from being sent to another process: pointers, channels, functions, interfaces, and
// fields that encoding packages skip.
func checkPlain(typ reflect.Type, path string) (faults []string) {
	switch typ.Kind() {
	case reflect.Pointer, reflect.UnsafePointer, reflect.Chan, reflect.Func, reflect.Interface, reflect.Uintptr:
		return []string{fmt.Sprintf("%s is a %v", path, typ)}
	case reflect.Slice, reflect.Array:
		return checkPlain(typ.Elem(), path+"[]")
	case reflect.Map:
		return append(checkPlain(typ.Key(), path+" key"), checkPlain(typ.Elem(), path+"[]")...)
	case reflect.Struct:
		for field := range typ.Fields() {
			if !field.IsExported() {
				faults = append(faults, fmt.Sprintf("%s.%s is not exported", path, field.Name))
			}
			faults = append(faults, checkPlain(field.Type, path+"."+field.Name)...)
		}
	}
	return faults
}

// fill sets every part of a value to something other than zero, and slices to two elements.
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
			v.SetInt(int64(*n % 100))
		} else {
			v.SetUint(uint64(*n % 100))
		}
	}
}

// testPlain sends a full value of a type through an encoding and compares the result.
func testPlain[T any](t *testing.T) {
	t.Helper()
	typ := reflect.TypeFor[T]()
	for _, fault := range checkPlain(typ, typ.Name()) {
		t.Error(fault)
	}
	var sent, came T
	fill(reflect.ValueOf(&sent).Elem(), new(int))
	var wire bytes.Buffer
	if err := gob.NewEncoder(&wire).Encode(&sent); err != nil {
		t.Fatal(err)
	}
	if err := gob.NewDecoder(&wire).Decode(&came); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(came, sent) {
		t.Errorf("received %+v, want %+v", came, sent)
	}
}

// Events can be sent to another process.
func TestEventIsPlain(t *testing.T) { testPlain[Event](t) }

// A step's configuration can be sent to another process.
func TestConfigIsPlain(t *testing.T) {
	testPlain[Config](t)
	testPlain[Chunk](t)
	testPlain[Credit](t)
}

// Answers to orders can be sent to another process.
func TestAnswerIsPlain(t *testing.T) { testPlain[Answer](t) }

// checkPlain finds types that cannot be sent.
func TestCheckPlain(t *testing.T) {
	type bad struct {
		A struct{ B []chan int }
		C map[string]func()
		D *int
		E any
		f int
	}
	want := 5
	if faults := checkPlain(reflect.TypeFor[bad](), "bad"); len(faults) != want {
		t.Errorf("faults %q, want %d", faults, want)
	}
	_ = bad{}.f
}
