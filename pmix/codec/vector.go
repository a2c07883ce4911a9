package codec

import "math"

// packGroup packs a count group and, unless it is empty, a group of values.
func packGroup[T any](e *Encoder, values []T, pack func(*Encoder, T)) {
	packOne(e, uint64(len(values)))
	if len(values) == 0 {
		return
	}
	e.Count(len(values))
	for _, v := range values {
		pack(e, v)
	}
}

// unpackGroup reads a count group and the group of values that follows a count above zero.
func unpackGroup[T any](d *Decoder, what string, unpack func(*Decoder) T) []T {
	n := checkCount(d, unpackOne(d, math.MaxUint64, what), what)
	if n == 0 {
		return nil
	}
	d.Count(n, what)
	return unpackRepeated(d, n, unpack)
}

// packOne packs a group of one unsigned integer.
func packOne(e *Encoder, v uint64) {
	e.Count(1)
	e.Uint(v)
}

// unpackOne reads a group of one unsigned integer.
func unpackOne(d *Decoder, limit uint64, what string) uint64 {
	d.Count(1, what)
	return d.uint(limit, what)
}

// unpackRepeated reads n values of one type; after a fault it returns nil.
func unpackRepeated[T any](d *Decoder, n int, unpack func(*Decoder) T) []T {
	if n == 0 || d.err != nil {
		return nil
	}
	out := make([]T, 0, startCap(n))
	for range n {
		v := unpack(d)
		if d.err != nil {
			return nil
		}
		out = append(out, v)
	}
	return out
}

// checkCount returns n, the number of values that follow. Each value takes at least one byte, so a number larger than
// that of the bytes left is a fault.
func checkCount(d *Decoder, n uint64, what string) int {
	if d.err == nil && n > uint64(d.Rest()) {
		d.fail(d.off, "%s: %d announced, want at most the %d bytes that follow", what, n, d.Rest())
	}
	if d.err != nil {
		return 0
	}
	return int(n)
}

// startCap returns the capacity to start a slice of n announced values with. It is small, so that a false number costs
// no memory: the slice grows with the values that are really read.
func startCap(n int) int { return min(n, 64) }

// packStringVector packs an int32 count and that many strings.
func packStringVector(e *Encoder, v []string) {
	e.Count(len(v))
	for _, s := range v {
		e.String(s)
	}
}

// unpackStringVector reads an int32 count and that many strings.
func unpackStringVector(d *Decoder, what string) []string {
	start := d.off
	n := d.int(32, what)
	if n < 0 {
		d.fail(start, "number of %s: %d, want 0 or more", what, n)
		return nil
	}
	return unpackRepeated(d, checkCount(d, uint64(n), what), (*Decoder).Str)
}

// packInfoVector packs an unsigned count and that many infos.
func packInfoVector(e *Encoder, v []Info) {
	e.Uint(uint64(len(v)))
	for _, i := range v {
		e.Info(i)
	}
}

// unpackInfoVector reads an unsigned count and that many infos.
func unpackInfoVector(d *Decoder) []Info {
	return unpackRepeated(d, checkCount(d, d.Uint(), "infos"), (*Decoder).Info)
}

// unpackKValGroups reads key-value groups up to the end of the buffer.
func unpackKValGroups(d *Decoder) []KVal {
	var kvs []KVal
	for d.More() {
		kvs = append(kvs, d.KValGroup())
	}
	if d.err != nil {
		return nil
	}
	return kvs
}
