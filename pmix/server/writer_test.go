package server

import (
	"bytes"
	"io"
	"net"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/goshmem/goshmem/pmix/codec"
)

// Frames that are queued together, small and large, arrive in order.
func TestWriterSendsFrames(t *testing.T) {
	client, server := net.Pipe()
	got := make(chan []byte)
	go func() {
		var all bytes.Buffer
		_, _ = io.Copy(&all, client) // ends when the other side closes
		got <- all.Bytes()
	}()
	var want []byte
	w := &writer{}
	rapid.Check(t, func(t *rapid.T) {
		blob := func(name string) []byte {
			sizes := rapid.SampledFrom([]int{0, 1, maxCopied, maxCopied + 1, 3000, maxSpareBytes})
			return bytes.Repeat([]byte{rapid.Byte().Draw(t, name)}, sizes.Draw(t, name+" size"))
		}
		for range rapid.IntRange(1, 5).Draw(t, "frames") {
			if f := (outFrame{raw: blob("raw")}); rapid.Bool().Draw(t, "is raw") && len(f.raw) > 0 {
				w.frames = append(w.frames, f)
				want = append(want, f.raw...)
				continue
			}
			f := outFrame{tag: rapid.Uint32().Draw(t, "tag"), body: blob("body"), more: blob("more")}
			w.frames = append(w.frames, f)
			want = codec.AppendFrame(want, 0, f.tag, slices.Concat(f.body, f.more))
		}
		if err := w.flush(server); err != nil {
			t.Fatal(err)
		}
		w.frames = w.frames[:0]
	})
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	if all := <-got; !bytes.Equal(all, want) {
		t.Errorf("%d bytes arrived that differ from the %d sent", len(all), len(want))
	}
}

// A writer that has been used before needs no memory for more answers.
func TestWriterAllocatesNothing(t *testing.T) {
	client, server := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, client) }() // ends when the other side closes
	defer server.Close()
	w := &writer{}
	frames := []outFrame{{tag: 101, body: success}, {tag: 102, body: make([]byte, 5000)}, {tag: 103, body: success}}
	n := testing.AllocsPerRun(100, func() {
		w.frames = append(w.frames[:0], frames...)
		if err := w.flush(server); err != nil {
			t.Error(err)
		}
	})
	if n > 0 {
		t.Errorf("%v allocations for an answer, want none", n)
	}
}
