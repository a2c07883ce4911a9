package record

import (
	"encoding/binary"
	"fmt"

	"github.com/goshmem/goshmem/symheap/layout"
)

// Error says which field of a record is bad.
type Error struct {
	Op    Op     // 0: the record is too short to have one
	Field string // the record's field, as in the package documentation
	Got   uint64 // what it holds
	Want  string // what it may hold
}

func (e *Error) Error() string {
	if e.Op == 0 {
		return fmt.Sprintf("record: %s is %d, want %s", e.Field, e.Got, e.Want)
	}
	return fmt.Sprintf("%v record: %s is %d, want %s", e.Op, e.Field, e.Got, e.Want)
}

// Parse makes r a view of the record at the start of b, and returns what follows it. It looks at the size and at
// the slot, without which there is no answer to say what is wrong. Limits.Check looks at the rest.
func Parse(b []byte, r *Record) (rest []byte, err error) {
	size := putSize(b)
	if size == 0 {
		if size, err = sizeAt(b); err != nil {
			return nil, err
		}
	}
	first := binary.LittleEndian.Uint64(b)
	r.Op, r.Code, r.Local, r.Length = Op(first), uint8(first>>8), uint16(first>>16), uint32(first>>32)
	r.Offset = binary.LittleEndian.Uint64(b[8:])
	r.payload = b[header:size:size]
	return b[size:], nil
}

// Count returns how many records b consists of. It accepts what Parse accepts.
func Count(b []byte) (n int, err error) {
	n, _, err = Survey(b)
	return n, err
}

// Survey is Count, and says whether there is an OpPutFrom among the records.
func Survey(b []byte) (n int, putsFrom bool, err error) {
	for {
		for len(b) >= SizePutWord && binary.LittleEndian.Uint64(b)&putWordMask == putWord {
			b = b[SizePutWord:]
			n++
		}
		if len(b) == 0 {
			return n, putsFrom, nil
		}
		size := putSize(b)
		if size == 0 {
			if size, err = sizeAt(b); err != nil {
				return n, putsFrom, err
			}
		}
		putsFrom = putsFrom || Op(b[0]) == OpPutFrom
		b = b[size:]
		n++
	}
}

// PutWordAt returns the put of 8 bytes at the start of b, if one is there.
func PutWordAt(b []byte) (local uint16, off, word uint64, ok bool) {
	if len(b) < SizePutWord {
		return 0, 0, 0, false
	}
	first := binary.LittleEndian.Uint64(b)
	return uint16(first >> 16), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:]), first&putWordMask == putWord
}

// Skip returns what follows the first n records of b.
func Skip(b []byte, n int) ([]byte, error) {
	for range n {
		size, err := sizeAt(b)
		if err != nil {
			return nil, err
		}
		b = b[size:]
	}
	return b, nil
}

// putSize is sizeAt in line for a put, the most frequent record. It returns 0 for other records and for errors.
func putSize(b []byte) int {
	if len(b) < header {
		return 0
	}
	first := binary.LittleEndian.Uint64(b)
	size := int(header + (first>>32+7)&^7)
	if Op(first) != OpPut || size > MaxRecord || size > len(b) {
		return 0
	}
	return size
}

// sizeAt returns the size of the record at the start of b, which b holds in full.
func sizeAt(b []byte) (int, error) {
	if len(b) < header {
		return 0, &Error{Field: "size", Got: uint64(len(b)), Want: fmt.Sprintf("at least %d", header)}
	}
	first := binary.LittleEndian.Uint64(b)
	op, length := Op(first), first>>32
	var size uint64
	switch op {
	case OpPut, OpTeam:
		size = header + (length+7)&^7
	case OpPutStrided:
		size = header + shapeSize + (length+7)&^7
	case OpGet:
		size = SizeGet
	case OpGetStrided:
		size = SizeGetStrided
	case OpAtomic:
		size = SizeAtomic
	case OpAtomicFetch:
		size = SizeAtomicFetch
	case OpFetchOnce:
		size = SizeFetchOnce
	case OpSignal:
		size = SizeSignal
	case OpPutFrom:
		size = SizePutFrom
	case OpMessage:
		size = header + uint64(messageHead(uint8(first>>8))) + (length+7)&^7
	case OpMessagePart:
		if size = header + (length+7)&^7; length == 0 { // shorter than any other record
			return 0, &Error{Op: op, Field: "length", Got: 0, Want: "at least 1"}
		}
	default:
		return 0, &Error{Field: "op", Got: uint64(op), Want: fmt.Sprintf("%d to %d", OpPut, opEnd-1)}
	}
	if size > MaxRecord {
		return 0, &Error{Op: op, Field: "length", Got: length, Want: fmt.Sprintf("a record of at most %d bytes", MaxRecord)}
	}
	if size > uint64(len(b)) {
		return 0, &Error{Op: op, Field: "size", Got: size, Want: fmt.Sprintf("at most the %d bytes that are there", len(b))}
	}
	if op.Answers() { // the slot is the last word of the payload
		if slot := binary.LittleEndian.Uint64(b[size-8:]); slot >= layout.WireSlots {
			return 0, &Error{Op: op, Field: "slot", Got: slot, Want: fmt.Sprintf("less than %d", layout.WireSlots)}
		}
	}
	return int(size), nil
}
