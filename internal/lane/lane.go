// Package lane has what the two ends of a lane agree on: the kinds of cells, and where data lie. Lanes go from PE to PE of a node, and from
// the agent of the node to each PE (layout.Inbox). Package mpi has both ends of the first; [Writer] is the agent's end of the
// others.
package lane

import "github.com/goshmem/goshmem/symheap/layout"

// Kinds of cells. Braces list the fields of the body that the kind uses (package mpi, parcel).
const (
	_        = iota
	Eager    // a whole message: Match, Size; the data are in the cell or in the data room
	Announce // a long message waits at its sender: Match, Size, {from, offset, addr}
	Help     // the receiver copies a long message and asks the sender to copy parts: {to, offset, size, addr}
	Clear    // the receiver asks for a long message: {to, offset, from, size}
	Data     // the next part of a cleared message: Size, {to}; the data are in the data room
	Done     // the message has arrived, or nobody needs it: {to}
	Refuse   // the sender has withdrawn a cleared message: {to}
	Notice   // the sender says something about a communicator: Match, with what it says in place of a tag, Size, {to, from}
)

// Cursor is the place in a lane's data room where the next data go. Sender and receiver move their cursors by the same
// rules, so no cell says where its data are.
type Cursor struct {
	Pos uint64 // bytes since the lane was made, with those skipped at the end of the room
	Off int    // offset in the room
}

// Aligned rounds n bytes up to whole cells.
func Aligned(n int) int { return (n + layout.CellSize - 1) &^ (layout.CellSize - 1) }

// Step returns by how much n bytes move the cursor. Data lie in one piece: where the end of the room is too near, they
// begin at its start.
func (c *Cursor) Step(n, room int) int {
	n = Aligned(n)
	if c.Off+n > room {
		return n + room - c.Off
	}
	return n
}

// Contiguous returns the bytes in one piece from the cursor on.
func (c *Cursor) Contiguous(room int) int {
	if c.Off == room {
		return room
	}
	return room - c.Off
}

// Advance moves the cursor past n bytes and returns their offset in the room.
func (c *Cursor) Advance(n, room int) (at int) {
	c.Pos += uint64(c.Step(n, room))
	n = Aligned(n)
	if c.Off+n > room {
		c.Off = 0
	}
	at = c.Off
	c.Off += n
	return at
}
