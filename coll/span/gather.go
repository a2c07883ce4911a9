package span

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/goshmem/goshmem/internal/fold"
)

// The data of a step are a record, and behind it what the members give besides. In a collective these are the pieces of the members,
// each with its own, or the folded elements of all. In an agreement they are the bits of all members together.

// A piece is u16 node, u16 member and u32 bytes, in little endian, and then the bytes. Node is the index of the node in the team,
// member that of the member in the part there.
const pieceHead = 8

// deadNode is the node of the piece that has the members which are known to be dead: a bit for each, by index in the team. There is one
// at most, and behind it no other.
const deadNode = 1<<16 - 1

// PieceBytes returns how long the pieces of so many members are, each of which gives n bytes.
func PieceBytes(members, n int) int { return members * (pieceHead + n) }

// AppendPiece appends a member's piece.
func AppendPiece(b []byte, node, member int, data []byte) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(node))
	b = binary.LittleEndian.AppendUint16(b, uint16(member))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(data)))
	return append(b, data...)
}

// AppendGiven appends to a member's record what it gives besides: a piece or, if it could not do its part because of deaths, the bits of the
// dead. With another fault it gives nothing.
func AppendGiven(record []byte, node, member int, given []byte) []byte {
	var r Record
	copy(r.Bytes(), record)
	switch {
	case len(given) == 0:
		return record
	case r.Fault == Dead || r.Fault == Again:
		return AppendPiece(record, deadNode, 0, given)
	case r.Fault != NoFault:
		return record
	}
	return AppendPiece(record, node, member, given)
}

// DeadOf returns the bits of members that are known to be dead, by the pieces of a step with a fault.
func DeadOf(pieces []byte) []byte {
	for {
		node, _, data, rest, ok := CutPiece(pieces)
		if !ok || node == deadNode {
			return data
		}
		pieces = rest
	}
}

// CutPiece returns the first piece of b and what is behind it. ok is false if there is none.
func CutPiece(b []byte) (node, member int, data, rest []byte, ok bool) {
	if len(b) < pieceHead {
		return 0, 0, nil, nil, false
	}
	n := binary.LittleEndian.Uint32(b[4:])
	if uint64(n) > uint64(len(b)-pieceHead) {
		return 0, 0, nil, nil, false
	}
	end := pieceHead + int(n)
	return int(binary.LittleEndian.Uint16(b)), int(binary.LittleEndian.Uint16(b[2:])), b[pieceHead:end:end], b[end:], true
}

// FoldSteps is Config.Fold for collectives. Pieces stand in the order of nodes and members. Elements are folded if they are of one
// type, as many, and for one operator. Nobody uses what members give to a step with a fault. Of that, only the piece of the dead
// remains, which so fits into a result.
func FoldSteps(acc, in []byte) []byte {
	a, b := shapeOf(acc), shapeOf(in)
	switch {
	case a.fault || b.fault:
		pieces := mergePieces(a.piecesIn(acc), b.piecesIn(in))
		folded := foldRecords(acc, in)
		if dead := DeadOf(pieces); dead != nil {
			return AppendPiece(folded, deadNode, 0, dead)
		}
		return folded
	case a.op == fold.KindUser && b.op == fold.KindUser:
		pieces := mergePieces(acc[RecordBytes:], in[RecordBytes:])
		return append(foldRecords(acc, in), pieces...)
	case a == b: // nothing is behind mixed data
		fold.Bytes(a.op, a.elem, acc[RecordBytes:], in[RecordBytes:])
		foldRecords(acc, in)
		return acc
	}
	acc = foldRecords(acc, in)
	var r Record
	copy(r.Bytes(), acc)
	r.Op, r.Elem, r.Give = Mixed, fold.NoElem, 0
	copy(acc, r.Bytes())
	return acc
}

// shape is what is behind a record.
type shape struct {
	op    fold.Kind
	elem  fold.Elem
	bytes int
	fault bool
}

func shapeOf(data []byte) shape {
	var r Record
	copy(r.Bytes(), data)
	return shape{r.Op, r.Elem, len(data) - RecordBytes, r.Fault != NoFault}
}

// piecesIn returns the pieces behind a record.
func (s shape) piecesIn(data []byte) []byte {
	if s.op != fold.KindUser {
		return nil
	}
	return data[RecordBytes:]
}

// CheckSteps is Config.Check for collectives.
func CheckSteps(data []byte) error {
	switch s := shapeOf(data); {
	case s.op == fold.KindUser:
		return nil // FoldSteps leaves out what is no piece
	case s.op == Mixed:
		if s.elem != fold.NoElem || s.bytes != 0 {
			return fmt.Errorf("%d bytes of %v behind a record of mixed data, want none", s.bytes, s.elem)
		}
	case !s.elem.Has(s.op):
		return fmt.Errorf("operator %v (%d) for elements of %v, want one of the predefined operators of that type", s.op, uint8(s.op), s.elem)
	case s.bytes%s.elem.Size() != 0:
		return fmt.Errorf("%d bytes of %v, want a multiple of %d", s.bytes, s.elem, s.elem.Size())
	}
	return nil
}

// foldRecords folds the records, and returns the result in the memory of acc.
func foldRecords(acc, in []byte) []byte {
	var a, b Record
	copy(a.Bytes(), acc)
	copy(b.Bytes(), in)
	a.Fold(&b)
	copy(acc, a.Bytes())
	return acc[:RecordBytes]
}

// mergePieces returns the pieces of a and b in order. What is no piece is left out: only a node that is broken sends such a thing.
func mergePieces(a, b []byte) []byte {
	if len(b) == 0 {
		return bytes.Clone(a)
	}
	merged := make([]byte, 0, len(a)+len(b))
	for len(a) > 0 || len(b) > 0 {
		nodeA, memberA, dataA, restA, okA := CutPiece(a)
		nodeB, memberB, dataB, restB, okB := CutPiece(b)
		switch {
		case !okA && !okB:
			return merged
		case okA && okB && nodeA == deadNode && nodeB == deadNode:
			merged, a, b = AppendPiece(merged, deadNode, 0, mergeBits(dataA, dataB)), restA, restB
		case okA && (!okB || cmp.Or(cmp.Compare(nodeA, nodeB), cmp.Compare(memberA, memberB)) <= 0):
			merged, a = append(merged, a[:len(a)-len(restA)]...), restA
		default:
			merged, b = append(merged, b[:len(b)-len(restB)]...), restB
		}
	}
	return merged
}

// FoldBits is Config.Fold for records with bits: a bit is set that one has set.
func FoldBits(acc, in []byte) []byte {
	bits := mergeBits(acc[RecordBytes:], in[RecordBytes:])
	return append(foldRecords(acc, in), bits...)
}

// mergeBits returns the bits that one of both has set.
func mergeBits(one, other []byte) []byte {
	bits := bytes.Clone(one)
	if len(bits) < len(other) {
		bits = append(bits, make([]byte, len(other)-len(bits))...)
	}
	for i := range other {
		bits[i] |= other[i]
	}
	return bits
}
