package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Coder encodes values into the body of a frame, or decodes them from one. The same calls do both,
// so a message is described once, and what is decoded cannot differ from what is encoded.
//
//	integer  varint of encoding/binary, in its shortest form; zigzag if the type is signed
//	bool     one byte, 0 or 1
//	string   length as an unsigned integer, bytes
//	list     0 for nil, otherwise 1 + length as an unsigned integer; the elements
//
// Each value has one encoding. A decoder allocates no more than a small multiple of the bytes that
// it has read.
type Coder struct {
	body    []byte // encoding: what there is so far; decoding: what is left
	decodes bool
	err     error // decoding: the first error; what is decoded after it is zero
}

// Encode returns what the calls of f encode.
func Encode(f func(c *Coder)) []byte {
	var c Coder
	f(&c)
	return c.body
}

// Decode decodes a body by the calls of f. The whole body has to be used. What names the body in
// errors. Byte slices that are decoded share the body's memory.
func Decode(body []byte, what string, f func(c *Coder)) error {
	c := Coder{body: body, decodes: true}
	f(&c)
	if c.err == nil && len(c.body) > 0 {
		c.err = fmt.Errorf("%d bytes are left over", len(c.body))
	}
	if c.err != nil {
		return fmt.Errorf("%s of %d bytes: %w", what, len(body), c.err)
	}
	return nil
}

// Decodes says whether the coder decodes.
func (c *Coder) Decodes() bool { return c.decodes }

// Fail makes decoding fail: a value is not one that may be sent. The first error counts.
func (c *Coder) Fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

var (
	errShort   = errors.New("it ends in the middle of a value")
	errLongInt = errors.New("an integer is not in its shortest form, or has more than 64 bits")
)

// Integer codes an integer of any type.
func Integer[T ~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr](c *Coder, v *T) {
	switch signed := ^T(0) < 0; {
	case !c.decodes && signed:
		c.body = binary.AppendVarint(c.body, int64(*v))
	case !c.decodes:
		c.body = binary.AppendUvarint(c.body, uint64(*v))
	case signed:
		u := c.uvarint()
		n := int64(u>>1) ^ -int64(u&1)
		if *v = T(n); int64(*v) != n {
			c.Fail(fmt.Errorf("integer %d does not fit into %T", n, *v))
			*v = 0
		}
	default:
		u := c.uvarint()
		if *v = T(u); uint64(*v) != u {
			c.Fail(fmt.Errorf("integer %d does not fit into %T", u, *v))
			*v = 0
		}
	}
}

// uvarint decodes an unsigned integer.
func (c *Coder) uvarint() uint64 {
	if c.err != nil {
		return 0
	}
	u, n := binary.Uvarint(c.body)
	switch {
	case n == 0:
		c.err = errShort
		return 0
	case n < 0, n > 1 && c.body[n-1] == 0:
		c.err = errLongInt
		return 0
	}
	c.body = c.body[n:]
	return u
}

// count codes a length plus extra, which is 0 or 1, and returns the length; -1: what was coded is 0 and extra 1.
// Each element takes one byte or more, so a length beyond the bytes that are left is an error.
func (c *Coder) count(length int, extra uint64) int {
	if !c.decodes {
		c.body = binary.AppendUvarint(c.body, uint64(length)+extra)
		return length
	}
	n := c.uvarint()
	if n < extra {
		return -1
	}
	if n -= extra; n > uint64(min(len(c.body), math.MaxInt32)) {
		c.Fail(fmt.Errorf("%d bytes or elements are announced, and %d bytes are left", n, len(c.body)))
		return 0
	}
	return int(n)
}

// Bool codes a truth value.
func (c *Coder) Bool(v *bool) {
	if !c.decodes {
		c.body = append(c.body, byte(mark(*v)))
		return
	}
	*v = false
	if c.err != nil {
		return
	}
	switch {
	case len(c.body) == 0:
		c.err = errShort
	case c.body[0] > 1:
		c.err = fmt.Errorf("truth value %d, want 0 or 1", c.body[0])
	default:
		*v = c.body[0] == 1
		c.body = c.body[1:]
	}
}

// String codes a text.
func (c *Coder) String(v *string) {
	n := c.count(len(*v), 0)
	if !c.decodes {
		c.body = append(c.body, *v...)
		return
	}
	*v = string(c.body[:n])
	c.body = c.body[n:]
}

// Bytes codes bytes. None are decoded as nil. What is decoded shares the body's memory.
func (c *Coder) Bytes(v *[]byte) {
	n := c.count(len(*v), 0)
	if !c.decodes {
		c.body = append(c.body, *v...)
		return
	}
	if *v = nil; n > 0 {
		*v = c.body[:n:n]
	}
	c.body = c.body[n:]
}

// List codes a list whose elements each codes. Each element has to take one byte or more.
func List[T any](c *Coder, v *[]T, each func(c *Coder, e *T)) {
	if !c.decodes {
		if *v == nil {
			c.count(-1, 1)
			return
		}
		c.count(len(*v), 1)
		for i := range *v {
			each(c, &(*v)[i])
		}
		return
	}
	n := c.count(0, 1)
	if *v = nil; n < 0 || c.err != nil {
		return
	}
	*v = []T{}
	for range n { // grows as the elements come
		var e T
		if each(c, &e); c.err != nil {
			*v = nil
			return
		}
		*v = append(*v, e)
	}
}
