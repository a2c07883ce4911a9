package agent

import (
	"errors"
	"testing"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/internal/agent/stream"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// BenchmarkPuts measures what the two agents do with a put of 8 bytes, among as many as a block holds: the count of the
// records at one side, their execution at the other.
func BenchmarkPuts(b *testing.B) {
	m := benchMemory(b)
	const puts = layout.WireBody / 24
	body := make([]byte, 0, layout.WireBody)
	for i := range puts {
		body, _ = record.ReservePut(body, 1, layout.HeapOffset+uint64(i*4096%(1<<20)), 8)
	}
	b.Run("count", func(b *testing.B) {
		for i := 0; i < b.N; i += puts {
			if n, err := record.Count(body); n != puts || err != nil {
				b.Fatal(n, err)
			}
		}
	})
	b.Run("execute", func(b *testing.B) {
		r := stream.NewReceiver(stream.ReceiverConfig{Nodes: 2})
		x := (*executor)(&Agent{memory: m})
		r.Opened(1, 1)
		receive := func(h *stream.Header, body []byte) {
			if err := r.Received(1, 1, append(h.Append(nil), body...), x); err != nil {
				b.Fatal(err)
			}
		}
		receive(&stream.Header{Kind: stream.KindHello}, nil)
		var f stream.Frame
		r.Next(1, &f) // the welcome
		frame := append((&stream.Header{Kind: stream.KindRecords, N: puts, Bytes: uint32(len(body))}).Append(nil), body...)
		for i := 0; i < b.N; i += puts {
			h := stream.Header{Kind: stream.KindRecords, Number: uint64(i), N: puts, Bytes: uint32(len(body))}
			h.Append(frame[:0])
			if err := r.Received(1, 1, frame, x); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// benchMemory returns the segments of two PEs.
func benchMemory(b *testing.B) *memory {
	var segments *symheap.Map
	for i := range nearPEs {
		f, err := symheap.Create(symheap.Identity{Job: testJob, PE: uint32(i), NPEs: nearPEs, Incarnation: 1}, testHeap, symheap.WithWire())
		if err != nil {
			b.Fatal(err)
		}
		info, err := f.Stat()
		if err == nil && segments == nil {
			segments, err = symheap.NewMap(testJob, nearPEs, uint64(info.Size()))
		}
		if err == nil {
			err = segments.Attach(layout.Local(i), layout.PE(i), int(f.Fd()))
		}
		if err = errors.Join(err, f.Close()); err != nil {
			b.Fatal(err)
		}
	}
	return newMemory(segments)
}
