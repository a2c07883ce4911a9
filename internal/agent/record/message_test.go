package record

import (
	"bytes"
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"

	"github.com/goshmem/goshmem/symheap/layout"
)

// bodyOf returns a body of a cell.
func bodyOf(word uint64) []byte {
	return bytes.Repeat(binary.LittleEndian.AppendUint64(nil, word), layout.CellBody/8)
}

// messageOf returns a message of n bytes, with a body if the code says so.
func messageOf(pe layout.Local, code uint8, n int) []byte {
	var body []byte
	if code&MessageBody != 0 {
		body = bodyOf(3)
	}
	b, _ := ReserveMessage(nil, pe, code, 1<<40, 7, body, n)
	return b
}

// partOf returns a part of a message.
func partOf(pe layout.Local, code uint8, n int) []byte {
	b, _ := ReserveMessagePart(nil, pe, code, n)
	return b
}

// Messages and parts have the fields that they were made with.
func TestMessageFields(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pe, match, size := layout.Local(rapid.IntRange(0, layout.MaxLocal-1).Draw(t, "pe")), rapid.Uint64().Draw(t, "match"), rapid.Uint64().Draw(t, "size")
		code := rapid.Byte().Draw(t, "code")
		data := rapid.SliceOfN(rapid.Byte(), 0, 64).Draw(t, "data")
		var body []byte
		if rapid.Bool().Draw(t, "body") {
			body = bodyOf(match)
		}
		record, room := ReserveMessage(nil, pe, code&(MessageKind|MessageCut), match, size, body, len(data))
		copy(room, data)
		r := parseOne(t, record)
		if r.Op != OpMessage || r.Code&^MessageBody != code&(MessageKind|MessageCut) || r.Local != uint16(pe) || r.Offset != match || r.MessageSize() != size ||
			!bytes.Equal(r.Data(), data) || !bytes.Equal(r.MessageBody(), body) || r.Operand() != 0 || r.MayWait() || len(record) != SizeMessage(r.Code, len(data)) {
			t.Fatalf("%+v with size %d, body % x and data % x", r, r.MessageSize(), r.MessageBody(), r.Data())
		}
		data = append(data, 1) // a part has data
		record, room = ReserveMessagePart(nil, pe, code&MessageCut, len(data))
		copy(room, data)
		r = parseOne(t, record)
		if r.Op != OpMessagePart || r.Code != code&MessageCut || r.Local != uint16(pe) || r.Offset != 0 || r.MessageSize() != 0 || r.MessageBody() != nil ||
			!bytes.Equal(r.Data(), data) || len(record) != SizeMessagePart(len(data)) {
			t.Fatalf("%+v with data % x, want those of a part with % x", r, r.Data(), data)
		}
	})
}

func TestMessagesRefused(t *testing.T) {
	with := func(b []byte, at int, v byte) []byte { b[at] = v; return b }
	for _, c := range []struct {
		name  string
		b     []byte
		field string // empty: good
	}{
		{"message", messageOf(3, 1, 8), ""},
		{"message of nothing", messageOf(3, MessageKind|MessageBody, 0), ""},
		{"longest message", messageOf(0, 1|MessageCut, MaxMessageData), ""},
		{"message to PE 4 of 4", messageOf(4, 1, 8), "local PE"},
		{"message of no kind", messageOf(3, MessageCut, 8), "code"},
		{"message, unknown flag", with(messageOf(3, 1, 8), 1, 1|1<<5), "code"},
		{"message of nothing that goes on", messageOf(3, 1|MessageCut, 0), "length"},
		{"part", partOf(3, MessageCut, 8), ""},
		{"longest part", partOf(3, 0, MaxMessagePart), ""},
		{"part to PE 4 of 4", partOf(4, 0, 8), "local PE"},
		{"part with a kind", partOf(0, 1, 8), "code"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := parseOne(t, c.b)
			expectField(t, testLimits.Check(&r), c.field)
		})
	}
	var r Record
	for _, b := range [][]byte{messageOf(0, 1, MaxMessageData+1), partOf(0, 0, MaxMessagePart+1), make([]byte, 64)} {
		if b[0] == 0 {
			b[0] = byte(OpMessagePart) // without data
			_, err := Parse(b, &r)
			expectField(t, err, "length")
			continue
		}
		_, err := Parse(b, &r)
		expectField(t, err, "length")
	}
}
