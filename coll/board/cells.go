package board

// A member's two slots are Cells cells: a contribution to step seq that is small takes
// the next cell of slot seq%2, a larger one all cells of that slot. So the root of a
// broadcast may be Cells-1 steps ahead of the slowest member, and consecutive
// steps never share a cell. Two more cells are on the line of the member's arrival word:
// what fits there comes with the word, but the next but one contribution waits for
// everybody.
const (
	SlotCells = 32
	NumCells  = 2*SlotCells + 2
	Line      = 2 * SlotCells // the first one on the line of the arrival word
)

// Place says where a contribution goes.
type Place uint8

// The places.
const (
	InSlot Place = iota // a slot as a whole
	InCell              // one cell of a slot
	OnLine              // beside the arrival word
)

// Cells knows of each cell of one member from when on it may be written again.
type Cells struct {
	free [NumCells]uint64 // when all that live have entered this step
}

// Cell returns the first cell of a contribution to step seq, and how many it takes.
func Cell(seq uint64, p Place) (first, n int) {
	first = int(seq & 1)
	switch p {
	case OnLine:
		return Line + first, 1
	case InCell:
		return first*SlotCells + int(seq>>1%SlotCells), 1
	default:
		return first * SlotCells, SlotCells
	}
}

// Occupy gives cells to a contribution to step seq and returns the step that all who
// live must have entered before they are written: whoever has entered the step after
// the one that a cell was written for is done with reading it.
func (c *Cells) Occupy(seq uint64, p Place) (free uint64) {
	first, n := Cell(seq, p)
	for i := first; i < first+n; i++ {
		free, c.free[i] = max(free, c.free[i]), seq+1
	}
	return free
}
