package detector

import "github.com/goshmem/goshmem/detector/bmg"

// mostBytes is the largest size of a datagram with news. It fits into a frame of every network.
const mostBytes = 1200

// Sizes of package bmg's coding.
const (
	newsHead    = 4
	newsPayload = 45 // without data
	newsAck     = 25
)

// split hands over a message in parts of at most room bytes each. A payload that is larger makes a part of its own.
func split(m bmg.Msg, room int, part func(*bmg.Msg)) {
	for len(m.Payloads)+len(m.Acks) > 0 {
		left, payloads := room-newsHead, 0
		for payloads < len(m.Payloads) {
			size := newsPayload + len(m.Payloads[payloads].Data)
			if size > left && payloads > 0 {
				break
			}
			left -= size
			payloads++
		}
		acks := min(max(left, 0)/newsAck, len(m.Acks))
		if payloads < len(m.Payloads) {
			acks = 0 // they go with the last payload
		}
		if payloads == 0 {
			acks = max(acks, min(1, len(m.Acks)))
		}
		part(&bmg.Msg{Payloads: m.Payloads[:payloads], Acks: m.Acks[:acks]})
		m.Payloads, m.Acks = m.Payloads[payloads:], m.Acks[acks:]
	}
}
