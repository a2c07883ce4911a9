package control

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/goshmem/goshmem/internal/wire"
)

// FuzzLink: whatever comes on a connection of a link, acknowledgments, Bye and other kinds of its own included, ends the
// connection or is taken once. No peer without the secret gets so far.
func FuzzLink(f *testing.F) {
	ack := func(n uint64) wire.Frame {
		return wire.Frame{Kind: wire.KindAck, Body: binary.LittleEndian.AppendUint64(nil, n)}
	}
	some := numbered(0)
	for _, frames := range [][]wire.Frame{
		{some, ack(0), ack(2), ack(1)},
		{ack(3)},
		{ack(1 << 63)},
		{{Kind: wire.KindAck, Body: []byte{1}}},
		{{Kind: wire.KindBye}, some, {Kind: wire.KindBye}},
		{{Kind: wire.KindBye, Stream: byeEndsLink}},
		{{Kind: wire.KindHold}, some, {Kind: wire.KindGo}, {Kind: wire.KindGo}},
		{{Kind: wire.KindWelcome}},
		{{Kind: lastOwnKind}},
	} {
		var b []byte
		for i := range frames {
			b = frames[i].Append(b)
		}
		f.Add(b, false)
		f.Add(b, true)
	}
	f.Fuzz(func(t *testing.T, b []byte, closing bool) {
		l := newLink(Identity{}, Limits{}, 1)
		defer l.cancel()
		byes, took := 0, uint64(0)
		l.started, l.handler = true, Handler{Take: func(wire.Frame) { took++ }, Bye: func() { byes++ }}
		if err := l.frames.Resume(0); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			l.frames.Push(numbered(i))
		}
		l.closing = closing
		for range 2 {
			l.frames.Next() // the last one is not written
		}
		err := l.read(&connection{in: bufio.NewReader(bytes.NewReader(b)), stop: make(chan struct{})})
		if err == nil {
			t.Error("the connection ends without an error")
		}
		if n, _ := l.Queued(); n < 1 {
			t.Errorf("%d frames are kept, want that which was not written", n)
		}
		if byes > 1 || l.frames.Received() < took {
			t.Errorf("Bye was called %d times, %d frames were taken and %d counted", byes, took, l.frames.Received())
		}
		l.gather(nil, true) // what the writer would answer
	})
}
