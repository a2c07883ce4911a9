package coll

import (
	"context"
	"unsafe"

	"github.com/goshmem/goshmem/coll/board"
	"github.com/goshmem/goshmem/symheap/layout"
)

// slots is where members put small contributions. Each member has two slots, divided into cells
// (board.Cells), and two places on the line of its arrival word. A contribution takes a place on
// the line, one cell, or a whole slot: placeOf.
//
//   - Owns: which of this member's cells may be written again, and when.
//   - Writes: this member's own slots and the data on its own line, before it enters the step
//     that they are for.
//   - Reads: those of all members, after these have entered that step.
type slots struct {
	steps
	cells board.Cells // of this member
	// slotBytes is up to how many bytes contributions are small: larger data are read where they
	// lie. New sets it to layout.SlotSize, or smallIdle.
	slotBytes int
	// lineBytes is up to how many bytes contributions go on the line of the arrival word. New sets
	// it to layout.EntrySize, or to -1 for a team of more members than there are lines.
	lineBytes int
}

// cellSize is the size of a cell in bytes.
const cellSize = layout.SlotSize / board.SlotCells

// lineData is where contributions are on the line of an arrival word.
const lineData = int(unsafe.Offsetof(layout.Entry{}.Data))

// aCell is the least size of a contribution that gets a cell of a slot. A contribution that would
// fit beside the arrival word asks for this size where a member may be many steps ahead, as
// there are more cells than places on the line.
const aCell = layout.EntrySize + 1

// smallIdle is up to how many bytes a contribution goes through slots where every PE has a
// processor. From there on, a further step costs less than to move as many cache lines twice.
// Where PEs take turns, a step is dear.
const smallIdle = 1024

// placeOf returns where contributions of so many bytes go.
func (s *slots) placeOf(size int) board.Place {
	switch {
	case size <= s.lineBytes:
		return board.OnLine
	case size <= cellSize:
		return board.InCell
	default:
		return board.InSlot
	}
}

// contributionOf returns where member i's contribution of size bytes to step seq is: on the line
// of the member's arrival word, or in one of its slots.
func (s *slots) contributionOf(i int, seq uint64, size int) unsafe.Pointer {
	first, _ := board.Cell(seq, s.placeOf(size))
	if first >= board.Line {
		return unsafe.Add(unsafe.Pointer(s.word(i)), lineData+(first-board.Line)*layout.EntrySize)
	}
	return unsafe.Add(unsafe.Pointer(&s.members[i].Slots[s.id]), first*cellSize)
}

// awaitPlace returns where this member's contribution of size bytes to step seq goes, once no
// member reads what was there before. Mostly that is so already, and nothing is waited for.
func (s *slots) awaitPlace(ctx context.Context, seq uint64, size int) (unsafe.Pointer, error) {
	free := s.occupyCells(seq, size)
	return s.contributionOf(s.me, seq, size), s.awaitAll(ctx, free)
}

// occupyCells gives cells to a contribution of size bytes to step seq. It returns the step that
// all members have to enter before the cells may be written.
func (s *slots) occupyCells(seq uint64, size int) (free uint64) {
	return s.cells.Occupy(seq, s.placeOf(size))
}

// exchange is a collective of one step: it publishes bytes as this member's contribution, and
// returns the step when all members' contributions can be read (contributionOf).
func (s *slots) exchange(ctx context.Context, bytes []byte) (seq uint64, err error) {
	if seq, err = s.beginCollective(1); err != nil {
		return 0, err
	}
	to, err := s.awaitPlace(ctx, seq, len(bytes))
	if err == nil {
		copy(unsafe.Slice((*byte)(to), len(bytes)), bytes)
		err = s.meet(ctx, seq)
	}
	s.endCollective(&err) // not deferred, which costs 2 ns: no operator is called, which could panic
	return seq, err
}
