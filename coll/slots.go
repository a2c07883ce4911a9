package coll

import (
	"context"
	"unsafe"

	"github.com/goshmem/goshmem/coll/board"
	"github.com/goshmem/goshmem/symheap/layout"
)

// slots is where members put small contributions: the two slots of a member, which are cells
// (board.Cells), and the line of its arrival word.
//
//   - Owns: which of this member's cells may be written again, and when.
//   - Writes: this member's own slots and the data on its own line, before it enters the step
//     that they are for.
//   - Reads: those of all members, behind their entry into that step.
type slots struct {
	steps
	cells     board.Cells // of this member
	slotBytes int         // a contribution of up to so many bytes goes through slots
	lineBytes int         // a contribution of up to so many bytes goes beside the arrival word; -1: none does
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

// slotOf returns where member i's contribution of size bytes to step seq is.
func (s *slots) slotOf(i int, seq uint64, size int) unsafe.Pointer {
	first, _ := board.Cell(seq, s.placeOf(size))
	if first >= board.Line {
		return unsafe.Add(unsafe.Pointer(s.word(i)), lineData+(first-board.Line)*layout.EntrySize)
	}
	return unsafe.Add(unsafe.Pointer(&s.members[i].Slots[s.id]), first*cellSize)
}

// claimSlot returns where this member's contribution of size bytes to step seq goes. It waits
// until no member reads what was there before.
func (s *slots) claimSlot(ctx context.Context, seq uint64, size int) (unsafe.Pointer, error) {
	free := s.occupyCells(seq, size)
	return s.slotOf(s.me, seq, size), s.awaitAll(ctx, free)
}

// occupyCells gives cells to a contribution of size bytes to step seq. It returns the step that
// all members have to enter before the cells may be written.
func (s *slots) occupyCells(seq uint64, size int) (free uint64) {
	return s.cells.Occupy(seq, s.placeOf(size))
}

// exchange is a collective of one step: it puts bytes into this member's slot, and returns the
// step when all members' bytes can be read from their slots.
func (s *slots) exchange(ctx context.Context, bytes []byte) (seq uint64, err error) {
	if seq, err = s.beginCollective(1); err != nil {
		return 0, err
	}
	defer s.endCollective(&err)
	to, err := s.claimSlot(ctx, seq, len(bytes))
	if err != nil {
		return 0, err
	}
	copy(unsafe.Slice((*byte)(to), len(bytes)), bytes)
	return seq, s.meet(ctx, seq)
}
