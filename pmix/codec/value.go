package codec

import (
	"fmt"
	"math"
	"strconv"
)

// Value is a value of any PMIx type.
//
// The Go type of Data follows from Type: bool, byte, string, float32, float64 and the sized integers for their
// namesakes; uint64 for size, time and device type; uint32 for pid, uint and info directives; int32 for int; Status,
// Scope, Range, Rank, DataType, Proc, Info, KVal, PData, App, Query, ProcInfo, Timeval, Envar, Coord, RegAttr,
// Endpoint, DeviceDistance, Value and Array for theirs; []byte for byte objects, compressed ones and data buffers;
// uint8 for states, persistence, commands, allocation directives and pointers; uint16 for I/O channels and localities;
// string for nspace; nil for undef.
type Value struct {
	Type DataType
	Data any
}

// BoolValue returns a value of type bool.
func BoolValue(v bool) Value { return Value{TypeBool, v} }

// StringValue returns a value of type string.
func StringValue(v string) Value { return Value{TypeString, v} }

// IntValue returns a value of type int.
func IntValue(v int32) Value { return Value{TypeInt, v} }

// Uint16Value returns a value of type uint16.
func Uint16Value(v uint16) Value { return Value{TypeUint16, v} }

// Uint32Value returns a value of type uint32.
func Uint32Value(v uint32) Value { return Value{TypeUint32, v} }

// Uint64Value returns a value of type uint64.
func Uint64Value(v uint64) Value { return Value{TypeUint64, v} }

// RankValue returns a value of type proc rank.
func RankValue(v Rank) Value { return Value{TypeProcRank, v} }

// ProcValue returns a value of type proc.
func ProcValue(v Proc) Value { return Value{TypeProc, v} }

// BytesValue returns a value of type byte object; v is not copied.
func BytesValue(v []byte) Value { return Value{TypeByteObject, v} }

// InfosValue returns an array of infos.
func InfosValue(infos ...Info) Value {
	elems := make([]any, len(infos))
	for i, info := range infos {
		elems[i] = info
	}
	return Value{TypeDataArray, Array{Type: TypeInfo, Elems: elems}}
}

// Bool returns a value of type bool.
func (v Value) Bool() (b, ok bool) {
	b, ok = v.Data.(bool)
	return b, ok
}

// Str returns a value of type string or nspace.
func (v Value) Str() (s string, ok bool) {
	s, ok = v.Data.(string)
	return s, ok
}

// Bytes returns a value held as bytes, without copying it.
func (v Value) Bytes() (b []byte, ok bool) {
	b, ok = v.Data.([]byte)
	return b, ok
}

// Uint64 returns a value of any integer type that is not negative.
func (v Value) Uint64() (u uint64, ok bool) {
	switch x := v.Data.(type) {
	case uint8:
		return uint64(x), true
	case uint16:
		return uint64(x), true
	case uint32:
		return uint64(x), true
	case uint64:
		return x, true
	case Rank:
		return uint64(x), true
	case int8:
		return uint64(x), x >= 0
	case int16:
		return uint64(x), x >= 0
	case int32:
		return uint64(x), x >= 0
	case int64:
		return uint64(x), x >= 0
	default:
		return 0, false
	}
}

// Infos returns the elements of an array of infos.
func (v Value) Infos() (infos []Info, ok bool) {
	a, ok := v.Data.(Array)
	if !ok || a.Type != TypeInfo {
		return nil, false
	}
	for _, elem := range a.Elems {
		info, ok := elem.(Info)
		if !ok {
			return nil, false
		}
		infos = append(infos, info)
	}
	return infos, true
}

// String prints the value for messages and logs.
func (v Value) String() string {
	if b, ok := v.Data.([]byte); ok {
		return fmt.Sprintf("%d bytes", len(b))
	}
	return fmt.Sprint(v.Data)
}

func packArray(e *Encoder, a Array) {
	e.Uint(uint64(a.Type))
	e.Uint(uint64(len(a.Elems)))
	if a.Type == TypeUndef && len(a.Elems) > 0 {
		e.fail("array: %d elements of type 0, want a type", len(a.Elems))
		return
	}
	for _, v := range a.Elems {
		packData(e, a.Type, v)
	}
}

func unpackArray(d *Decoder) Array {
	start := d.off
	a := Array{Type: unpackDataType(d)}
	n := checkCount(d, d.Uint(), "array elements")
	if a.Type == TypeUndef && n > 0 {
		d.fail(start, "array: %d elements of type 0, want a type", n)
	}
	a.Elems = unpackRepeated(d, n, func(d *Decoder) any { return unpackData(d, a.Type) })
	return a
}

// packFloat packs the decimal form of v: bfrops sends floating point numbers as strings. libpmix prints six decimals,
// which loses small numbers. packFloat prints the shortest exact digits, which libpmix reads.
func packFloat(e *Encoder, v float64, bits int) { e.String(strconv.FormatFloat(v, 'g', -1, bits)) }

func unpackFloat(d *Decoder, bits int) float64 {
	start := d.off
	s := d.string(512, "floating point number")
	if d.err != nil {
		return 0
	}
	if s == "-nan" { // C prints the sign of a NaN
		return math.NaN()
	}
	v, err := strconv.ParseFloat(s, bits)
	if err != nil && !math.IsInf(v, 0) {
		d.fail(start, "floating point number: %q, want decimal digits", s)
		return 0
	}
	return v
}
