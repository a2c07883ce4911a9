package board

// Each of a member's two slots has SlotCells cells. A small contribution to step seq takes the next
// cell of slot seq%2, a larger one all cells of that slot. So consecutive steps never share a cell,
// and the root of small broadcasts may be 2*SlotCells-1 steps ahead of the slowest member.
//
// Two more cells are on the line of the member's arrival word. A contribution there comes with the
// word, but the second next one has to wait for all members.
const (
	SlotCells = 32
	NumCells  = 2*SlotCells + 2
	Line      = 2 * SlotCells // the first cell on the line of the arrival word
)

// Place is where a contribution goes.
type Place uint8

// The places.
const (
	InSlot Place = iota // all cells of a slot
	InCell              // one cell of a slot
	OnLine              // beside the arrival word
)

// Cells knows when each cell of one member may be written again.
type Cells struct {
	free [NumCells]uint64 // the cell is free when all living members have entered this step
}

// Cell returns the first cell of a contribution to step seq, and the number of its cells.
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

// Occupy gives cells to a contribution to step seq. It returns the step that all living members must
// have entered before the cells are written: a member that has entered the step after the one that a
// cell was written for has read the cell.
func (c *Cells) Occupy(seq uint64, p Place) (free uint64) {
	first, n := Cell(seq, p)
	for i := first; i < first+n; i++ {
		free, c.free[i] = max(free, c.free[i]), seq+1
	}
	return free
}
