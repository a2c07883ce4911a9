package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestFrameRoundTrip(t *testing.T) {
	frames := []Frame{
		{},
		{Kind: KindHello, Body: []byte("hello")},
		{Kind: KindFence, Stream: 1<<32 - 1, Body: bytes.Repeat([]byte{7}, 1000)},
		{Kind: 0xffff, Stream: 3, Body: make([]byte, MaxBody)},
	}
	var b []byte
	for _, f := range frames {
		before := len(b)
		if b = f.Append(b); len(b) != before+FrameHeader+len(f.Body) {
			t.Errorf("frame of kind %#x has %d bytes, want %d", f.Kind, len(b)-before, FrameHeader+len(f.Body))
		}
	}
	r := iotest.HalfReader(bytes.NewReader(b))
	for _, want := range frames {
		f, err := ReadFrame(r, MaxBody)
		if err != nil {
			t.Fatalf("frame of kind %#x: %v", want.Kind, err)
		}
		if f.Kind != want.Kind || f.Stream != want.Stream || !bytes.Equal(f.Body, want.Body) {
			t.Errorf("frame {%#x %d} of %d bytes came back as {%#x %d} of %d", want.Kind, want.Stream, len(want.Body), f.Kind, f.Stream, len(f.Body))
		}
	}
	if _, err := ReadFrame(r, MaxBody); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v, want EOF", err)
	}
}

// The layout is what other builds read.
func TestFrameLayout(t *testing.T) {
	f := Frame{Kind: 0x0203, Stream: 0x04050607, Body: []byte{8, 9}}
	if got, want := f.Append([]byte{1}), []byte{1, 2, 0, 0, 0, 3, 2, 1, 0, 7, 6, 5, 4, 8, 9}; !bytes.Equal(got, want) {
		t.Errorf("frame is %v, want %v", got, want)
	}
}

func TestFrameRefused(t *testing.T) {
	f := Frame{Kind: KindAck, Body: make([]byte, 8)}
	good := f.Append(nil)
	for what, c := range map[string]struct {
		spoil func(b []byte) []byte
		most  int
		want  string
	}{
		"long for the reader":    {func(b []byte) []byte { return b }, 7, "frame of kind 0x102 has 8 bytes, want at most 7"},
		"long for a negative":    {func(b []byte) []byte { return b }, -1, "has 8 bytes, want at most -1"},
		"long for all":           {func(b []byte) []byte { b[2] = 0x11; return b }, 1 << 30, "has 1114120 bytes, want at most 1048576"},
		"longer than an int32":   {func(b []byte) []byte { b[3] = 0xff; return b }, 1 << 30, "want at most 1048576"},
		"another version":        {func(b []byte) []byte { b[6]++; return b }, 8, "version 2, want 1"},
		"an end in the header":   {func(b []byte) []byte { return b[:FrameHeader-1] }, 8, io.ErrUnexpectedEOF.Error()},
		"an end after a header":  {func(b []byte) []byte { return b[:FrameHeader] }, 8, io.ErrUnexpectedEOF.Error()},
		"an end within the body": {func(b []byte) []byte { return b[:FrameHeader+7] }, 8, io.ErrUnexpectedEOF.Error()},
	} {
		b := c.spoil(bytes.Clone(good))
		if _, err := ReadFrame(bytes.NewReader(b), c.most); err == nil || errors.Is(err, io.EOF) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", what, err, c.want)
		}
	}
}

// A length that is too great allocates nothing, and reads nothing of the body.
func TestFrameLimit(t *testing.T) {
	f := Frame{Body: make([]byte, MaxBody)}
	r := bytes.NewReader(f.Append(nil))
	if n := testing.AllocsPerRun(10, func() {
		r.Seek(0, io.SeekStart)
		if _, err := ReadFrame(r, 1<<10); err == nil {
			t.Error("frame is read")
		}
	}); n > 10 {
		t.Errorf("%v allocations", n)
	}
	if r.Len() != MaxBody {
		t.Errorf("%d bytes of the body are left, want %d", r.Len(), MaxBody)
	}
}

func FuzzReadFrame(f *testing.F) {
	frame := Frame{Kind: KindHello, Stream: 3, Body: []byte("body")}
	f.Add(frame.Append(nil), 100)
	f.Add(frame.Append(nil), 3)
	f.Add(frame.Append(frame.Append(nil)), MaxBody)
	f.Add(frame.Append(nil), -1)
	f.Add([]byte{255, 255, 255, 255, 0, 0, 1, 0, 0, 0, 0, 0}, MaxBody)
	f.Fuzz(func(t *testing.T, b []byte, most int) {
		r := bytes.NewReader(b)
		frame, err := ReadFrame(r, most)
		if err != nil {
			return
		}
		if len(frame.Body) > most || len(frame.Body) > MaxBody {
			t.Errorf("body has %d bytes, want at most %d", len(frame.Body), most)
		}
		if read := b[:len(b)-r.Len()]; !bytes.Equal(frame.Append(nil), read) {
			t.Errorf("%x does not come back", read)
		}
	})
}
