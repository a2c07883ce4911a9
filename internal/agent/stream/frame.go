package stream

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Kind is the kind of a frame.
type Kind uint8

// The kinds of frames; the package documentation has a table of them.
const (
	KindAnswered Kind = 1 + iota
	KindHello
	KindRecords
	KindExecuted
	KindWelcome
	KindDone
	KindValue
	KindData
	kindEnd
)

var kindNames = [...]string{
	KindAnswered: "answered", KindHello: "hello", KindRecords: "records", KindExecuted: "executed",
	KindWelcome: "welcome", KindDone: "done", KindValue: "value", KindData: "data",
}

// String returns the kind's name.
func (k Kind) String() string {
	if k > 0 && k < kindEnd {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// isOfSender reports whether senders send frames of the kind. Receivers send the others.
func (k Kind) isOfSender() bool { return k <= KindRecords }

// HeaderSize is the size of a header in bytes.
const HeaderSize = 32

// Header is the header of a frame.
type Header struct {
	Kind        Kind
	Class       uint8
	Local       uint16 // the PE whose stream it is, at the sender
	Incarnation uint32 // of that PE
	Number      uint64
	Word        uint64
	N           uint32
	Bytes       uint32 // of the body
}

// Append appends the header to b.
func (h *Header) Append(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(b, uint64(h.Kind)|uint64(h.Class)<<8|uint64(h.Local)<<16|uint64(h.Incarnation)<<32)
	b = le.AppendUint64(b, h.Number)
	b = le.AppendUint64(b, h.Word)
	return le.AppendUint64(b, uint64(h.N)|uint64(h.Bytes)<<32)
}

// parseHeader is the inverse of Append.
func parseHeader(b []byte) Header {
	le := binary.LittleEndian
	first, last := le.Uint64(b), le.Uint64(b[24:])
	return Header{
		Kind: Kind(first), Class: uint8(first >> 8), Local: uint16(first >> 16), Incarnation: uint32(first >> 32),
		Number: le.Uint64(b[8:]), Word: le.Uint64(b[16:]), N: uint32(last), Bytes: uint32(last >> 32),
	}
}

// slotAndStatus returns what n holds in answers.
func (h *Header) slotAndStatus() (slot uint32, status record.Status) {
	return h.N & 0xffff, record.Status(h.N >> 16)
}

// ErrFrame is the cause of errors about frames that no agent sends.
var ErrFrame = errors.New("bad frame")

// bad returns an error about the frame.
func (h *Header) bad(field string, got uint64, want string, args ...any) error {
	return fmt.Errorf("%w: %v of local PE %d, class %d, incarnation %d: %s is %d, want %s",
		ErrFrame, h.Kind, h.Local, h.Class, h.Incarnation, field, got, fmt.Sprintf(want, args...))
}

// check checks what can be checked without knowing the stream.
func (h *Header) check(ofSender bool) error {
	if h.Kind == 0 || h.Kind >= kindEnd || h.Kind.isOfSender() != ofSender {
		from := "receiver"
		if ofSender {
			from = "sender"
		}
		return h.bad("kind", uint64(h.Kind), "one of a %s", from)
	}
	if h.Class >= layout.WireClasses {
		return h.bad("class", uint64(h.Class), "less than %d", layout.WireClasses)
	}
	if h.Local >= layout.MaxLocal {
		return h.bad("local PE", uint64(h.Local), "less than %d", layout.MaxLocal)
	}
	most := uint32(0)
	switch h.Kind {
	case KindRecords:
		most = layout.WireBody
		if h.N == 0 || h.N > h.Bytes/leastRecord {
			return h.bad("n", uint64(h.N), "1 to %d for %d bytes", h.Bytes/leastRecord, h.Bytes)
		}
		if h.Number+uint64(h.N) < h.Number {
			return h.bad("first number", h.Number, "at most 2^64 - %d", h.N)
		}
	case KindData:
		most = record.MaxGet
		if h.Bytes == 0 {
			return h.bad("bytes", 0, "at least 1")
		}
	default:
	}
	if h.Bytes > most {
		return h.bad("bytes", uint64(h.Bytes), "at most %d", most)
	}
	if h.Kind == KindValue || h.Kind == KindData {
		slot, status := h.slotAndStatus()
		if slot >= layout.WireSlots {
			return h.bad("slot", uint64(slot), "less than %d", layout.WireSlots)
		}
		if !status.IsValid() {
			return h.bad("status", uint64(status), "a declared one")
		}
	}
	return nil
}

// leastRecord is the size of the shortest record in bytes.
const leastRecord = record.SizeSignal

// parser cuts bytes that arrive in any pieces into frames.
type parser struct {
	head     Header
	raw      [HeaderSize]byte // the header under assembly
	have     int              // bytes of the header under assembly; HeaderSize: head is valid and its body is not over
	done     int              // bytes of the body that have come
	body     []byte           // room for a body of records that comes in pieces; made at the first one
	ofSender bool             // who sends the frames
	out      piece            // of each, while it calls its function; a variable of its own would be allocated
}

// piece is a frame without a body, a whole body of records, or a part of the data of an answer.
type piece struct {
	*Header
	body  []byte // valid until the next call
	at    int    // place of body in the frame's body
	whole bool   // the frame is over
}

// reset forgets a frame under assembly, for a new connection.
func (p *parser) reset() { p.have, p.done = 0, 0 }

// each calls handle with each piece of data, until handle returns an error or a frame is wrong. What is left of data is kept.
func (p *parser) each(data []byte, handle func(*piece) error) (err error) {
	for {
		var ok bool
		if data, p.out, ok, err = p.next(data); err == nil && ok {
			err = handle(&p.out)
		}
		if err != nil || !ok {
			p.out = piece{}
			return err
		}
	}
}

// next takes the next piece from data and returns the rest. It returns false if there is none; then it has
// kept all of data.
func (p *parser) next(data []byte) (rest []byte, out piece, ok bool, err error) {
	if p.have < HeaderSize {
		n := copy(p.raw[p.have:], data)
		data = data[n:]
		if p.have += n; p.have < HeaderSize {
			return nil, piece{}, false, nil
		}
		p.head, p.done = parseHeader(p.raw[:]), 0
		if err := p.head.check(p.ofSender); err != nil {
			return nil, piece{}, false, err
		}
	}
	size := int(p.head.Bytes)
	missing := size - p.done
	switch {
	case size == 0:
	case p.head.Kind != KindRecords:
		if len(data) == 0 {
			return nil, piece{}, false, nil
		}
		n := min(missing, len(data))
		out.body, out.at = data[:n:n], p.done
		data = data[n:]
		if p.done += n; p.done < size {
			out.Header = &p.head
			return data, out, true, nil
		}
	case p.done == 0 && len(data) >= size: // the usual case: nothing is copied
		out.body, data = data[:size:size], data[size:]
	default:
		if p.body == nil {
			p.body = make([]byte, layout.WireBody)
		}
		n := copy(p.body[p.done:size], data)
		data = data[n:]
		if p.done += n; p.done < size {
			return nil, piece{}, false, nil
		}
		out.body = p.body[:size:size]
	}
	p.have = 0
	out.Header, out.whole = &p.head, true
	return data, out, true, nil
}
