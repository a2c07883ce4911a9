package board

// A member's two slots are Cells cells: a contribution to step seq that is small takes
// the next cell of slot seq%2, a larger one all cells of that slot. So the root of a
// broadcast may be Cells-1 steps ahead of the slowest member, and consecutive
// steps never share a cell.
const (
	SlotCells = 32
	NumCells  = 2 * SlotCells
)

// Cells knows of each cell of one member from when on it may be written again.
type Cells struct {
	free [NumCells]uint64 // when all that live have entered this step
}

// Cell returns the first cell of a contribution to step seq, and how many it takes.
func Cell(seq uint64, large bool) (first, n int) {
	first = int(seq&1) * SlotCells
	if large {
		return first, SlotCells
	}
	return first + int(seq>>1%SlotCells), 1
}

// Occupy gives cells to a contribution to step seq and returns the step that all who
// live must have entered before they are written: whoever has entered the step after
// the one that a cell was written for is done with reading it.
func (c *Cells) Occupy(seq uint64, large bool) (free uint64) {
	first, n := Cell(seq, large)
	for i := first; i < first+n; i++ {
		free, c.free[i] = max(free, c.free[i]), seq+1
	}
	return free
}
