package lane

import (
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Letter is what a cell of an inbox says.
type Letter struct {
	Kind        uint8
	From        layout.PE // that sends the message
	Match, Size uint64
	Body        []byte // of the cell, layout.CellBody bytes; nil: the data lie there, if they are short enough
	Data        []byte
}

// Writer is the sender's end of an inbox.
type Writer struct {
	inbox     *layout.Inbox
	first     *layout.Cell
	room      unsafe.Pointer // of the data
	cells     uint64         // cells written
	data      Cursor         // behind the data written
	doneCells uint64         // cells that the receiver has freed, as last read
	doneData  uint64         // bytes of data that the receiver has freed, as last read
}

// NewWriter returns the sender's end of an inbox that nobody has written to.
func NewWriter(b *layout.Inbox) *Writer {
	w := &Writer{inbox: b}
	w.first, w.room = b.Cells()
	return w
}

// Written returns how many cells are written.
func (w *Writer) Written() uint64 { return w.cells }

// Write writes a letter, of layout.InboxData/3 bytes of data at most. It returns false if there is no room. It rings no bell.
func (w *Writer) Write(l *Letter) bool {
	n := len(l.Data)
	inRoom := 0
	if n > layout.CellBody || l.Body != nil {
		inRoom = n
	}
	if !w.hasRoom(inRoom) {
		return false
	}
	c := w.first.At(int(w.cells) & (layout.InboxCells - 1))
	c.Match, c.Size = l.Match, l.Size
	copy(c.Body[:], l.Body)
	switch {
	case inRoom > 0:
		copy(unsafe.Slice((*byte)(unsafe.Add(w.room, w.data.Advance(n, layout.InboxData))), n), l.Data)
	case n > 0:
		copy(c.Body[:], l.Data)
	}
	w.cells++
	rma.StoreRelease(&c.Mark, w.cells&(1<<32-1)|uint64(l.Kind)<<32|uint64(l.From)<<layout.InboxPE)
	return true
}

// hasRoom reports whether there is room for a cell and n bytes of data.
func (w *Writer) hasRoom(n int) bool {
	for fresh := false; ; fresh = true {
		if w.cells-w.doneCells < layout.InboxCells &&
			(n == 0 || w.data.Pos+uint64(w.data.Step(n, layout.InboxData))-w.doneData <= layout.InboxData) {
			return true
		}
		if fresh {
			return false
		}
		w.doneCells = atomic.LoadUint64(&w.inbox.Head.Cells)
		w.doneData = atomic.LoadUint64(&w.inbox.Head.Data)
	}
}
