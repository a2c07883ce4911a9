package codec

import (
	"bytes"
	"fmt"
	"math"
)

// maxDepth bounds how deep values may nest in arrays and arrays in values.
const maxDepth = 32

// SyntaxError reports bytes that are not a valid packed value.
type SyntaxError struct {
	Offset int    // where in the buffer the value starts
	What   string // the kind of value, what was found, what was wanted
}

// Error describes the fault.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("pmix codec: offset %d: %s", e.Offset, e.What)
}

// Decoder reads packed values from a buffer.
// After the first fault, which Err returns, every read returns the zero value. Byte objects alias the buffer.
type Decoder struct {
	buf   []byte
	off   int       // number of bytes read
	depth int       // nesting of the value that is being read
	err   error     // the first fault
	seen  stringSet // nil: strings are not shared
}

// NewDecoder returns a decoder that reads buf.
func NewDecoder(buf []byte) *Decoder { return &Decoder{buf: buf} }

// Err returns the first fault, a *SyntaxError.
func (d *Decoder) Err() error { return d.err }

// Rest returns the number of bytes not yet read.
func (d *Decoder) Rest() int { return len(d.buf) - d.off }

// Offset returns the number of bytes read.
func (d *Decoder) Offset() int { return d.off }

// More reports whether bytes are left to read and there was no fault so far.
func (d *Decoder) More() bool { return d.err == nil && d.Rest() > 0 }

// End returns the first fault, or an error when bytes are left over.
func (d *Decoder) End() error {
	if d.err == nil && d.Rest() > 0 {
		d.fail(d.off, "message: %d bytes left over, want none", d.Rest())
	}
	return d.err
}

// fail records the first fault and skips the rest of the buffer.
func (d *Decoder) fail(at int, format string, args ...any) {
	if d.err == nil {
		d.err = &SyntaxError{Offset: at, What: fmt.Sprintf(format, args...)}
	}
	d.off = len(d.buf)
}

// next reads n bytes.
func (d *Decoder) next(n uint64, what string) []byte {
	if d.err != nil {
		return nil
	}
	if n > uint64(d.Rest()) {
		d.fail(d.off, "%s: length %d, want at most the %d bytes that follow", what, n, d.Rest())
		return nil
	}
	v := d.buf[d.off : d.off+int(n) : d.off+int(n)]
	d.off += int(n)
	return v
}

// Uint reads an unsigned integer of up to 64 bits.
func (d *Decoder) Uint() uint64 { return d.uint(math.MaxUint64, "integer") }

// uint reads an unsigned integer of up to limit.
func (d *Decoder) uint(limit uint64, what string) uint64 {
	if d.err != nil {
		return 0
	}
	start := d.off
	var v uint64
	for i := 0; ; i++ {
		if d.off >= len(d.buf) {
			d.fail(start, "%s: cut off after %d bytes", what, i)
			return 0
		}
		c := d.buf[d.off]
		d.off++
		if i == 8 {
			v |= uint64(c) << 56
			break
		}
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			break
		}
	}
	if v > limit {
		d.fail(start, "%s: value %d, want at most %d", what, v, limit)
		return 0
	}
	return v
}

// Int reads a signed integer of up to 64 bits.
func (d *Decoder) Int() int64 { return d.int(64, "integer") }

// int reads a signed integer of a number of bits.
func (d *Decoder) int(bits int, what string) int64 {
	start := d.off
	u := d.Uint()
	v := int64(u>>1) ^ -int64(u&1)
	if s := 64 - bits; v<<s>>s != v {
		d.fail(start, "%s: value %d, want %d bits", what, v, bits)
		return 0
	}
	return v
}

// Count reads the count that starts a group and checks that it is want.
func (d *Decoder) Count(want int, what string) {
	start := d.off
	if n := d.int(32, what); d.err == nil && n != int64(want) {
		d.fail(start, "%s: group of %d, want %d", what, n, want)
	}
}

// Byte reads one byte.
func (d *Decoder) Byte() byte {
	v := d.next(1, "byte")
	if len(v) == 0 {
		return 0
	}
	return v[0]
}

// Bool reads a truth value.
func (d *Decoder) Bool() bool {
	start := d.off
	v := d.Byte()
	if v > 1 {
		d.fail(start, "bool: value %d, want 0 or 1", v)
	}
	return v == 1
}

// Str reads a string; a null string reads as an empty one.
func (d *Decoder) Str() string { return d.string(math.MaxInt32, "string") }

// string reads a string of up to limit bytes.
func (d *Decoder) string(limit int, what string) string {
	start := d.off
	n := d.int(32, what)
	if d.err != nil || n == 0 {
		return ""
	}
	if n < 0 || n-1 > int64(limit) {
		d.fail(start, "%s: length %d, want at most %d and the closing NUL", what, n, limit)
		return ""
	}
	v := d.next(uint64(n), what)
	if d.err != nil {
		return ""
	}
	if i := bytes.IndexByte(v, 0); i != len(v)-1 {
		d.fail(start, "%s: %q, want one NUL, at the end", what, clip(v))
		return ""
	}
	return d.seen.intern(v[:len(v)-1])
}

// clip returns the start of v for an error message.
func clip(v []byte) []byte { return v[:min(len(v), 64)] }

// ByteObject reads a size and that many bytes, which alias the buffer.
func (d *Decoder) ByteObject() []byte { return d.next(d.Uint(), "byte object") }

// Rank reads a rank.
func (d *Decoder) Rank() Rank { return Rank(d.uint(math.MaxUint32, "rank")) }

// Status reads a status code.
func (d *Decoder) Status() Status { return Status(d.int(32, "status")) }

// Proc reads a process name.
func (d *Decoder) Proc() Proc {
	return Proc{Nspace: d.string(MaxNspaceLen, "nspace"), Rank: d.Rank()}
}

// Info reads a key, its flags and its value.
func (d *Decoder) Info() Info {
	return Info{Key: unpackKey(d), Flags: uint32(d.uint(math.MaxUint32, "info flags")), Value: d.Value()}
}

// KValGroup reads a group of one key and value.
func (d *Decoder) KValGroup() KVal {
	d.Count(1, "key-value")
	return unpackKVal(d)
}

// Procs reads a count group and the group of processes that follows a count above zero.
func (d *Decoder) Procs() []Proc {
	return unpackGroup(d, "procs", (*Decoder).Proc)
}

// Infos reads a count group and the group of infos that follows a count above zero.
func (d *Decoder) Infos() []Info {
	return unpackGroup(d, "infos", (*Decoder).Info)
}

// Value reads a type number and a value of that type.
func (d *Decoder) Value() Value {
	t := unpackDataType(d)
	if d.err != nil {
		return Value{}
	}
	v := unpackData(d, t)
	if d.err != nil {
		return Value{}
	}
	return Value{Type: t, Data: v}
}
