package mpi

import (
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// The kinds of what goes through lanes.
const (
	_            = iota
	kindEager    // a whole message: Match, Size, and the data in the cell or behind the cells
	kindAnnounce // a message that stays with its sender: Match, Size, parcel{offset, send, address}
	kindHelp     // the receiver copies it, and the sender may, too: parcel{send, offset, bytes, address}
	kindClear    // the receiver has a buffer for it: parcel{send, offset, recv, bytes}
	kindData     // the next part of it: Size, parcel{recv}, and the data behind the cells
	kindDone     // all of it is where it belongs: parcel{request}
	kindRefuse   // the sender has given it up: parcel{recv}
)

// parcel is the body of a cell that is about a message which is too long to be sent
// at once.
type parcel struct {
	to     uint64 // the request that it is about, of the process that it goes to
	offset uint64 // of the data in a segment; 0: they are in private memory
	from   uint64 // the request that it is from
	size   uint64 // bytes wanted
	addr   uint64 // of the data in the memory of the process that it is from
}

// Match and Size of a cell.
func matchOf(comm uint32, tag int32) uint64        { return uint64(comm)<<32 | uint64(uint32(tag)) }
func splitMatch(m uint64) (comm uint32, tag int32) { return uint32(m >> 32), int32(uint32(m)) }
func sizeOf(rank, bytes int) uint64                { return uint64(rank)<<sizeBits | uint64(bytes) }
func splitSize(s uint64) (rank, bytes int)         { return int(s >> sizeBits), int(s & (1<<sizeBits - 1)) }

const sizeBits = 48

// cursor is where the next data go behind the cells of a lane. Both sides move
// theirs alike.
type cursor struct {
	pos uint64 // bytes so far
	off int    // pos in the room
}

// aligned returns what n bytes of data take.
func aligned(n int) int { return (n + layout.CellSize - 1) &^ (layout.CellSize - 1) }

// need returns by how much n bytes move the cursor: data are in one piece.
func (c *cursor) need(n, room int) int {
	n = aligned(n)
	if c.off+n > room {
		return n + room - c.off
	}
	return n
}

// left returns how many bytes there are in one piece where the cursor is.
func (c *cursor) left(room int) int {
	if c.off == room {
		return room
	}
	return room - c.off
}

// take moves the cursor beyond n bytes and returns where they are.
func (c *cursor) take(n, room int) (at int) {
	c.pos += uint64(c.need(n, room))
	n = aligned(n)
	if c.off+n > room {
		c.off = 0
	}
	at = c.off
	c.off += n
	return at
}

// outLane is the sender's side of a lane. The engine's lock guards it.
type outLane struct {
	head  *layout.Lane
	first *layout.Cell
	room  unsafe.Pointer
	bell  *layout.Bell // of the receiver
	shape layout.LaneShape
	pe    int

	cells     uint64 // written
	data      cursor
	doneCells uint64 // that the receiver is known to be done with
	doneData  uint64

	queue   []packet // that wait for room, from sent on
	sent    int
	streams []*request // sends that go through the lane part by part
	stuck   bool       // in the engine's list

	ahead int // bytes of the last whole message behind the cells, since warm
}

// packet is what is to be written into a lane.
type packet struct {
	kind        uint8
	match, size uint64
	body        parcel
	data        unsafe.Pointer // of kindEager and kindData
	n           int            // bytes
	r           *request       // of kindEager: complete when it is written; of kindAnnounce: whose it is
}

// fits says whether the lane has room for n bytes behind the cells, and a cell.
func (l *outLane) fits(n int) bool {
	for fresh := false; ; fresh = true {
		if l.cells-l.doneCells < uint64(l.shape.Cells) &&
			(n == 0 || l.data.pos+uint64(l.data.need(n, l.shape.Data))-l.doneData <= uint64(l.shape.Data)) {
			return true
		}
		if fresh {
			return false
		}
		l.doneCells = atomic.LoadUint64(&l.head.Cells)
		l.doneData = atomic.LoadUint64(&l.head.Data)
	}
}

// write writes a packet, if there is room for it, and wakes the receiver if it sleeps.
func (l *outLane) write(p *packet) bool {
	if p.kind == kindEager {
		return l.writeEager(p.match, p.size, p.data, p.n)
	}
	if !l.fits(p.n) {
		return false
	}
	c := l.next()
	c.Size = p.size
	c.Match = p.match
	*(*parcel)(unsafe.Pointer(&c.Body)) = p.body
	if p.n > 0 {
		copyBytes(unsafe.Add(l.room, l.data.take(p.n, l.shape.Data)), p.data, p.n)
	}
	l.publish(c, p.kind)
	return true
}

// writeEager is write for a whole message, without the packet.
func (l *outLane) writeEager(match, size uint64, data unsafe.Pointer, n int) bool {
	behind := 0
	if n > layout.CellBody {
		behind = n
	}
	if !l.fits(behind) {
		return false
	}
	c := l.next()
	c.Match, c.Size = match, size
	switch {
	case behind > 0:
		copyBytes(unsafe.Add(l.room, l.data.take(n, l.shape.Data)), data, n)
		l.ahead = n
	case n == 8:
		*(*[8]byte)(unsafe.Pointer(&c.Body)) = *(*[8]byte)(data)
	case n > 0:
		copyBytes(unsafe.Pointer(&c.Body), data, n)
	}
	l.publish(c, kindEager)
	return true
}

// warm writes to the cache lines behind the cells where the next message is expected to go,
// one as long as the last. It is for who waits for an answer: the lines were read by the
// receiver the last time that they were in use, and are brought here while there is
// nothing to do, not when the message is to be sent.
func (l *outLane) warm() {
	n := aligned(l.ahead)
	l.ahead = 0
	if n == 0 || l.data.pos+uint64(l.data.need(n, l.shape.Data))-l.doneData > uint64(l.shape.Data) {
		return // or it may not be free yet
	}
	next := l.data
	at := unsafe.Add(l.room, next.take(n, l.shape.Data))
	for i := 0; i < n; i += layout.CellSize {
		*(*uint64)(unsafe.Add(at, i)) = 0
	}
}

// cellsAhead is how far before its use the line of a cell is asked for. The lock of the engine
// would wait otherwise until the line has come from the receiver, for each message again.
const cellsAhead = 3

// next returns the cell that is written next.
func (l *outLane) next() *layout.Cell { return l.first.At(int(l.cells) & (l.shape.Cells - 1)) }

// publish makes a cell that is written one that is to be read.
func (l *outLane) publish(c *layout.Cell, kind uint8) {
	l.cells++
	rma.StoreRelease(&c.Mark, l.cells&(1<<32-1)|uint64(kind)<<32)
	rma.Ahead(unsafe.Pointer(l.first.At(int(l.cells+cellsAhead) & (l.shape.Cells - 1))))
	rma.RingBell(l.bell)
}

// put is write for a packet that may have a request, which this completes.
func (l *outLane) put(e *engine, p *packet) bool {
	if !l.write(p) {
		return false
	}
	if p.kind == kindEager && p.r != nil {
		e.complete(p.r, nil)
	}
	return true
}

// idle says whether nothing waits for room.
func (l *outLane) idle() bool { return l.sent == len(l.queue) && len(l.streams) == 0 }

// pump writes what waits for room as far as there is some: packets in their order,
// then parts of the streams, one stream after the other. It says whether it has written anything, and
// completes the requests that this ends.
func (l *outLane) pump(e *engine) (did bool) {
	for l.sent < len(l.queue) {
		p := &l.queue[l.sent]
		if !l.put(e, p) {
			return did
		}
		did = true
		*p = packet{}
		l.sent++
	}
	l.queue, l.sent = l.queue[:0], 0
	for len(l.streams) > 0 {
		r := l.streams[0]
		n := min(r.size-r.moved, e.fragment, l.data.left(l.shape.Data)) // no room is lost at the end
		p := packet{kind: kindData, body: parcel{to: r.theirs}, data: unsafe.Add(r.buf, r.moved), n: n}
		p.size = sizeOf(0, p.n)
		if !l.write(&p) {
			return did
		}
		did = true
		if r.moved += p.n; r.moved == r.size {
			l.streams = slices.Delete(l.streams, 0, 1)
			e.complete(r, nil)
		}
	}
	return did
}

// inLane is the receiver's side of a lane. The engine's lock guards it but for cells,
// which others may read.
type inLane struct {
	head  *layout.Lane
	first *layout.Cell
	room  unsafe.Pointer
	bell  *layout.Bell // of the sender
	shape layout.LaneShape
	pe    int
	cells uint64 // read
	data  cursor

	backCells uint64 // that the sender was told of
	backData  uint64
}

// ready says whether there is something to read.
func (l *inLane) ready() bool {
	next := atomic.LoadUint64(&l.cells)
	mark := atomic.LoadUint64(&l.first.At(int(next) & (l.shape.Cells - 1)).Mark)
	return uint32(mark) == uint32(next+1)
}

// next returns the cell that is read next, which is ready.
func (l *inLane) next() *layout.Cell { return l.first.At(int(l.cells) & (l.shape.Cells - 1)) }

// behind returns where the next n bytes behind the cells are.
func (l *inLane) behind(n int) unsafe.Pointer {
	return unsafe.Add(l.room, l.data.take(n, l.shape.Data))
}

// freePart is the part of a lane that is given back at once. What is kept back is never what a
// sender waits for: it is so little that either something is left to be read, or there is room for
// the longest message, even if that does not fit behind the last one.
const freePart = 8

// free is done with the cell that was read, and its data. The sender is told now and then: the
// line that says so goes from one processor to the other each time.
func (l *inLane) free() {
	rma.StoreRelease(&l.cells, l.cells+1)
	if l.cells-l.backCells < uint64(l.shape.Cells/freePart) && l.data.pos-l.backData < uint64(l.shape.Data/freePart) {
		return
	}
	l.backCells, l.backData = l.cells, l.data.pos
	rma.StoreRelease(&l.head.Data, l.data.pos)
	rma.StoreRelease(&l.head.Cells, l.cells)
	rma.RingWanted(l.bell, &l.head.Want)
}

// copyBytes copies n bytes.
func copyBytes(dst, src unsafe.Pointer, n int) {
	copy(unsafe.Slice((*byte)(dst), n), unsafe.Slice((*byte)(src), n))
}

// moveBytes is copyBytes for any number of them.
func moveBytes(dst, src unsafe.Pointer, n int) {
	rma.Move(dst, unsafe.Slice((*byte)(src), n))
}
