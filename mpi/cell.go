package mpi

import (
	"unsafe"

	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Kinds of cells. Braces list the fields of the parcel that the kind uses.
const (
	_            = iota
	kindEager    // a whole message: Match, Size; the data are in the cell or in the data room
	kindAnnounce // a long message waits at its sender: Match, Size, {from, offset, addr}
	kindHelp     // the receiver copies a long message and asks the sender to copy parts: {to, offset, size, addr}
	kindClear    // the receiver asks for a long message: {to, offset, from, size}
	kindData     // the next part of a cleared message: Size, {to}; the data are in the data room
	kindDone     // the message has arrived, or nobody needs it: {to}
	kindRefuse   // the sender has withdrawn a cleared message: {to}
)

// parcel is the body of a cell about a long message.
type parcel struct {
	to     uint64 // number of a request of the process that reads the cell
	offset uint64 // offset of the data in the writer's segment; 0: they are in private memory
	from   uint64 // number of a request of the process that writes the cell
	size   uint64 // bytes wanted
	addr   uint64 // address of the data in the writer's memory
}

// Match is the communicator's number and the tag; Size is the sender's rank and the message's bytes.
func matchOf(comm uint32, tag int32) uint64        { return uint64(comm)<<32 | uint64(uint32(tag)) }
func splitMatch(m uint64) (comm uint32, tag int32) { return uint32(m >> 32), int32(uint32(m)) }
func sizeOf(rank, bytes int) uint64                { return uint64(rank)<<sizeBits | uint64(bytes) }
func splitSize(s uint64) (rank, bytes int)         { return int(s >> sizeBits), int(s & (1<<sizeBits - 1)) }

const sizeBits = 48

// cursor is the place in a lane's data room where the next data go. Sender and receiver move
// their cursors by the same rules, so no cell says where its data are.
type cursor struct {
	pos uint64 // bytes since the lane was made, with those skipped at the end of the room
	off int    // offset in the room
}

// aligned rounds n bytes up to whole cells.
func aligned(n int) int { return (n + layout.CellSize - 1) &^ (layout.CellSize - 1) }

// step returns by how much n bytes move the cursor. Data lie in one piece: where the end of the room
// is too near, they begin at its start.
func (c *cursor) step(n, room int) int {
	n = aligned(n)
	if c.off+n > room {
		return n + room - c.off
	}
	return n
}

// contiguous returns the bytes in one piece from the cursor on.
func (c *cursor) contiguous(room int) int {
	if c.off == room {
		return room
	}
	return room - c.off
}

// advance moves the cursor past n bytes and returns their offset in the room.
func (c *cursor) advance(n, room int) (at int) {
	c.pos += uint64(c.step(n, room))
	n = aligned(n)
	if c.off+n > room {
		c.off = 0
	}
	at = c.off
	c.off += n
	return at
}

// copyBytes copies n bytes, by code that is made for short copies.
func copyBytes(dst, src unsafe.Pointer, n int) {
	copy(unsafe.Slice((*byte)(dst), n), unsafe.Slice((*byte)(src), n))
}

// moveBytes copies n bytes, of which there may be many.
func moveBytes(dst, src unsafe.Pointer, n int) {
	rma.Move(dst, unsafe.Slice((*byte)(src), n))
}
