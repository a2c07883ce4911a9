package codec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A decoder that remembers strings reads the same as one that does not, and remembers a bounded number of strings.
func TestRequestDecoder(t *testing.T) {
	var many RequestDecoder
	for range 2 {
		for name, frames := range dumps(t) {
			for _, f := range frames[2:] {
				if !f.FromClient || len(f.Body) == 0 {
					continue
				}
				want, err := DecodeRequest(f.Body)
				if err != nil {
					t.Fatal(err)
				}
				got, err := many.Decode(f.Body)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
			}
		}
	}
	if _, err := many.Decode([]byte{2}); err == nil {
		t.Error("half a request was decoded")
	}
	for i := range 3 * maxSeen {
		body, err := AppendRequest(nil, &GetRequest{Proc: Proc{"job-1", 0}, Key: fmt.Sprint("key", i)})
		if err != nil {
			t.Fatal(err)
		}
		r, err := many.Decode(body)
		if err != nil {
			t.Fatal(err)
		}
		if get, ok := r.(*GetRequest); !ok || get.Key != fmt.Sprint("key", i) || get.Proc.Nspace != "job-1" {
			t.Fatalf("request %d decodes to %+v", i, r)
		}
		if len(many.d.seen) > maxSeen {
			t.Fatalf("%d strings remembered, want at most %d", len(many.d.seen), maxSeen)
		}
	}
}

func TestRequestDecoderAllocatesOnce(t *testing.T) {
	body, err := AppendRequest(nil, &GetRequest{Proc: Proc{"job-1", 3}, Key: "btl.vader.4.1"})
	if err != nil {
		t.Fatal(err)
	}
	var d RequestDecoder
	n := testing.AllocsPerRun(100, func() {
		if _, err := d.Decode(body); err != nil {
			t.Error(err)
		}
	})
	if n > 1 {
		t.Errorf("%v allocations a request, want only the request itself", n)
	}
}

// Bodies may share a block of memory, but no byte of it.
func TestFrameReaderKeepsBodiesApart(t *testing.T) {
	var stream []byte
	var want [][]byte
	for i := range 200 {
		body := bytes.Repeat([]byte{byte(i)}, i*i%(smallSize+20))
		want = append(want, body)
		stream = AppendFrame(stream, int32(i), uint32(i), body)
	}
	r := NewFrameReader(bytes.NewReader(stream), 1<<20)
	var got [][]byte
	for i := range want {
		h, body, err := r.Next()
		if err != nil || h.Tag != uint32(i) {
			t.Fatalf("frame %d: tag %d, %v", i, h.Tag, err)
		}
		got = append(got, body)
		_ = append(body, 0xff) // an append by its owner must not change other bodies
	}
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			t.Fatalf("body %d is % x, want % x", i, got[i], want[i])
		}
	}
	if _, _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v, want io.EOF", err)
	}
}

func TestFrameReaderErrors(t *testing.T) {
	whole := AppendFrame(nil, 0, 101, make([]byte, 100))
	for n := 1; n < len(whole); n++ {
		if _, _, err := NewFrameReader(bytes.NewReader(whole[:n]), 100).Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%d of %d bytes: %v, want io.ErrUnexpectedEOF", n, len(whole), err)
		}
	}
	_, _, err := NewFrameReader(bytes.NewReader(whole), 99).Next()
	if err == nil || !strings.Contains(err.Error(), "frame of 100 bytes, want at most 99") {
		t.Errorf("frame beyond the limit: %v", err)
	}
}
