package mpi

import (
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/internal/far"
	"github.com/goshmem/goshmem/internal/lane"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// outLane is the sender's side of a lane. The engine's lock guards it.
type outLane struct {
	head  *layout.Lane
	first *layout.Cell
	room  unsafe.Pointer // of the data
	bell  *layout.Bell   // bell of the receiver
	shape layout.LaneShape
	pe    layout.PE // of the receiver

	cells     uint64      // cells written
	data      lane.Cursor // behind the data written
	doneCells uint64      // cells that the receiver has freed, as last read
	doneData  uint64      // bytes of data that the receiver has freed, as last read

	queue   []packet   // packets that wait for room; those before sent are written
	sent    int        // packets of queue that are written
	streams []*request // sends whose messages go through the lane in parts, one after the other
	blocked bool       // the lane is in outbound.blocked
	held    bool       // the receiver keeps much: see isHeld

	far *far.Port // to a PE of another node: by which messages go to the agent; such a lane has no cells, so writeEager refuses. Otherwise nil

	prefetch int // bytes of the last message in the data room, for warm; 0: none since the last warm
}

// packet is a cell to be written, with its data.
type packet struct {
	kind        uint8
	match, size uint64
	body        parcel
	data        unsafe.Pointer // of kindEager and kindData
	n           int            // bytes of data
	r           *request       // of kindEager: completed by the write; of kindAnnounce: the announced send; else nil
}

// hasRoom reports whether the lane has room for a cell and n bytes of data.
func (l *outLane) hasRoom(n int) bool {
	for fresh := false; ; fresh = true {
		if l.cells-l.doneCells < uint64(l.shape.Cells) &&
			(n == 0 || l.data.Pos+uint64(l.data.Step(n, l.shape.Data))-l.doneData <= uint64(l.shape.Data)) {
			return true
		}
		if fresh {
			return false
		}
		l.doneCells = atomic.LoadUint64(&l.head.Cells)
		l.doneData = atomic.LoadUint64(&l.head.Data)
		l.held = atomic.LoadUint32(&l.head.Hold) != 0
	}
}

// write writes a packet and wakes a sleeping receiver. It returns false if the lane has no room.
func (l *outLane) write(p *packet) bool {
	if l.far != nil {
		return l.writeFar(p, false)
	}
	if p.kind == kindEager {
		return l.writeEager(p.match, p.size, p.data, p.n)
	}
	if !l.hasRoom(p.n) {
		return false
	}
	c := l.nextCell()
	c.Size = p.size
	c.Match = p.match
	*(*parcel)(unsafe.Pointer(&c.Body)) = p.body
	if p.n > 0 {
		copyBytes(unsafe.Add(l.room, l.data.Advance(p.n, l.shape.Data)), p.data, p.n)
	}
	l.publish(c, p.kind)
	return true
}

// writeEager is write for a whole message, without a packet.
func (l *outLane) writeEager(match, size uint64, data unsafe.Pointer, n int) bool {
	inRoom := 0
	if n > layout.CellBody {
		inRoom = n
	}
	if !l.hasRoom(inRoom) {
		return false
	}
	c := l.nextCell()
	c.Match, c.Size = match, size
	switch {
	case inRoom > 0:
		copyBytes(unsafe.Add(l.room, l.data.Advance(n, l.shape.Data)), data, n)
		l.prefetch = n
	case n == 8:
		*(*[8]byte)(unsafe.Pointer(&c.Body)) = *(*[8]byte)(data)
	case n > 0:
		copyBytes(unsafe.Pointer(&c.Body), data, n)
	}
	l.publish(c, kindEager)
	return true
}

// warm writes to the cache lines where the data of the next message go, if that is as long as
// the last. A goroutine that waits for an answer calls it: the receiver has read these lines, and
// fetching them costs nothing while there is nothing else to do.
func (l *outLane) warm() {
	n := lane.Aligned(l.prefetch)
	l.prefetch = 0
	if n == 0 || l.data.Pos+uint64(l.data.Step(n, l.shape.Data))-l.doneData > uint64(l.shape.Data) {
		return // the receiver may still read these lines
	}
	next := l.data
	at := unsafe.Add(l.room, next.Advance(n, l.shape.Data))
	for i := 0; i < n; i += layout.CellSize {
		*(*uint64)(unsafe.Add(at, i)) = 0
	}
}

// prefetchCells is how many cells before its use the line of a cell is prefetched. Otherwise each
// message would hold the engine's lock until a line has come from the receiver.
const prefetchCells = 3

// nextCell returns the cell to be written next.
func (l *outLane) nextCell() *layout.Cell { return l.first.At(int(l.cells) & (l.shape.Cells - 1)) }

// publish makes a written cell readable by one store of its mark, and rings the receiver's bell.
func (l *outLane) publish(c *layout.Cell, kind uint8) {
	l.cells++
	rma.StoreRelease(&c.Mark, l.cells&(1<<32-1)|uint64(kind)<<32)
	rma.Ahead(unsafe.Pointer(l.first.At(int(l.cells+prefetchCells) & (l.shape.Cells - 1))))
	rma.RingBell(l.bell)
}

// writeAndComplete writes a packet, and completes the request of an eager one. It returns false if
// the lane has no room.
func (l *outLane) writeAndComplete(o *outbound, p *packet) bool {
	if p.kind == kindEager && p.r != nil && p.n > layout.CellBody && l.isHeld() {
		*p = o.announcement(l, p.r, p.match, p.size)
	}
	if !l.write(p) {
		return false
	}
	if p.kind == kindEager && p.r != nil {
		o.complete(p.r, nil)
	}
	return true
}

// isIdle reports whether nothing waits for room.
func (l *outLane) isIdle() bool { return l.sent == len(l.queue) && len(l.streams) == 0 }

// writeQueued writes what waits for room, as far as there is room: first the packets in their order,
// then the parts of the streams, one stream after the other. It reports whether it has written
// anything, and completes the requests that end so.
func (l *outLane) writeQueued(o *outbound) (did bool) {
	for l.sent < len(l.queue) {
		p := &l.queue[l.sent]
		if !l.writeAndComplete(o, p) {
			return did
		}
		did = true
		*p = packet{}
		l.sent++
	}
	l.queue, l.sent = l.queue[:0], 0
	for len(l.streams) > 0 {
		r := l.streams[0]
		n := min(r.size-r.moved, o.fragment, l.data.Contiguous(l.shape.Data)) // no room is lost at the end
		p := packet{kind: kindData, body: parcel{to: r.peerNumber}, data: unsafe.Add(r.buf, r.moved), n: n}
		p.size = sizeOf(0, p.n)
		if !l.write(&p) {
			return did
		}
		did = true
		if r.moved += p.n; r.moved == r.size {
			l.streams = slices.Delete(l.streams, 0, 1)
			o.complete(r, nil)
		}
	}
	return did
}

// withdraw removes a send from what waits for room. A receiver that waits for the parts of the
// message is told.
func (l *outLane) withdraw(o *outbound, r *request) {
	for i := l.sent; i < len(l.queue); i++ {
		if l.queue[i].r == r {
			o.table.endLoan(r.number)
			l.queue = append(l.queue[:i], l.queue[i+1:]...)
			return
		}
	}
	for i, s := range l.streams {
		if s == r {
			l.streams = append(l.streams[:i], l.streams[i+1:]...)
			o.sendPacket(l, &packet{kind: kindRefuse, body: parcel{to: r.peerNumber}})
			return
		}
	}
}
