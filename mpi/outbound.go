package mpi

import (
	"slices"
	"sync/atomic"

	"github.com/goshmem/goshmem/symheap/layout"
)

// Limits of what is copied through a lane in one piece. A message of up to eagerMost bytes is sent
// at once, whether a receive waits for it or not.
const (
	eagerMost    = 16 << 10
	fragmentMost = 16 << 10
)

// outbound is the layer that writes cells into the lanes of other processes, now or when there is room.
type outbound struct {
	process
	eager        int          // longest message that is sent at once
	fragment     int          // longest part of a message that goes through a lane in parts
	blocked      []*outLane   // lanes in which something waits for room
	blockedCount atomic.Int32 // len(blocked)
}

// laneTo returns the lane to a PE. The first use tells the PE to look at its side of the lane.
func (o *outbound) laneTo(pe layout.PE) *outLane {
	if l := o.out[pe]; l != nil {
		return l
	}
	if o.far != nil && !o.isNear(pe) {
		o.out[pe] = o.far.laneTo(pe)
		return o.out[pe]
	}
	if o.isForeign(pe) {
		return o.laneToForeign(pe)
	}
	c := o.control(pe)
	l := &outLane{bell: &c.Bell, shape: o.shape, pe: pe}
	l.head, l.first, l.room = c.Lane(o.shape, o.job.Local)
	o.out[pe] = l
	atomic.OrUint64(&c.Callers[o.job.Local/64], 1<<(o.job.Local%64))
	return l
}

// announcement returns the packet that announces a send, and prepares it for the receiver's answer.
func (o *outbound) announcement(l *outLane, r *request, match, size uint64) packet {
	o.table.assignNumber(r)
	if l.far == nil {
		o.offerShare(r)
	}
	offset := o.segmentOffset(r.buf, r.size)
	if r.exclusive && !r.isLent() { // nothing would tell the receiver that the send has been given up
		offset = 0
	}
	return packet{kind: kindAnnounce, match: match, size: size, r: r, body: parcel{from: r.number, offset: offset, addr: uint64(uintptr(r.buf))}}
}

// sendPacket writes a packet now, or queues it until there is room. It drops the packet if the engine
// is closed or the receiver is dead.
func (o *outbound) sendPacket(l *outLane, p *packet) {
	if o.closed.Load() || o.isDead(l.pe) {
		return
	}
	if l.isIdle() && l.writeAndComplete(o, p) {
		return
	}
	l.queue = append(l.queue, *p)
	o.block(l)
}

// block adds a lane to the blocked ones. The receiver rings this process's bell when it frees cells
// of such a lane.
func (o *outbound) block(l *outLane) {
	if l.blocked {
		return
	}
	l.blocked = true
	atomic.StoreUint32(&l.head.Want, 1)
	o.blocked = append(o.blocked, l)
	o.blockedCount.Store(int32(len(o.blocked)))
}

// writeBlocked writes what waits in blocked lanes, as far as there is room.
func (o *outbound) writeBlocked() (did bool) {
	for i := 0; i < len(o.blocked); {
		l := o.blocked[i]
		did = l.writeQueued(o) || did
		if !l.isIdle() {
			i++
			continue
		}
		l.blocked = false
		atomic.StoreUint32(&l.head.Want, 0)
		o.blocked = slices.Delete(o.blocked, i, i+1)
		o.blockedCount.Store(int32(len(o.blocked)))
	}
	return did
}

// discardQueued drops what waits for room in a lane, and calls end for each request that it drops.
func (o *outbound) discardQueued(l *outLane, end func(r *request)) {
	for i := l.sent; i < len(l.queue); i++ {
		if p := &l.queue[i]; p.kind == kindEager && p.r != nil {
			end(p.r)
		}
	}
	for _, r := range l.streams {
		end(r)
	}
	l.queue, l.sent, l.streams = nil, 0, nil
	if !l.blocked {
		return
	}
	l.blocked = false
	atomic.StoreUint32(&l.head.Want, 0)
	o.blocked = slices.DeleteFunc(o.blocked, func(x *outLane) bool { return x == l })
	o.blockedCount.Store(int32(len(o.blocked)))
}

// pieceLimit returns the longest piece that can go through a lane of a shape. Even if it does not fit
// behind the last piece, an empty lane has room for it.
func pieceLimit(shape layout.LaneShape) int { return shape.Data / 3 &^ (layout.CellSize - 1) }
