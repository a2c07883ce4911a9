package codec

import (
	"fmt"
	"math"
)

// Encoder appends packed values to a buffer.
// The zero value is ready for use. Err returns the first fault, a value that cannot be packed; what follows it is not
// meaningful.
type Encoder struct {
	buf []byte
	err error
}

// NewEncoder returns an encoder that appends to buf.
func NewEncoder(buf []byte) *Encoder { return &Encoder{buf: buf} }

// Bytes returns everything packed so far; the result is valid until the next call.
func (e *Encoder) Bytes() []byte { return e.buf }

// Err returns the first error: a value whose Go type does not match its type number.
func (e *Encoder) Err() error { return e.err }

func (e *Encoder) fail(format string, args ...any) {
	if e.err == nil {
		e.err = fmt.Errorf("pmix codec: pack "+format, args...)
	}
}

// Uint packs an unsigned integer wider than a byte.
func (e *Encoder) Uint(v uint64) {
	for i := 0; i < 8 && v >= 0x80; i++ {
		e.buf = append(e.buf, byte(v)|0x80)
		v >>= 7
	}
	e.buf = append(e.buf, byte(v))
}

// Int packs a signed integer wider than a byte.
func (e *Encoder) Int(v int64) { e.Uint(uint64(v)<<1 ^ uint64(v>>63)) }

// Count starts a group of n values.
func (e *Encoder) Count(n int) {
	if n < 0 || n > math.MaxInt32 {
		e.fail("group: count %d, want 0 to %d", n, math.MaxInt32)
		return
	}
	e.Int(int64(n))
}

// Byte packs one byte as it is.
func (e *Encoder) Byte(v byte) { e.buf = append(e.buf, v) }

// Bool packs a truth value.
func (e *Encoder) Bool(v bool) {
	if v {
		e.Byte(1)
		return
	}
	e.Byte(0)
}

// Raw appends packed bytes.
func (e *Encoder) Raw(v []byte) { e.buf = append(e.buf, v...) }

// String packs a string with its closing NUL.
func (e *Encoder) String(s string) {
	e.Int(int64(len(s)) + 1)
	e.buf = append(e.buf, s...)
	e.buf = append(e.buf, 0)
}

// ByteObject packs a size and that many bytes.
func (e *Encoder) ByteObject(v []byte) {
	e.Uint(uint64(len(v)))
	e.Raw(v)
}

// Rank packs a rank.
func (e *Encoder) Rank(r Rank) { e.Uint(uint64(r)) }

// Status packs a status code.
func (e *Encoder) Status(s Status) { e.Int(int64(s)) }

// Proc packs a process name.
func (e *Encoder) Proc(p Proc) {
	e.String(p.Nspace)
	e.Uint(uint64(p.Rank))
}

// Value packs a type number and a value of that type.
func (e *Encoder) Value(v Value) {
	e.Uint(uint64(v.Type))
	packData(e, v.Type, v.Data)
}

// Info packs a key, its flags and its value.
func (e *Encoder) Info(i Info) {
	e.String(i.Key)
	e.Uint(uint64(i.Flags))
	e.Value(i.Value)
}

// KVal packs a key and its value.
func (e *Encoder) KVal(kv KVal) {
	e.String(kv.Key)
	e.Value(kv.Value)
}

// KValGroup packs a group of one key and value, the form in which stored data travels.
func (e *Encoder) KValGroup(kv KVal) {
	e.Count(1)
	e.KVal(kv)
}

// Procs packs a count group and, unless it is empty, a group of processes.
func (e *Encoder) Procs(procs []Proc) {
	packGroup(e, procs, (*Encoder).Proc)
}

// Infos packs a count group and, unless it is empty, a group of infos.
func (e *Encoder) Infos(infos []Info) {
	packGroup(e, infos, (*Encoder).Info)
}
