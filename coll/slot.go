package coll

import (
	"context"
	"unsafe"

	"github.com/goshmem/goshmem/coll/board"
	"github.com/goshmem/goshmem/symheap/layout"
)

// A member's slots are cells: see board.Cells.
const cellSize = layout.SlotSize / board.SlotCells

// lineData is where contributions are on the line of an arrival word.
const lineData = int(unsafe.Offsetof(layout.Entry{}.Data))

// aCell is the least size of a contribution that is to have a cell of a slot although it
// may fit beside the arrival word: there are more of those.
const aCell = layout.EntrySize + 1

// smallIdle is up to how many bytes a contribution goes through slots where
// every PE has a processor: from there on, a further step costs less than to
// move as many cache lines twice. Where PEs take turns, a step is dear.
const smallIdle = 1024

// placeOf returns where contributions of so many bytes go.
func (t *Team) placeOf(size int) board.Place {
	switch {
	case size <= t.tiny:
		return board.OnLine
	case size <= cellSize:
		return board.InCell
	default:
		return board.InSlot
	}
}

// slot returns where member i's contribution of size bytes to step seq is.
func (t *Team) slot(i int, seq uint64, size int) unsafe.Pointer {
	first, _ := board.Cell(seq, t.placeOf(size))
	if first >= board.Line {
		return unsafe.Add(unsafe.Pointer(t.word(i)), lineData+(first-board.Line)*layout.EntrySize)
	}
	return unsafe.Add(unsafe.Pointer(&t.members[i].Slots[t.id]), first*cellSize)
}

// at returns the address of offset off in member i's segment.
func (t *Team) at(i int, off uint64) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(t.members[i]), int(off))
}

// take returns where this member's contribution of size bytes to step seq goes,
// when nobody reads what was there before.
func (t *Team) take(ctx context.Context, seq uint64, size int) (unsafe.Pointer, error) {
	free := t.occupy(seq, size)
	return t.slot(t.me, seq, size), t.awaitAll(ctx, free)
}

// occupy gives cells to a contribution of size bytes to step seq and returns
// the step that all must have entered before.
func (t *Team) occupy(seq uint64, size int) (free uint64) {
	return t.cells.Occupy(seq, t.placeOf(size))
}

// exchange puts bytes into this member's slot and returns when everybody's can
// be read from the slots of the step that it returns.
func (t *Team) exchange(ctx context.Context, bytes []byte) (seq uint64, err error) {
	if seq, err = t.begin(1); err != nil {
		return 0, err
	}
	defer t.end(&err)
	to, err := t.take(ctx, seq, len(bytes))
	if err != nil {
		return 0, err
	}
	copy(unsafe.Slice((*byte)(to), len(bytes)), bytes)
	return seq, t.meet(ctx, seq)
}

// Words is a small record that all members compare.
type Words [4]uint64

// Same returns -1 when all members that have called it did so with the same words,
// otherwise the first one whose words differ from the first one's, with both. All
// members get the same answer.
func (t *Team) Same(ctx context.Context, w Words) (differs int, first, other Words, err error) {
	// A member that is in another collective has not written its slot in this
	// step: what an earlier one left there must not pass for its words.
	mine := record{seq: t.state.Seq + 1, check: ^(t.state.Seq + 1), w: w}
	seq, err := t.exchange(ctx, unsafe.Slice((*byte)(unsafe.Pointer(&mine)), recordBytes))
	if err != nil {
		return -1, w, w, err
	}
	who := t.present(seq)
	first = t.words(who[0], seq)
	for _, i := range who[1:] {
		if other = t.words(i, seq); other != first {
			return i, first, other, nil
		}
	}
	return -1, first, first, nil
}

// record is what Same puts into a slot.
type record struct {
	seq   uint64
	check uint64 // complement of seq: user data in a slot will not look so
	w     Words
}

const recordBytes = int(unsafe.Sizeof(record{}))

// words returns what a member gave to Same in step seq, zeros if it was in
// another collective.
func (t *Team) words(i int, seq uint64) Words {
	if r := (*record)(t.slot(i, seq, recordBytes)); r.seq == seq && r.check == ^seq {
		return r.w
	}
	return Words{}
}
