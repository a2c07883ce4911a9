package codec

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"
)

func FuzzHandshake(f *testing.F) {
	for _, fr := range loadFrames(f)[:1] {
		f.Add(append(bytes.Clone(fr.Header), fr.Body...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		size, err := ParseHandshakeHeader(b)
		if err != nil || size > len(b)-HeaderSize {
			return
		}
		h, err := DecodeHandshake(b[HeaderSize : HeaderSize+size])
		if err != nil {
			return
		}
		again := AppendHandshake(nil, h)
		if !bytes.Equal(again[HeaderSize:], b[HeaderSize:HeaderSize+size]) {
			t.Errorf("handshake % x is encoded again as % x", b, again)
		}
		_ = h.Check()
	})
}

func FuzzValue(f *testing.F) {
	for _, v := range loadVectors(f) {
		e := NewEncoder(nil)
		e.Uint(uint64(v.typ))
		e.Raw(v.body[1:])
		f.Add(e.Bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d := NewDecoder(b)
		v := d.Value()
		if d.Err() != nil {
			return
		}
		// The first encoding may differ from the input (null strings, overlong integers, digits of floats); from then
		// on the bytes are canonical.
		once := encodeValue(t, v)
		d = NewDecoder(once)
		v = d.Value()
		if err := d.End(); err != nil {
			t.Fatalf("% x does not decode: %v", once, err)
		}
		if twice := encodeValue(t, v); !bytes.Equal(once, twice) {
			t.Errorf("% x is encoded again as % x", once, twice)
		}
	})
}

func encodeValue(t *testing.T, v Value) []byte {
	t.Helper()
	e := NewEncoder(nil)
	e.Value(v)
	if e.Err() != nil {
		t.Fatalf("%+v: %v", v, e.Err())
	}
	return e.Bytes()
}

func FuzzFrame(f *testing.F) {
	all := loadFrames(f)[2:]
	for _, frames := range dumps(f) {
		all = append(all, frames[2:]...)
	}
	for _, fr := range all {
		f.Add(append(bytes.Clone(fr.Header), fr.Body...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := ParseHeader(b)
		if err != nil || uint64(h.Size) > uint64(len(b)-HeaderSize) {
			return
		}
		body := b[HeaderSize : HeaderSize+int(h.Size)]
		decodeReplies(body)
		r, err := DecodeRequest(body)
		if err != nil {
			return
		}
		once, err := AppendRequest(nil, r)
		if err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		r, err = DecodeRequest(once)
		if err != nil {
			t.Fatalf("% x does not decode: %v", once, err)
		}
		if twice, err := AppendRequest(nil, r); err != nil || !bytes.Equal(once, twice) {
			t.Errorf("% x is encoded again as % x, %v", once, twice, err)
		}
	})
}

// decodeReplies only looks for panics. The golden test covers the round trips of answers.
func decodeReplies(body []byte) {
	_, _ = DecodeStatusReply(body)
	put := ProcData{Packed: body}
	_, _ = put.Pairs()
	if r, err := DecodeGetReply(body); err == nil {
		for _, data := range r.Data {
			_, _ = data.Pairs()
		}
	}
	if j, err := DecodeJobInfo(body); err == nil {
		for _, kv := range j.Pairs {
			if content, ok := kv.Value.Bytes(); ok {
				_, _ = DecodeProcBlob(content)
			}
		}
	}
}

// A stream decodes to the same frames in one piece and byte by byte. The frames equal the input, and no body contains
// bytes of another one.
func FuzzStream(f *testing.F) {
	var all []byte
	for i, fr := range loadFrames(f) {
		b := append(bytes.Clone(fr.Header), fr.Body...)
		f.Add(b)
		if i >= 2 && len(all) < 4096 {
			all = append(all, b...)
		}
	}
	f.Add(all)
	f.Add(AppendHandshakeReply(nil, StatusSuccess, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		once := readStream(bytes.NewReader(b))
		if slowly := readStream(iotest.OneByteReader(bytes.NewReader(b))); !bytes.Equal(once, slowly) {
			t.Errorf("% x is read as % x, and byte by byte as % x", b, once, slowly)
		}
		if !bytes.Equal(asRead(b, len(once)), once) {
			t.Errorf("% x is read as % x", b, once)
		}
		whole, werr := ReadHandshake(bytes.NewReader(b))
		parts, perr := ReadHandshake(iotest.OneByteReader(bytes.NewReader(b)))
		if (werr == nil) != (perr == nil) || werr == nil && !bytes.Equal(AppendHandshake(nil, whole), AppendHandshake(nil, parts)) {
			t.Errorf("% x is the handshake %+v, %v, and byte by byte %+v, %v", b, whole, werr, parts, perr)
		}
		if status, index, err := DecodeHandshakeReply(b); err == nil && !bytes.Equal(AppendHandshakeReply(nil, status, index), b) {
			t.Errorf("% x decodes to %v, %d", b, status, index)
		}
		if rank, err := DecodeProcBlobRank(b); err == nil {
			if blob, err := DecodeProcBlob(b); err == nil && blob.Rank != rank {
				t.Errorf("% x has the rank %v, and as a whole %v", b, rank, blob.Rank)
			}
		}
	})
}

// readStream reads all frames of a stream and then encodes them again. Header fields without a meaning become zero.
func readStream(r io.Reader) (all []byte) {
	var heads []Header
	var bodies [][]byte
	for in := NewFrameReader(r, 1<<16); ; {
		h, body, err := in.Next()
		if err != nil {
			break
		}
		heads, bodies = append(heads, h), append(bodies, body)
	}
	for i, h := range heads {
		all = AppendFrame(all, h.Index, h.Tag, bodies[i])
	}
	return all
}

// asRead returns the first length bytes of b as readStream would return them.
func asRead(b []byte, length int) []byte {
	b = bytes.Clone(b[:length])
	for rest := b; len(rest) >= HeaderSize; {
		clear(rest[12:HeaderSize])
		h, err := ParseHeader(rest)
		if err != nil || int(h.Size) > len(rest)-HeaderSize {
			break
		}
		rest = rest[HeaderSize+int(h.Size):]
	}
	return b
}
