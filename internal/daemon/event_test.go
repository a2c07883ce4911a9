package daemon

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"reflect"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
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

// testPlain sends a full value of a type through an encoding and compares what comes.
func testPlain[T any](t *testing.T) {
	t.Helper()
	typ := reflect.TypeFor[T]()
	for _, fault := range checkPlain(typ, typ.Name()) {
		t.Error(fault)
	}
	var sent, came T
	testenv.Fill(reflect.ValueOf(&sent).Elem())
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

// So can news of other nodes.
func TestFarFailureIsPlain(t *testing.T) { testPlain[FarFailure](t) }

// So can answers to orders.
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
