package bmg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// A message in bytes, little endian:
//
//	u16 payloads, u16 acknowledgments
//	each payload: key, u32 origin, u32 cause, u64 at, u32 length of data, data
//	each acknowledgment: key
//
// A key is u8 kind, u32 job, u64 id, u32 incarnation, u64 number: 25 bytes. The report of a node's death takes 45 bytes and four for the counts,
// whatever ran there.
const (
	countBytes   = 4
	keyBytes     = 25
	payloadBytes = keyBytes + 20 // without data
)

// MostInMessage is the largest number of payloads, and of acknowledgments, that a message holds in bytes.
const MostInMessage = math.MaxUint16

// ErrMessage reports bytes that are no message.
var ErrMessage = errors.New("bytes are no broadcast message")

// Append appends the message to b. The message holds at most MostInMessage payloads and acknowledgments.
func (m *Msg) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(len(m.Payloads)))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(m.Acks)))
	for i := range m.Payloads {
		p := &m.Payloads[i]
		b = p.append(b)
		b = binary.LittleEndian.AppendUint32(b, uint32(p.Origin))
		b = binary.LittleEndian.AppendUint32(b, p.Cause)
		b = binary.LittleEndian.AppendUint64(b, uint64(p.At))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(p.Data)))
		b = append(b, p.Data...)
	}
	for i := range m.Acks {
		b = m.Acks[i].append(b)
	}
	return b
}

// append appends the key to b.
func (k *Key) append(b []byte) []byte {
	b = append(b, byte(k.Kind))
	b = binary.LittleEndian.AppendUint32(b, k.Job)
	b = binary.LittleEndian.AppendUint64(b, k.ID)
	b = binary.LittleEndian.AppendUint32(b, k.Inc)
	return binary.LittleEndian.AppendUint64(b, k.Seq)
}

// ParseMsg reads a message among n members. The data of its payloads are parts of b.
func ParseMsg(b []byte, n int) (Msg, error) {
	var m Msg
	if len(b) < countBytes {
		return m, fmt.Errorf("%w: %d bytes, want at least %d", ErrMessage, len(b), countBytes)
	}
	payloads, acks := int(binary.LittleEndian.Uint16(b)), int(binary.LittleEndian.Uint16(b[2:]))
	b = b[countBytes:]
	if least := payloads*payloadBytes + acks*keyBytes; len(b) < least { // before room is made for so many
		return m, fmt.Errorf("%w: %d bytes for %d payloads and %d acknowledgments, want at least %d",
			ErrMessage, len(b), payloads, acks, least)
	}
	if payloads > 0 {
		m.Payloads = make([]Payload, payloads)
	}
	for i := range m.Payloads {
		var err error
		if b, err = m.Payloads[i].parse(b, n); err != nil {
			return Msg{}, fmt.Errorf("payload %d: %w", i, err)
		}
	}
	if acks > 0 {
		m.Acks = make([]Key, acks)
	}
	if len(b) != acks*keyBytes {
		return Msg{}, fmt.Errorf("%w: %d bytes for %d acknowledgments, want %d", ErrMessage, len(b), acks, acks*keyBytes)
	}
	for i := range m.Acks {
		k := &m.Acks[i]
		if b = k.parse(b); !k.isValid(Node(n)) {
			return Msg{}, fmt.Errorf("%w: acknowledgment %d of %+v among %d members", ErrMessage, i, *k, n)
		}
	}
	return m, nil
}

// parse reads a payload, and returns the bytes behind it.
func (p *Payload) parse(b []byte, n int) ([]byte, error) {
	if len(b) < payloadBytes {
		return nil, fmt.Errorf("%w: %d bytes, want at least %d", ErrMessage, len(b), payloadBytes)
	}
	b = p.Key.parse(b)
	p.Origin = Node(binary.LittleEndian.Uint32(b))
	p.Cause = binary.LittleEndian.Uint32(b[4:])
	p.At = int64(binary.LittleEndian.Uint64(b[8:]))
	size := binary.LittleEndian.Uint32(b[16:])
	b = b[payloadBytes-keyBytes:]
	switch {
	case !p.isValid(Node(n)):
		return nil, fmt.Errorf("%w: %+v among %d members", ErrMessage, p.Key, n)
	case p.Origin < 0 || int(p.Origin) >= n:
		return nil, fmt.Errorf("%w: origin %d, want 0 to %d", ErrMessage, p.Origin, n-1)
	case uint64(size) > uint64(len(b)):
		return nil, fmt.Errorf("%w: %d bytes for data, want %d", ErrMessage, len(b), size)
	case size > 0 && p.Kind != KindEvent:
		return nil, fmt.Errorf("%w: %d bytes of data with a payload of kind %d, want none", ErrMessage, size, p.Kind)
	case size > 0:
		p.Data = b[:size:size]
	}
	return b[size:], nil
}

// parse reads a key from bytes that hold one, and returns those behind it.
func (k *Key) parse(b []byte) []byte {
	k.Kind = Kind(b[0])
	k.Job = binary.LittleEndian.Uint32(b[1:])
	k.ID = binary.LittleEndian.Uint64(b[5:])
	k.Inc = binary.LittleEndian.Uint32(b[13:])
	k.Seq = binary.LittleEndian.Uint64(b[17:])
	return b[keyBytes:]
}
