package record

import (
	"fmt"

	"github.com/goshmem/goshmem/symheap/layout"
)

// Range is a part of a segment, from offset From up to To.
type Range struct{ From, To uint64 }

// contains reports whether the n bytes at off lie in the range.
func (g Range) contains(off, n uint64) bool {
	return off >= g.From && off <= g.To && n <= g.To-off
}

// Limits says which memory records may reach.
type Limits struct {
	Near        int    // PEs on the target's node
	SegmentSize uint64 // bytes of each segment. The last layout.WireSize bytes are the wire region; the heap ends before them.
	Words       Range  // words of the control region that operations without a stride may reach; empty: none
	Rooms       Range  // the part of the wire region in which PEs have room for answers; empty: none
}

// HasWord reports whether an aligned word of 8 bytes at off lies in the range, which is not empty and of whole words.
func (g Range) HasWord(off uint64) bool { return off%8 == 0 && off >= g.From && off < g.To }

// HeapWords returns the range of the symmetric heap, for HasWord.
func (l *Limits) HeapWords() Range {
	g := l.heap()
	return Range{g.From, g.To &^ 7}
}

// heap returns the range of the symmetric heap.
func (l *Limits) heap() Range {
	if l.SegmentSize < layout.HeapOffset+layout.WireSize {
		return Range{}
	}
	return Range{layout.HeapOffset, l.SegmentSize - layout.WireSize}
}

// Check reports whether the agent may execute r on the segments of its node. The error is an *Error.
func (l *Limits) Check(r *Record) error {
	if int(r.Local) >= l.Near {
		return r.bad("local PE", uint64(r.Local), "less than the %d PEs of the node", l.Near)
	}
	switch r.Op {
	case OpPut:
		return l.checkData(r, MaxPut)
	case OpPutStrided:
		return l.checkStrided(r, MaxPutStrided)
	case OpGet:
		return l.checkData(r, MaxGet)
	case OpGetStrided:
		return l.checkStrided(r, MaxGetStrided)
	case OpFetchOnce:
		if r.Number() == 0 {
			return r.bad("number", 0, "at least 1")
		}
		return l.checkAtomic(r)
	case OpAtomic, OpAtomicFetch:
		return l.checkAtomic(r)
	case OpSignal:
		if r.Code > SignalAdd {
			return r.bad("code", uint64(r.Code), "%d or %d", SignalSet, SignalAdd)
		}
		return l.checkWord(r, 8)
	case OpMessage, OpMessagePart:
		return r.checkMessage()
	case OpPutFrom, OpTeam:
		return r.bad("op", uint64(r.Op), "a put with its data")
	default:
		return &Error{Field: "op", Got: uint64(r.Op), Want: fmt.Sprintf("%d to %d", OpPut, opEnd-1)}
	}
}

// CheckSource reports whether the agent of the PE that has written r, an OpPutFrom, may send its data. Whether its target
// may be reached is for the target's agent to check. The error is an *Error.
func (l *Limits) CheckSource(r *Record) error {
	if r.Length == 0 || r.Length%8 != 0 || r.Length > MaxPut {
		return r.bad("length", uint64(r.Length), "a multiple of 8 up to %d", MaxPut)
	}
	if heap := l.heap(); !heap.contains(r.From(), uint64(r.Length)) {
		return r.bad("from", r.From(), "%d bytes in %v", r.Length, heap)
	}
	return nil
}

// IsWordPut reports whether r is a put of one aligned word of 8 bytes to the heap, and passes Check. It is a quick Check for
// the most frequent record.
func (l *Limits) IsWordPut(r *Record) bool {
	return r.Op == OpPut && r.Length == 8 && r.Code == 0 && int(r.Local) < l.Near && r.Offset%8 == 0 &&
		r.Offset >= layout.HeapOffset && r.Offset < l.SegmentSize && l.SegmentSize-r.Offset >= layout.WireSize+8
}

// Word returns the data of a put of 8 bytes.
func (r *Record) Word() uint64 { return r.word(0) }

// CheckAnswer reports whether the n bytes of an answer may go to offset to in the segment of the PE that
// has asked. The agent of that PE calls it.
func (l *Limits) CheckAnswer(to, n uint64) error {
	if n > 0 && !l.heap().contains(to, n) && !l.Rooms.contains(to, n) {
		return &Error{Field: "to", Got: to, Want: fmt.Sprintf("%d bytes in %v or %v", n, l.heap(), l.Rooms)}
	}
	return nil
}

// checkData checks a put or get without a stride.
func (l *Limits) checkData(r *Record, most int) error {
	if r.Code != 0 {
		return r.bad("code", uint64(r.Code), "0")
	}
	if r.Length == 0 || int(r.Length) > most {
		return r.bad("length", uint64(r.Length), "1 to %d", most)
	}
	return l.checkReach(r, uint64(r.Length))
}

// checkStrided checks a strided put or get.
func (l *Limits) checkStrided(r *Record, most int) error {
	if r.Code != 0 {
		return r.bad("code", uint64(r.Code), "0")
	}
	if r.Length == 0 || int(r.Length) > most {
		return r.bad("length", uint64(r.Length), "1 to %d", most)
	}
	s := r.Shape()
	length := uint64(r.Length)
	if s.Block == 0 || s.Block > length {
		return r.bad("block", s.Block, "1 to the length %d", length)
	}
	if s.N != length/s.Block || length%s.Block != 0 {
		return r.bad("n", s.N, "length %d / block %d", length, s.Block)
	}
	heap := l.heap()
	if s.N > 1 && (s.Step < s.Block || s.Step > (heap.To-heap.From)/(s.N-1)) {
		return r.bad("step", s.Step, "at least block %d, and %d blocks within the heap", s.Block, s.N)
	}
	reach := s.Block // from the start of the first block to the end of the last one
	if s.N > 1 {
		reach += (s.N - 1) * s.Step
	}
	if !heap.contains(r.Offset, reach) {
		return r.bad("offset", r.Offset, "%d bytes in %v", reach, heap)
	}
	return nil
}

// checkAtomic checks an atomic operation.
func (l *Limits) checkAtomic(r *Record) error {
	code, width := r.Atomic()
	least := AtomicLoad
	if r.Op == OpAtomic {
		least = AtomicSet
	}
	if code < least || code >= atomicEnd {
		return r.bad("code", uint64(code), "%d to %d", least, atomicEnd-1)
	}
	return l.checkWord(r, uint64(width))
}

// checkMessage checks a message or a part of one. What its parts are together is for the agent to check.
func (r *Record) checkMessage() error {
	if r.Op == OpMessagePart {
		if r.Code != 0 && r.Code != MessageCut {
			return r.bad("code", uint64(r.Code), "0 or %d", MessageCut)
		}
		return nil
	}
	if r.Code&MessageKind == 0 || r.Code&^(MessageKind|MessageBody|MessageCut) != 0 {
		return r.bad("code", uint64(r.Code), "a kind from 1 to %d, and flags", MessageKind)
	}
	if r.Code&MessageCut != 0 && r.Length == 0 {
		return r.bad("length", 0, "at least 1 of a message that goes on")
	}
	return nil
}

// checkWord checks an operation on one word.
func (l *Limits) checkWord(r *Record, width uint64) error {
	if r.Length != 0 {
		return r.bad("length", uint64(r.Length), "0")
	}
	if r.Offset%width != 0 {
		return r.bad("offset", r.Offset, "a multiple of %d", width)
	}
	return l.checkReach(r, width)
}

// checkReach checks that the n bytes at the record's offset may be reached.
func (l *Limits) checkReach(r *Record, n uint64) error {
	if heap := l.heap(); !heap.contains(r.Offset, n) && !l.Words.contains(r.Offset, n) {
		return r.bad("offset", r.Offset, "%d bytes in %v or %v", n, heap, l.Words)
	}
	return nil
}

// bad returns an error about a field of r.
func (r *Record) bad(field string, got uint64, want string, args ...any) error {
	return &Error{Op: r.Op, Field: field, Got: got, Want: fmt.Sprintf(want, args...)}
}
