package remote

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/goshmem/goshmem/internal/wire"
)

const (
	// pieceBytes is how much of a message goes in one frame.
	pieceBytes = 256 << 10
	// maxMessage bounds a message.
	maxMessage = 64 << 20
	// maxUnfinished bounds what a side keeps of messages that have not come as a whole.
	maxUnfinished = 2 * maxMessage

	// lastPieceHead is what stands before the rest of the message in its last piece: u16 kind, u32 stream.
	lastPieceHead = 6
)

// sender sends messages in frames.
type sender struct {
	peer Peer

	mu    sync.Mutex
	last  uint32                   // number of the last message that went in pieces
	paced map[uint32]chan struct{} // by such a number: gets an element when a piece has been taken
}

func newSender(peer Peer) *sender { return &sender{peer: peer, paced: map[uint32]chan struct{}{}} }

// send sends a message, and never waits.
func (s *sender) send(kind wire.Kind, stream uint32, body []byte) {
	_ = s.sendPieces(kind, stream, body, func(uint32) error { return nil }) // nothing can fail
}

// sendPaced sends a message piece by piece, as the other side takes them. It returns an error if the context ends first.
func (s *sender) sendPaced(ctx context.Context, kind wire.Kind, stream uint32, body []byte) error {
	if len(body) > maxMessage {
		return fmt.Errorf("message of kind %#x has %d bytes, want at most %d", kind, len(body), maxMessage)
	}
	return s.sendPieces(kind, stream, body, func(number uint32) error {
		s.mu.Lock()
		taken := s.paced[number]
		s.mu.Unlock()
		select {
		case <-taken:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

// sendPieces sends a message, and calls pause with its number after each piece but the last.
func (s *sender) sendPieces(kind wire.Kind, stream uint32, body []byte, pause func(number uint32) error) error {
	if len(body) <= pieceBytes {
		s.peer.Send(wire.Frame{Kind: kind, Stream: stream, Body: body})
		return nil
	}
	s.mu.Lock()
	s.last++
	number := s.last
	s.paced[number] = make(chan struct{}, 1)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.paced, number)
		s.mu.Unlock()
	}()
	for len(body) > pieceBytes {
		s.peer.Send(wire.Frame{Kind: wire.KindPiece, Stream: number, Body: body[:pieceBytes:pieceBytes]})
		body = body[pieceBytes:]
		if err := pause(number); err != nil {
			return err
		}
	}
	head := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint16(nil, uint16(kind)), stream)
	s.peer.Send(wire.Frame{Kind: wire.KindLastPiece, Stream: number, Body: append(head, body...)})
	return nil
}

// pieceTaken notes that the other side has taken a piece. A message whose sender does not wait is not known.
func (s *sender) pieceTaken(number uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.paced[number] <- struct{}{}: // a nil channel takes nothing
	default:
	}
}

// assembler puts messages together again. One goroutine uses it.
type assembler struct {
	parts map[uint32][]byte // by number: what there is of a message
	bytes int               // of parts
}

// take takes a frame of any kind and returns the message that it is, or ends; false: the message goes on.
func (a *assembler) take(f wire.Frame) (message wire.Frame, whole bool, err error) {
	switch f.Kind {
	case wire.KindPiece:
		if len(f.Body) == 0 {
			return f, false, errors.New("piece of a message without bytes")
		}
		if a.bytes += len(f.Body); a.bytes > maxUnfinished {
			return f, false, fmt.Errorf("pieces of messages have %d bytes together, want at most %d", a.bytes, maxUnfinished)
		}
		if a.parts == nil {
			a.parts = map[uint32][]byte{}
		}
		a.parts[f.Stream] = append(a.parts[f.Stream], f.Body...)
		return f, false, nil
	case wire.KindLastPiece:
		if len(f.Body) < lastPieceHead {
			return f, false, fmt.Errorf("last piece of a message has %d bytes, want at least %d", len(f.Body), lastPieceHead)
		}
		begin := a.parts[f.Stream]
		a.bytes -= len(begin)
		delete(a.parts, f.Stream)
		message = wire.Frame{
			Kind:   wire.Kind(binary.LittleEndian.Uint16(f.Body)),
			Stream: binary.LittleEndian.Uint32(f.Body[2:]),
			Body:   append(begin, f.Body[lastPieceHead:]...),
		}
		return message, true, nil
	}
	return f, true, nil
}
