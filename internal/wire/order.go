package wire

import (
	"encoding/binary"
	"fmt"
)

// Order is a request of the step to a PE.
type Order uint32

// The orders.
const (
	OrderStacks  Order = iota + 1 // send the stacks of all goroutines
	OrderProfile                  // write the profiles: the process will be ended
	OrderNews                     // read the failure page; this order is not answered
	OrderCalls                    // send a line with the calls of the library that the program is in
)

// MaxText bounds the text of an answer in one packet.
const MaxText = MaxPacket - orderBytes

// orderBytes is the size of the fixed part of an OrderPacket.
const orderBytes = 16

// OrderPacket is an order, or a part of its answer.
type OrderPacket struct {
	Order Order
	Last  bool   // the packet is the last one of the answer
	Text  string // text of an answer
}

// Append appends the packet to b. It cuts the text at MaxText.
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
		return p, fmt.Errorf("order: last is %d, want 0 or 1", last)
	}
	return OrderPacket{Order: Order(binary.LittleEndian.Uint32(b[8:])), Last: last == 1, Text: text}, nil
}
