package teams

import (
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/coll/board"
	"github.com/goshmem/goshmem/coll/span"
	"github.com/goshmem/goshmem/internal/fold"
	"github.com/goshmem/goshmem/symheap/layout"
)

// line returns the words of a member.
func (t *Teams) line(m *team, line, i int) *layout.UpperLine {
	return &t.cfg.Words(m.members[i].pe).Lines[line][m.id]
}

// wordOf returns a member's arrival word, with the number that the step has in the part.
func (t *Teams) wordOf(m *team, line, i int) uint64 {
	x := &m.members[i]
	if x.dead {
		return x.last[line].word
	}
	word := atomic.LoadUint64(&t.line(m, line, i).Cell.Word)
	start := atomic.LoadUint64(&t.cfg.Words(x.pe).Parts[m.id].Start) // after the word
	switch x.start {
	case 0:
		return 0 // it has not announced the team yet
	case start:
	default:
		return board.GaveUp // its words are another team's
	}
	if n := word &^ board.Marks; n >= x.start {
		return word&board.Marks | (n - x.start)
	}
	return word & board.Marks
}

// fold folds what the members have contributed; nil if none has.
func (t *Teams) fold(m *team, line int) (data []byte) {
	p := m.lines[line]
	for i := range m.members {
		if !p.Entered(i) {
			continue
		}
		one := t.contribution(m, line, i)
		switch {
		case data == nil:
			data = one
		case line == layout.UpperVotes:
			data = span.FoldBits(data, one)
		default:
			data = span.FoldSteps(data, one)
		}
	}
	return data
}

// contribution returns what a member contributes: its record, and what it gives besides.
func (t *Teams) contribution(m *team, line, i int) []byte {
	if x := &m.members[i]; x.dead {
		return slices.Clone(x.last[line].data)
	}
	words := t.line(m, line, i)
	data := make([]byte, span.RecordBytes, span.RecordBytes+64)
	copy(data, words.Cell.Data[:])
	if atomic.LoadUint64(&t.cfg.Words(m.members[i].pe).Parts[m.id].Start) != m.members[i].start {
		return brokenBy(i) // the member has given the team up since it entered the step, and its words are another team's
	}
	r := (*span.Record)(unsafe.Pointer(&data[0]))
	n := int(min(r.Give, layout.UpperGiven))
	given := words.Given[:n]
	if n <= Beside {
		given = words.Cell.Data[span.RecordBytes:][:n]
	}
	switch {
	case line == layout.UpperVotes:
		return append(data, given...)
	case r.Op == fold.KindUser:
		return span.AppendGiven(data, m.me, i, given)
	}
	data = append(data, given...)
	if err := span.CheckSteps(data); err != nil {
		t.cfg.Log(fmt.Errorf("PE %d of this node, team %x: %w", m.members[i].pe, m.name, err))
		return brokenBy(i)
	}
	return data
}

// brokenBy returns the contribution of a member that has broken the team.
func brokenBy(member int) []byte {
	r := span.Record{Member: int32(member), Differs: -1, Who: -1, And: ^uint64(0), Fault: span.Broken}
	return slices.Clone(r.Bytes())
}

// Beside is how many bytes a member gives in the line of its word. More are in Given.
const Beside = layout.UpperData - span.RecordBytes

// The conversion fails to compile if a record does not fit into a result.
const _ = uint(layout.UpperData - 8 - span.RecordBytes)

// writeResult writes the result of a step for all members that live, and wakes them.
func (t *Teams) writeResult(m *team, line int, r *span.Result) {
	if !t.hasWords(m) {
		return // no member makes steps any more
	}
	lacks, n := lacksOf(r)
	var gave []byte
	if r.Data != nil {
		gave = r.Data[span.RecordBytes:]
	}
	for i := range m.members {
		x := &m.members[i]
		if x.start == 0 || x.dead {
			continue
		}
		to := &t.line(m, line, i).Result
		to.Lacks, to.Gave = uint32(n), uint32(len(gave))
		if r.Data != nil {
			copy(to.Data[:], r.Data[:span.RecordBytes])
		}
		at := copy(to.Body[:], lacks)
		if copy(to.Body[at:], gave) < len(gave) {
			to.Gave = layout.UpperTooMuch
		}
		atomic.SwapUint64(&to.Seq, x.start+r.Seq) // ordered before the bell (wait.Cond.Agent)
		t.cfg.Wake(x.pe)
	}
}

// lacksOf returns the members that have not contributed, as they are in a result, and how many they are.
func lacksOf(r *span.Result) (b []byte, n int) {
	var room [layout.UpperBody / layout.UpperLackBytes]layout.UpperLack
	add := func(l layout.UpperLack) {
		if n < len(room) {
			room[n] = l
		}
		n++
	}
	for _, node := range r.Missing {
		add(layout.UpperLack{Node: uint16(node), Member: layout.UpperAll, Why: uint32(board.Died)})
	}
	for _, e := range r.Without {
		add(layout.UpperLack{Node: uint16(e.Node), Member: uint16(e.Member), Why: uint32(e.Why)})
	}
	listed := room[:min(n, len(room))]
	return unsafe.Slice((*byte)(unsafe.Pointer(&room[0])), len(listed)*layout.UpperLackBytes), n
}
