package session

import (
	"encoding/binary"
	"testing"

	"github.com/goshmem/goshmem/internal/wire"
)

// FuzzSession: no number that a peer says makes a session lose a frame that the peer has not taken, or panic.
func FuzzSession(f *testing.F) {
	step := func(what byte, n uint64) []byte { return binary.LittleEndian.AppendUint64([]byte{what}, n) }
	f.Add(append(append(step('p', 0), step('r', 0)...), step('a', 1)...))
	f.Add(append(append(step('p', 0), step('r', 1)...), step('a', 1<<63)...))
	f.Add(append(append(step('p', 0), step('r', 0)...), append(step('n', 0), step('r', ^uint64(0))...)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s Session
		var pushed, taken, written uint64 // numbers of frames: written is the last one on this connection
		connected := false
		for len(b) >= 9 {
			what, n := b[0], binary.LittleEndian.Uint64(b[1:])
			b = b[9:]
			switch what {
			case 'p':
				pushed++
				s.Push(wire.Frame{Stream: uint32(pushed), Body: make([]byte, n%8)})
			case 'n':
				frame, ok := s.Next()
				if ok != (connected && written < pushed) || ok && uint64(frame.Stream) != written+1 {
					t.Fatalf("next frame is %d, %v, with %d written of %d", frame.Stream, ok, written, pushed)
				}
				if ok {
					written++
				}
			case 'r':
				if err := s.Resume(n); (err == nil) != (n >= taken && n <= pushed) {
					t.Fatalf("resume from %d: %v, with %d taken of %d", n, err, taken, pushed)
				} else if err == nil {
					taken, written, connected = n, n, true
				}
			case 'a':
				if err := s.Acknowledge(n); (err == nil) != (n <= max(written, taken)) {
					t.Fatalf("acknowledgment of %d: %v, with %d written", n, err, written)
				} else if err == nil {
					taken = max(taken, n)
				}
			case 'b':
				s.Break()
				connected = false
			}
			frames, bytes := s.Kept()
			if uint64(frames) != pushed-taken || bytes < frames*wire.FrameHeader || frames == 0 && bytes != 0 {
				t.Fatalf("%d frames of %d bytes are kept, want %d", frames, bytes, pushed-taken)
			}
			if s.Pushed() != pushed || s.Taken() != taken {
				t.Fatalf("frames %d and %d are pushed and taken, want %d and %d", s.Pushed(), s.Taken(), pushed, taken)
			}
		}
	})
}
