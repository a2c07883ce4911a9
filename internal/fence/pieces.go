package fence

import (
	"encoding/binary"
	"fmt"

	"github.com/goshmem/goshmem/internal/wire"
)

// A message that is larger than a piece goes in several, one right after the other. Each piece has the number of the
// message's bytes that follow it. A link keeps the order of frames, so the receiver appends. The alternative would be to
// announce a value and to let the receiver fetch it. It costs a round trip, and the sender keeps a state that a death must
// end. Pieces need neither.

const (
	pieceHeader = 4
	// pieceBytes is well below wire.MaxBody: the front end may carry the frame inside of another one, and frames of other
	// kinds get their turn between two pieces.
	pieceBytes = wire.MaxBody/4 - pieceHeader
)

// split cuts a message into the bodies of frames.
func split(message []byte) (bodies [][]byte) {
	for {
		n := min(len(message), pieceBytes)
		body := make([]byte, 0, pieceHeader+n)
		body = binary.LittleEndian.AppendUint32(body, uint32(len(message)-n))
		bodies = append(bodies, append(body, message[:n]...))
		if message = message[n:]; len(message) == 0 {
			return bodies
		}
	}
}

// assembly is the part of a message that has arrived.
type assembly struct {
	message []byte
	open    bool
	lacks   uint64 // bytes to come
}

// add adds a piece. It returns the message if that is whole. After an error the assembly is empty.
func (a *assembly) add(body []byte) (message []byte, whole bool, err error) {
	if len(body) < pieceHeader {
		*a = assembly{}
		return nil, false, fmt.Errorf("piece of a message has %d bytes, want at least %d", len(body), pieceHeader)
	}
	after := uint64(binary.LittleEndian.Uint32(body))
	body = body[pieceHeader:]
	all := uint64(len(body)) + after
	switch {
	case !a.open && all > maxBody:
		return nil, false, fmt.Errorf("message has %d bytes, want at most %d", all, maxBody)
	case a.open && all != a.lacks:
		err = fmt.Errorf("piece of a message leaves %d bytes to come, want %d", all, a.lacks)
		*a = assembly{}
		return nil, false, err
	case len(body) == 0 && after > 0:
		*a = assembly{}
		return nil, false, fmt.Errorf("piece of a message is empty, and %d bytes are to come", after)
	}
	a.message, a.open, a.lacks = append(a.message, body...), after > 0, after
	if a.open {
		return nil, false, nil
	}
	message = a.message
	*a = assembly{}
	return message, true, nil
}
