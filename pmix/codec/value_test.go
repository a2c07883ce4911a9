package codec

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

type vector struct {
	name string
	typ  DataType
	body []byte
}

// loadVectors reads values that libpmix 4.2.2 packed.
func loadVectors(t testing.TB) []vector {
	t.Helper()
	text, err := os.ReadFile("testdata/values.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out []vector
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 3 || f[0] == "#" {
			continue
		}
		n, err := strconv.Atoi(f[1])
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, vector{f[0], DataType(n), unhex(t, f[2])})
	}
	return out
}

// Floating-point numbers are encoded as decimal strings. libpmix prints six decimals; this package prints all
// significant ones.
func isFloat(v any) bool {
	switch x := v.(type) {
	case float32, float64:
		return true
	case Value:
		return isFloat(x.Data)
	default:
		return false
	}
}

func TestValuesOfLibpmix(t *testing.T) {
	vectors := loadVectors(t)
	if len(vectors) < 50 {
		t.Fatalf("%d vectors, want at least 50", len(vectors))
	}
	for _, v := range vectors {
		t.Run(v.name, func(t *testing.T) {
			d := NewDecoder(v.body)
			n := d.int(32, "count")
			var values []any
			for range n {
				values = append(values, unpackData(d, v.typ))
			}
			if err := d.End(); err != nil {
				t.Fatal(err)
			}
			e := NewEncoder(nil)
			e.Count(len(values))
			for _, x := range values {
				packData(e, v.typ, x)
			}
			if e.Err() != nil {
				t.Fatal(e.Err())
			}
			if !isFloat(values[0]) {
				sameBytes(t, e.Bytes(), v.body)
			}
		})
	}
}

func TestValueDataOfLibpmix(t *testing.T) {
	want := map[string]any{
		"string": "hello", "size": uint64(1) << 63, "pid": uint32(70000), "int": int32(-5), "int8": int8(-5),
		"int16": int16(-300), "int32": int32(-70000), "int64": int64(-1) << 62, "int64-min": int64(math.MinInt64),
		"uint": uint32(5), "uint8": uint8(200), "uint16": uint16(300), "uint32": uint32(math.MaxUint32),
		"uint64": uint64(math.MaxUint64), "float": float32(1.5), "double": -2.25, "timeval": Timeval{7, 8},
		"time": uint64(9), "status": StatusErrNotFound, "proc": Proc{"ns", 3}, "rank": Rank(4), "bo": []byte("abc"),
		"info":      Info{"k", InfoRequired, Uint32Value(7)},
		"array-u32": Array{TypeUint32, []any{uint32(1), uint32(2), uint32(300)}},
		"procinfo":  ProcInfo{Proc{"ns", 1}, "h", "x", 77, 5},
		"pdata":     PData{Proc{"ns", 1}, "k", StringValue("x")},
		"app": App{
			Cmd: "c", Argv: []string{"a0", "a1"}, Env: []string{"E=1"}, Cwd: "/w", MaxProcs: 2,
			Info: []Info{{"k", InfoRequired, Uint32Value(7)}},
		},
		"query":    Query{[]string{"k1", "k2"}, []Info{{"k", InfoRequired, Uint32Value(7)}}},
		"envar":    Envar{"N", "V", ':'},
		"coord":    Coord{1, []uint32{3, 4}},
		"regattr":  RegAttr{"n", "s", TypeString, []string{"d"}},
		"endpoint": Endpoint{"u", "o", []byte("ab")},
		"devdist":  DeviceDistance{"u", "o", 4, 1, 2},
	}
	for _, v := range loadVectors(t) {
		w, ok := want[v.name]
		if !ok {
			continue
		}
		delete(want, v.name)
		d := NewDecoder(v.body)
		d.Count(1, "value")
		if diff := cmp.Diff(w, unpackData(d, v.typ)); diff != "" || d.End() != nil {
			t.Errorf("%s: %v (-want +got):\n%s", v.name, d.Err(), diff)
		}
	}
	if len(want) > 0 {
		t.Errorf("no vector for %v", want)
	}
}

func TestIntegersRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u, i := rapid.Uint64().Draw(t, "u"), rapid.Int64().Draw(t, "i")
		e := NewEncoder(nil)
		e.Uint(u)
		e.Int(i)
		d := NewDecoder(e.Bytes())
		if gu, gi := d.Uint(), d.Int(); gu != u || gi != i || d.End() != nil {
			t.Fatalf("read %d and %d, %v; want %d and %d", gu, gi, d.Err(), u, i)
		}
	})
}

func TestFloatsRoundTrip(t *testing.T) {
	for _, f := range []float64{0, 1e-300, math.MaxFloat64, math.SmallestNonzeroFloat64, math.Inf(1), math.Inf(-1), math.Pi} {
		e := NewEncoder(nil)
		e.Value(Value{TypeDouble, f})
		d := NewDecoder(e.Bytes())
		if v := d.Value(); v.Data != f || d.End() != nil {
			t.Errorf("%g decodes to %v, %v", f, v.Data, d.Err())
		}
	}
}

func TestSyntaxErrors(t *testing.T) {
	for name, c := range map[string]struct {
		hex  string
		want string
	}{
		"empty":            {"", "cut off after 0 bytes"},
		"integer cut off":  {"0effff", "cut off after 2 bytes"},
		"uint32 too large": {"0effffffff7f", "want at most 4294967295"},
		"int16 too large":  {"08fefffff00f", "want 16 bits"},
		"bool of 2":        {"0102", "want 0 or 1"},
		"string unclosed":  {"03046162", "want one NUL, at the end"},
		"NUL inside":       {"0306610000", "want one NUL, at the end"},
		"negative length":  {"0301", "length -1"},
		"long string":      {"03fe01", "want at most the 0 bytes that follow"},
		"long bytes":       {"1bffffffffffffffff7f00", "want at most the"},
		"huge array":       {"270effffffffffffffff1000", "array elements: 1224979098644774911 announced"},
		"untyped array":    {"27000101", "of type 0, want a type"},
		"unknown type":     {"1d00", "want a known type"},
		"pid of a string":  {"0503", "sent as type 3"},
		"bad float":        {"10067a7a00", "want decimal digits"},
		"left over":        {"010100", "1 bytes left over"},
		"negative vector":  {"290100", "number of keys: -1"},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := hex.DecodeString(c.hex)
			if err != nil {
				t.Fatal(err)
			}
			d := NewDecoder(b)
			d.Value()
			err = d.End()
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %q, want a SyntaxError with %q", err, c.want)
			}
			if d.More() || d.Uint() != 0 || d.Byte() != 0 || d.ByteObject() != nil {
				t.Error("a read after an error returns data")
			}
		})
	}
}

func TestNestingIsBounded(t *testing.T) {
	deep := bytes.Repeat([]byte{byte(TypeDataArray), 1}, 1000)
	d := NewDecoder(append([]byte{byte(TypeDataArray)}, deep...))
	d.Value()
	if err := d.Err(); err == nil || !strings.Contains(err.Error(), "nested more than 32 deep") {
		t.Errorf("error %v, want nested too deep", err)
	}
}

func TestCountsDoNotAllocate(t *testing.T) {
	bomb := unhex(t, "270effffffffffffffff1000") // an array of 2^60 integers in 12 bytes
	allocated := testing.AllocsPerRun(100, func() {
		d := NewDecoder(bomb)
		d.Value()
	})
	if allocated > 8 {
		t.Errorf("%.0f allocations for a refused count, want at most 8", allocated)
	}
}

func TestEncoderRefusesWrongGoType(t *testing.T) {
	for _, v := range []Value{
		{TypeUint32, "x"},
		{TypeUndef, 1},
		{TypeDataArray, 3},
		{DataType(31), nil},
		{TypeDataArray, Array{TypeUndef, []any{nil}}},
		InfosValue(Info{Key: "k", Value: Value{TypeBool, 1}}),
	} {
		e := NewEncoder(nil)
		e.Value(v)
		if e.Err() == nil {
			t.Errorf("%+v was packed, want an error", v)
		}
	}
}

func TestValueAccessors(t *testing.T) {
	for _, v := range []Value{
		Uint16Value(7), Uint32Value(7), Uint64Value(7), IntValue(7), RankValue(7),
		{TypeByte, byte(7)},
		{TypeInt8, int8(7)},
		{TypeInt16, int16(7)},
		{TypeInt64, int64(7)},
	} {
		if u, ok := v.Uint64(); !ok || u != 7 {
			t.Errorf("%+v: %d, %v; want 7", v, u, ok)
		}
	}
	if _, ok := IntValue(-1).Uint64(); ok {
		t.Error("-1 read as an unsigned integer")
	}
	if b, ok := BoolValue(true).Bool(); !b || !ok {
		t.Error("true does not decode to true")
	}
	if _, ok := StringValue("x").Bytes(); ok {
		t.Error("a string read as bytes")
	}
	infos, ok := InfosValue(Info{Key: "k", Value: BoolValue(true)}).Infos()
	if !ok || len(infos) != 1 || infos[0].Key != "k" {
		t.Errorf("infos %v, %v", infos, ok)
	}
}
