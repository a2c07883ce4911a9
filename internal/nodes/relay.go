package nodes

import (
	"encoding/binary"
	"fmt"

	"github.com/goshmem/goshmem/internal/wire"
)

// relayHead is what stands before the body of a frame that the front end relays: u16 kind, u32 stream. The stream of the
// outer frame is the node that it is for, and on the second half of its way the node that it comes from.
const relayHead = 6

// relayFrame returns a frame that carries another one.
func relayFrame(node int, f wire.Frame) wire.Frame {
	body := make([]byte, 0, relayHead+len(f.Body))
	body = binary.LittleEndian.AppendUint16(body, uint16(f.Kind))
	body = binary.LittleEndian.AppendUint32(body, f.Stream)
	return wire.Frame{Kind: wire.KindRelay, Stream: uint32(node), Body: append(body, f.Body...)}
}

// parseRelay is the inverse of relayFrame.
func parseRelay(f wire.Frame) (node int, inner wire.Frame, err error) {
	if len(f.Body) < relayHead {
		return 0, inner, fmt.Errorf("relayed frame has %d bytes, want at least %d", len(f.Body), relayHead)
	}
	le := binary.LittleEndian
	return int(int32(f.Stream)), wire.Frame{Kind: wire.Kind(le.Uint16(f.Body)), Stream: le.Uint32(f.Body[2:]), Body: f.Body[relayHead:]}, nil
}
