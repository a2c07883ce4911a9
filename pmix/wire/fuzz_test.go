package wire

import (
	"bytes"
	"testing"
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
			t.Errorf("handshake % x came back as % x", b, again)
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
			t.Errorf("% x came back as % x", once, twice)
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
			t.Errorf("% x came back as % x, %v", once, twice, err)
		}
	})
}

// decodeReplies only looks for panics: the answers' round trips are the golden test's.
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
