package mpi

import (
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/internal/far"
	"github.com/goshmem/goshmem/internal/lane"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// inLane is the receiver's side of a lane. The engine's lock guards it, except cells, which other
// goroutines may read without the lock.
type inLane struct {
	head  *layout.Lane
	first *layout.Cell
	room  unsafe.Pointer // of the data
	bell  *layout.Bell   // bell of the sender
	shape layout.LaneShape
	pe    layout.PE               // of the sender; manyPEs: each cell names its own
	names map[layout.PE]layout.PE // of the inbox: PEs by their names as guests (layout.GuestName); nil: none is named so
	cells uint64                  // cells read
	data  lane.Cursor             // behind the data read

	reportedCells uint64 // cells that the sender knows to be freed
	reportedData  uint64 // bytes of data that the sender knows to be freed

	port *far.Port // of the inbox: by which the agent, the sender, is rung; otherwise nil
}

// manyPEs stands for the PEs of all other nodes.
const manyPEs = -1

// from returns the PE that has written a cell of the lane.
func (l *inLane) from(c *layout.Cell) layout.PE {
	if l.pe == manyPEs {
		pe, _ := l.writer(c)
		return pe
	}
	return l.pe
}

// writer returns the PE that has written a cell of the inbox, and false if it is of a job that this process has not reached.
func (l *inLane) writer(c *layout.Cell) (pe layout.PE, known bool) {
	if pe = layout.PE(c.Mark >> layout.InboxPE); pe < layout.InboxGuest {
		return pe, true
	}
	pe, known = l.names[pe]
	return pe, known
}

// hasCell reports whether the lane has a cell to read.
func (l *inLane) hasCell() bool {
	next := atomic.LoadUint64(&l.cells)
	mark := atomic.LoadUint64(&l.first.At(int(next) & (l.shape.Cells - 1)).Mark)
	return uint32(mark) == uint32(next+1)
}

// nextCell returns the cell to be read next. hasCell has returned true.
func (l *inLane) nextCell() *layout.Cell { return l.first.At(int(l.cells) & (l.shape.Cells - 1)) }

// nextData returns the address of the next n bytes in the data room, and moves past them.
func (l *inLane) nextData(n int) unsafe.Pointer {
	return unsafe.Add(l.room, l.data.Advance(n, l.shape.Data))
}

// freePart is the part of a lane, 1/freePart, that freeCell gives back at once. What it keeps back
// blocks no sender: either the lane has cells to read, or it has room for the longest message,
// even if that does not fit behind the last one.
const freePart = 8

// freeCell frees the cell that was read, and its data. The sender is told now and then only: each
// time, the line that says so moves from one processor to the other.
func (l *inLane) freeCell() {
	rma.StoreRelease(&l.cells, l.cells+1)
	if l.cells-l.reportedCells < uint64(l.shape.Cells/freePart) && l.data.Pos-l.reportedData < uint64(l.shape.Data/freePart) {
		return
	}
	l.reportedCells, l.reportedData = l.cells, l.data.Pos
	rma.StoreRelease(&l.head.Data, l.data.Pos)
	rma.StoreRelease(&l.head.Cells, l.cells)
	if l.port != nil {
		far.RingAgent(l.port, &l.head.Want)
		return
	}
	rma.RingWanted(l.bell, &l.head.Want)
}
