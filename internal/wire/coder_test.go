package wire

import (
	"bytes"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// level is a type of the kind that users of a coder have.
type level int8

// everything has a field of each type that a coder knows.
type everything struct {
	I    int
	I8   level
	I16  int16
	I32  int32
	I64  int64
	U    uint
	U8   uint8
	U16  uint16
	U32  uint32
	U64  uint64
	Yes  bool
	Text string
	Raw  []byte
	List []string
	Nest [][]uint64
}

func codeEverything(c *Coder, v *everything) {
	Integer(c, &v.I)
	Integer(c, &v.I8)
	Integer(c, &v.I16)
	Integer(c, &v.I32)
	Integer(c, &v.I64)
	Integer(c, &v.U)
	Integer(c, &v.U8)
	Integer(c, &v.U16)
	Integer(c, &v.U32)
	Integer(c, &v.U64)
	c.Bool(&v.Yes)
	c.String(&v.Text)
	c.Bytes(&v.Raw)
	List(c, &v.List, (*Coder).String)
	List(c, &v.Nest, func(c *Coder, e *[]uint64) { List(c, e, Integer) })
}

func encodeEverything(v everything) []byte { return Encode(func(c *Coder) { codeEverything(c, &v) }) }

func decodeEverything(b []byte) (v everything, err error) {
	err = Decode(b, "message", func(c *Coder) { codeEverything(c, &v) })
	return v, err
}

// What is encoded comes back, extremes and empty lists as they were.
func TestCoderRoundTrip(t *testing.T) {
	for _, v := range []everything{
		{},
		{I: math.MaxInt, I8: 127, I16: math.MaxInt16, I32: math.MaxInt32, I64: math.MaxInt64, U: math.MaxUint, U8: 255, U16: math.MaxUint16, U32: math.MaxUint32, U64: math.MaxUint64},
		{I: math.MinInt, I8: -128, I16: math.MinInt16, I32: math.MinInt32, I64: math.MinInt64},
		{Yes: true, Text: "text", Raw: []byte{0, 1}, List: []string{}, Nest: [][]uint64{nil, {}, {1, 2, 3}}},
		{Text: strings.Repeat("x", 1000), List: []string{"a", "", "c"}},
	} {
		got, err := decodeEverything(encodeEverything(v))
		if err != nil || !reflect.DeepEqual(got, v) {
			t.Errorf("%+v came back as %+v, %v", v, got, err)
		}
	}
}

// Bytes that nobody encodes are refused, and decoded as the zero value from there on.
func TestCoderRefuses(t *testing.T) {
	for _, x := range []struct {
		name string
		body []byte
		code func(c *Coder)
		want string
	}{
		{"nothing", nil, func(c *Coder) { Integer(c, new(int)) }, "message of 0 bytes: it ends in the middle of a value"},
		{"half an integer", []byte{0x80}, func(c *Coder) { Integer(c, new(int)) }, "it ends in the middle"},
		{"a long integer", []byte{0x81, 0}, func(c *Coder) { Integer(c, new(int)) }, "not in its shortest form"},
		{"65 bits", bytes.Repeat([]byte{0xff}, 11), func(c *Coder) { Integer(c, new(uint64)) }, "more than 64 bits"},
		{"a large integer", []byte{0x80, 2}, func(c *Coder) { Integer(c, new(uint8)) }, "integer 256 does not fit into uint8"},
		{"a low integer", []byte{0x81, 2}, func(c *Coder) { Integer(c, new(level)) }, "integer -129 does not fit into wire.level"},
		{"a third truth value", []byte{2}, func(c *Coder) { c.Bool(new(bool)) }, "truth value 2, want 0 or 1"},
		{"no truth value", nil, func(c *Coder) { c.Bool(new(bool)) }, "it ends in the middle"},
		{"a short string", []byte{2, 'a'}, func(c *Coder) { c.String(new(string)) }, "2 bytes or elements are announced, and 1 bytes are left"},
		{"short bytes", []byte{9, 'a'}, func(c *Coder) { c.Bytes(new([]byte)) }, "9 bytes or elements are announced"},
		{"a short list", []byte{4, 1, 1}, func(c *Coder) { List(c, new([]int), Integer) }, "3 bytes or elements are announced, and 2 bytes are left"},
		{"a bad element", []byte{3, 1, 0x80}, func(c *Coder) { List(c, new([]int), Integer) }, "it ends in the middle"},
		{"too much", []byte{1, 2}, func(c *Coder) { c.Bool(new(bool)) }, "message of 2 bytes: 1 bytes are left over"},
	} {
		if err := Decode(x.body, "message", x.code); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: error %v, want one with %q", x.name, err, x.want)
		}
	}
	n, yes, text, list := 1, true, "text", []int{1}
	err := Decode(nil, "message", func(c *Coder) {
		Integer(c, &n)
		c.Bool(&yes)
		c.String(&text)
		List(c, &list, Integer)
	})
	if err == nil || n != 0 || yes || text != "" || list != nil {
		t.Errorf("after error %v: %d, %t, %q, %v, want zero values", err, n, yes, text, list)
	}
}

// A body cannot make a decoder allocate what the body does not have.
func TestCoderAllocates(t *testing.T) {
	body := append([]byte{0xff, 0xff, 0xff, 0xff, 7}, make([]byte, 100)...) // a list of 2^31 elements
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := Decode(body, "message", func(c *Coder) { List(c, new([][64]uint64), func(*Coder, *[64]uint64) {}) })
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; err == nil || n > 64<<10 {
		t.Errorf("%d bytes are allocated for a body of %d, error %v", n, len(body), err)
	}
}

func FuzzCoder(f *testing.F) {
	f.Add(encodeEverything(everything{}))
	f.Add(encodeEverything(everything{I: -1, U64: 1 << 40, Yes: true, Text: "text", Raw: []byte("raw"), List: []string{"a", "b"}, Nest: [][]uint64{{1}, nil}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, err := decodeEverything(b); err == nil && !bytes.Equal(encodeEverything(v), b) {
			t.Errorf("%x does not come back", b)
		}
	})
}
