package record

import (
	"encoding/binary"
	"slices"

	"github.com/goshmem/goshmem/symheap/layout"
)

// The functions here append one record to b. They do not allocate if b has room for it (see the Size
// functions). They check nothing: the caller has checked its arguments, and the target's agent checks the
// record.

// AppendPut appends a put of data, of at most MaxPut bytes.
func AppendPut(b []byte, pe layout.Local, off uint64, data []byte) []byte {
	b, room := ReservePut(b, pe, off, len(data))
	copy(room, data)
	return b
}

// ReservePut appends a put of n bytes, at most MaxPut, and returns where the caller then writes them.
func ReservePut(b []byte, pe layout.Local, off uint64, n int) (record, data []byte) {
	b, p := reserve(b, OpPut, 0, pe, n, off, pad(n))
	return b, padded(p, n)
}

// AppendTeam appends a message between agents, of at most MaxPut bytes. The code is TeamSoon or TeamLater.
func AppendTeam(b []byte, code uint8, message []byte) []byte {
	b, p := reserve(b, OpTeam, code, 0, len(message), 0, pad(len(message)))
	copy(padded(p, len(message)), message)
	return b
}

// AppendPutWord appends a put of 8 bytes, for which b has room.
func AppendPutWord(b []byte, pe layout.Local, off, word uint64) []byte {
	at := len(b)
	b = b[:at+SizePutWord]
	r := b[at:][:SizePutWord]
	binary.LittleEndian.PutUint64(r, putWord|uint64(uint16(pe))<<16)
	binary.LittleEndian.PutUint64(r[8:], off)
	binary.LittleEndian.PutUint64(r[16:], word)
	return b
}

// ReservePutStrided appends a strided put, and returns where the caller then writes its s.Block*s.N bytes,
// at most MaxPutStrided.
func ReservePutStrided(b []byte, pe layout.Local, off uint64, s Shape) (record, data []byte) {
	n := int(s.Block * s.N)
	b, p := reserve(b, OpPutStrided, 0, pe, n, off, shapeSize+pad(n))
	putWords(p, s.Step, s.Block, s.N)
	return b, padded(p[shapeSize:], n)
}

// AppendPutFrom appends a put of n bytes, a multiple of 8 and at most MaxPut, from an offset of the caller's segment.
func AppendPutFrom(b []byte, pe layout.Local, off uint64, n int, from uint64) []byte {
	b, p := reserve(b, OpPutFrom, 0, pe, n, off, 8)
	putWords(p, from)
	return b
}

// AppendPutHead appends what precedes the data in the put that r, an OpPutFrom, becomes.
func AppendPutHead(b []byte, r *Record) []byte {
	b, _ = reserve(b, OpPut, 0, layout.Local(r.Local), int(r.Length), r.Offset, 0)
	return b
}

// AppendGet appends a get of n bytes to offset to of the caller's segment.
func AppendGet(b []byte, pe layout.Local, off uint64, n int, to, slot uint64) []byte {
	b, p := reserve(b, OpGet, 0, pe, n, off, answerSize)
	putWords(p, to, slot)
	return b
}

// AppendGetStrided appends a strided get, whose blocks go packed to offset to of the caller's segment.
func AppendGetStrided(b []byte, pe layout.Local, off uint64, s Shape, to, slot uint64) []byte {
	b, p := reserve(b, OpGetStrided, 0, pe, int(s.Block*s.N), off, shapeSize+answerSize)
	putWords(p, s.Step, s.Block, s.N, to, slot)
	return b
}

// AppendAtomic appends an atomic operation without an answer. CodeOf makes the code.
func AppendAtomic(b []byte, pe layout.Local, off uint64, code uint8, operand, cond uint64) []byte {
	b, p := reserve(b, OpAtomic, code, pe, 0, off, 16)
	putWords(p, operand, cond)
	return b
}

// AppendAtomicFetch appends an atomic operation whose answer is the word's old value.
func AppendAtomicFetch(b []byte, pe layout.Local, off uint64, code uint8, operand, cond, slot uint64) []byte {
	b, p := reserve(b, OpAtomicFetch, code, pe, 0, off, 24)
	putWords(p, operand, cond, slot)
	return b
}

// AppendFetchOnce appends an atomic operation that was sent by an express socket before, with a number.
func AppendFetchOnce(b []byte, pe layout.Local, off uint64, code uint8, operand, cond, number, slot uint64) []byte {
	b, p := reserve(b, OpFetchOnce, code, pe, 0, off, 32)
	putWords(p, operand, cond, number, slot)
	return b
}

// AppendSignal appends an update of a signal: SignalSet or SignalAdd.
func AppendSignal(b []byte, pe layout.Local, off uint64, code uint8, value uint64) []byte {
	b, p := reserve(b, OpSignal, code, pe, 0, off, 8)
	putWords(p, value)
	return b
}

// ReserveMessage appends a message whose cell has the words match and size, and returns where the caller then writes its n bytes of data. The code
// has the kind. body is the body of the cell; nil: it has none besides the data.
func ReserveMessage(b []byte, pe layout.Local, code uint8, match, size uint64, body []byte, n int) (record, data []byte) {
	if body != nil {
		code |= MessageBody
	}
	head := messageHead(code)
	b, p := reserve(b, OpMessage, code, pe, n, match, head+pad(n))
	putWords(p, size)
	copy(p[8:head], body)
	return b, padded(p[head:], n)
}

// ReserveMessagePart appends the next part of a message, and returns where the caller then writes its n bytes, at least 1. The code is
// MessageCut or 0.
func ReserveMessagePart(b []byte, pe layout.Local, code uint8, n int) (record, data []byte) {
	b, p := reserve(b, OpMessagePart, code, pe, n, 0, pad(n))
	return b, padded(p, n)
}

// reserve appends the header of a record and room for its payload.
func reserve(b []byte, op Op, code uint8, pe layout.Local, length int, off uint64, payload int) (record, room []byte) {
	at, size := len(b), header+payload
	if cap(b)-at < size {
		b = slices.Grow(b, size)
	}
	b = b[:at+size]
	r := b[at:]
	first := uint64(op) | uint64(code)<<8 | uint64(uint16(pe))<<16 | uint64(uint32(length))<<32
	binary.LittleEndian.PutUint64(r, first)
	binary.LittleEndian.PutUint64(r[8:], off)
	return b, r[header:]
}

// padded writes the zeros behind n bytes of data in p, and returns the place of the data.
func padded(p []byte, n int) []byte {
	if n&7 != 0 {
		clear(p[n:])
	}
	return p[:n:n]
}

// putWords writes words to the start of p.
func putWords(p []byte, words ...uint64) {
	for i, w := range words {
		binary.LittleEndian.PutUint64(p[8*i:], w)
	}
}
