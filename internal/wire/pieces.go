package wire

import (
	"encoding/binary"
	"fmt"
)

// A message that is larger than a piece goes in several frames, one right after the other. Each piece has the number of
// the message's bytes that follow it. A link keeps the order of frames, so the receiver appends. The alternative would be
// to announce a message and to let the receiver fetch it. It costs a round trip, and the sender keeps a state that a death
// must end. Pieces need neither.

const (
	pieceHeader = 4
	// PieceBytes is how many bytes of a message a piece has. It is well below MaxBody: the front end may carry the frame
	// inside of another one, and frames of other kinds get their turn between two pieces.
	PieceBytes = MaxBody/4 - pieceHeader
)

// Split cuts a message into the bodies of frames.
func Split(message []byte) (bodies [][]byte) {
	for {
		n := min(len(message), PieceBytes)
		body := make([]byte, 0, pieceHeader+n)
		body = binary.LittleEndian.AppendUint32(body, uint32(len(message)-n))
		bodies = append(bodies, append(body, message[:n]...))
		if message = message[n:]; len(message) == 0 {
			return bodies
		}
	}
}

// Assembly is the part of a message that has arrived. The zero value is ready for use.
type Assembly struct {
	message []byte
	open    bool
	lacks   uint64 // bytes to come
}

// Add adds a piece of a message that has at most most bytes. It returns the message if that is whole. After an error the
// assembly is empty.
func (a *Assembly) Add(body []byte, most int) (message []byte, whole bool, err error) {
	if len(body) < pieceHeader {
		*a = Assembly{}
		return nil, false, fmt.Errorf("piece of a message has %d bytes, want at least %d", len(body), pieceHeader)
	}
	after := uint64(binary.LittleEndian.Uint32(body))
	body = body[pieceHeader:]
	all := uint64(len(body)) + after
	switch {
	case !a.open && all > uint64(most):
		return nil, false, fmt.Errorf("message has %d bytes, want at most %d", all, most)
	case a.open && all != a.lacks:
		err = fmt.Errorf("piece of a message leaves %d bytes to come, want %d", all, a.lacks)
		*a = Assembly{}
		return nil, false, err
	case len(body) == 0 && after > 0:
		*a = Assembly{}
		return nil, false, fmt.Errorf("piece of a message is empty, and %d bytes are to come", after)
	}
	a.message, a.open, a.lacks = append(a.message, body...), after > 0, after
	if a.open {
		return nil, false, nil
	}
	message = a.message
	*a = Assembly{}
	return message, true, nil
}
