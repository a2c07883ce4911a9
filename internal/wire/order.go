package wire

import (
	"encoding/binary"
	"fmt"
)

// Order is what the step can ask of a process that takes orders.
type Order uint32

// The orders.
const (
	OrderStacks  Order = iota + 1 // send the stacks of all goroutines
	OrderProfile                  // write the profiles now: the end is near
	OrderNews                     // look at the failure page; this one is not answered
	OrderCalls                    // say in a line in which calls of the library the program is
)

// MaxText is how much text of an answer fits into one packet.
const MaxText = MaxPacket - orderBytes

// orderBytes is the size of the fixed part of an OrderPacket.
const orderBytes = 16

// OrderPacket is an order, or a part of its answer.
type OrderPacket struct {
	Order Order
	Last  bool   // of an answer
	Text  string // of an answer
}

// Append appends the packet to b; of its text, what fits.
func (p *OrderPacket) Append(b []byte) []byte {
	text := p.Text[:min(len(p.Text), MaxText)]
	b = header(b, text)
	b = binary.LittleEndian.AppendUint32(b, uint32(p.Order))
	b = binary.LittleEndian.AppendUint32(b, mark(p.Last))
	return append(b, text...)
}

// ParseOrder is the inverse of Append.
func ParseOrder(b []byte) (p OrderPacket, err error) {
	text, err := check(b, orderBytes, "order")
	if err != nil {
		return p, err
	}
	last := binary.LittleEndian.Uint32(b[12:])
	if last > 1 {
		return p, fmt.Errorf("order with mark %d, want 0 or 1", last)
	}
	return OrderPacket{Order: Order(binary.LittleEndian.Uint32(b[8:])), Last: last == 1, Text: text}, nil
}
