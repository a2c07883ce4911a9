package coll

import (
	"context"
	"unsafe"

	"github.com/goshmem/goshmem/symheap/layout"
)

// A member's two slots are cells: a contribution to step seq that fits into one
// takes the next cell of slot seq%2, a larger one all cells of that slot. So the
// root of a broadcast may be cells-1 steps ahead of the slowest member, and
// consecutive steps never share a cell.
const (
	halfCells = layout.SlotCells
	cells     = 2 * halfCells
	cellSize  = layout.SlotSize / halfCells
)

// smallIdle is up to how many bytes a contribution goes through slots where
// every PE has a processor: from there on, a further step costs less than to
// move as many cache lines twice. Where PEs take turns, a step is dear.
const smallIdle = 1024

// cell returns the first cell of a contribution of size bytes to step seq, and
// how many it takes.
func cell(seq uint64, size int) (first, n int) {
	first = int(seq&1) * halfCells
	if size > cellSize {
		return first, halfCells
	}
	return first + int(seq>>1%halfCells), 1
}

// slot returns where member i's contribution of size bytes to step seq is.
func (t *Team) slot(i int, seq uint64, size int) unsafe.Pointer {
	first, _ := cell(seq, size)
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
// the step that all must have entered before: whoever has entered the step
// after the one that a cell was written for is done with reading it.
func (t *Team) occupy(seq uint64, size int) (free uint64) {
	first, n := cell(seq, size)
	for i := first; i < first+n; i++ {
		free, t.free[i] = max(free, t.free[i]), seq+1
	}
	return free
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

// Same returns -1 when all members called it with the same words, otherwise
// the first member whose words differ from the first member's, with both. All
// members get the same answer.
func (t *Team) Same(ctx context.Context, w Words) (differs int, first, other Words, err error) {
	// A member that is in another collective has not written its slot in this
	// step: what an earlier one left there must not pass for its words.
	mine := record{seq: t.state.Seq + 1, check: ^(t.state.Seq + 1), w: w}
	seq, err := t.exchange(ctx, unsafe.Slice((*byte)(unsafe.Pointer(&mine)), recordBytes))
	if err != nil {
		return -1, w, w, err
	}
	first = t.words(0, seq)
	for i := 1; i < len(t.members); i++ {
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
