package wire

import "encoding/binary"

// A PE has a line to the agent of its node: a unix socket of type SEQPACKET, which comes with the AttachReply. Over it the
// PE asks for express sockets (package internal/agent/express), one at a time.
//
//	ask     u32 magic, u16 version, u16 0, u32 node
//	answer  u32 magic, u16 version, u16 length, u32 node, u64 last, error (length bytes)
//
// The socket comes with an answer without an error.
const (
	askBytes    = 12
	answerBytes = 20
)

// ExpressAsk asks for an express socket to a node.
type ExpressAsk struct{ Node uint32 }

// ExpressAnswer answers an ExpressAsk.
type ExpressAnswer struct {
	Node uint32
	Last uint64 // the last number of the PE that the node has executed
	Err  string // why there is no socket; empty: there is one
}

// Append appends the packet to b.
func (m *ExpressAsk) Append(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(header(b, ""), m.Node)
}

// Parse reads a packet with such a message.
func (m *ExpressAsk) Parse(b []byte) error {
	if _, err := check(b, askBytes, "ask for an express socket"); err != nil {
		return err
	}
	m.Node = binary.LittleEndian.Uint32(b[8:])
	return nil
}

// Append appends the packet to b.
func (m *ExpressAnswer) Append(b []byte) []byte {
	text := clip(m.Err)
	b = binary.LittleEndian.AppendUint32(header(b, text), m.Node)
	b = binary.LittleEndian.AppendUint64(b, m.Last)
	return append(b, text...)
}

// Parse reads a packet with such a message.
func (m *ExpressAnswer) Parse(b []byte) error {
	text, err := check(b, answerBytes, "answer to an ask for an express socket")
	if err != nil {
		return err
	}
	m.Node, m.Last, m.Err = binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint64(b[12:]), text
	return nil
}
