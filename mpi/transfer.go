package mpi

import (
	"unsafe"

	"github.com/goshmem/goshmem/symheap/layout"
)

// transfers is the layer that moves a message to the receive that it has met. A short message is
// copied. A message that is too long to be sent at once stays at its sender, which has announced it:
//
//   - If the message has a share and this process can access its memory, both sides copy it (copier),
//     and the receiver sends Done.
//   - If it has no share but lies in the sender's symmetric heap, the receiver copies it and sends Done.
//   - Otherwise the receiver sends Clear. If the receive's buffer lies in the receiver's symmetric heap, the
//     sender copies the message there and sends Done.
//   - Otherwise the sender sends the message through the lane in parts, which takes two copies.
type transfers struct {
	copier
}

// deliver completes a receive with a whole message. Only a message of this process to itself may be
// long: then the lock is free during the copy.
func (t *transfers) deliver(r *request, env envelope, data unsafe.Pointer, n int) {
	switch n := r.acceptMessage(env, n); {
	case n > lockedMost:
		t.copyToSelf(r, data)
		return
	case n > 0:
		copyBytes(r.buf, data, n)
	}
	t.complete(r, nil)
}

// startTransfer begins to move an announced message to its receive.
func (t *transfers) startTransfer(r *request, m *message) {
	n := r.acceptMessage(m.env, m.size)
	if m.far {
		t.startFarTransfer(r, m, n)
		return
	}
	dead := t.isDead(m.pe)
	if !dead && t.startPull(r, m, n) {
		return
	}
	r.pe = m.pe
	if dead && n > 0 && !t.outlivesSender(m) {
		t.failByDeath(r)
		return
	}
	if m.offset != 0 || n == 0 {
		if n > 0 {
			moveBytes(r.buf, t.segmentAddress(m.pe, m.offset), n) // also from a dead sender's segment
		}
		t.releaseSender(m)
		t.complete(r, nil)
		return
	}
	t.sendPacket(t.laneTo(m.pe), &packet{kind: kindClear, body: parcel{
		to: m.sender, offset: t.targetOffset(r, n), from: t.table.assignNumber(r), size: uint64(n),
	}})
}

// releaseSender tells the sender of an announced message that this process does not need it any more.
func (t *transfers) releaseSender(m *message) {
	t.sendPacket(t.laneTo(m.pe), &packet{kind: kindDone, body: parcel{to: m.sender}})
}

// outlivesSender reports whether the message of a dead sender can still be received: it lies in a segment
// and was not withdrawn.
func (t *transfers) outlivesSender(m *message) bool {
	if m.offset == 0 || !m.hasShare() {
		return m.offset != 0
	}
	s := t.shareOf(m)
	return s.closeAs(layout.ShareTaken) == layout.ShareTaken
}

// handleClear sends a message that its receiver, PE pe, has cleared.
func (t *transfers) handleClear(pe layout.PE, p *parcel) {
	l, r, n := t.laneTo(pe), t.table.removeNumber(p.to), int(p.size)
	t.table.endLoan(p.to)
	if r == nil {
		t.sendPacket(l, &packet{kind: kindRefuse, body: parcel{to: p.from}})
		return
	}
	t.removeFrom(&t.pushes, r)
	if r.share != nil {
		r.share.words = nil
	}
	if p.offset != 0 && l.far == nil {
		moveBytes(t.segmentAddress(pe, p.offset), r.buf, n)
		t.sendPacket(l, &packet{kind: kindDone, body: parcel{to: p.from}})
		t.complete(r, nil)
		return
	}
	r.peerNumber, r.moved, r.size = p.from, 0, n
	l.streams = append(l.streams, r)
	t.block(l)
}

// handleDone completes a request whose peer has received, or written, the message, or does not need it.
func (t *transfers) handleDone(p *parcel) {
	t.table.endLoan(p.to)
	if r := t.table.removeNumber(p.to); r != nil {
		t.removeFrom(&t.pushes, r)
		t.complete(r, nil)
	}
}

// handleData copies the next part of a cleared message to its receive.
func (t *transfers) handleData(number uint64, data unsafe.Pointer, n int) {
	r := t.table.lookup(number)
	if r == nil {
		return // the receive has ended
	}
	copyBytes(unsafe.Add(r.buf, r.moved), data, n)
	if r.moved += n; r.moved == r.size {
		t.table.removeNumber(number)
		t.complete(r, nil)
	}
}

// handleRefuse ends a receive whose message the sender has withdrawn.
func (t *transfers) handleRefuse(p *parcel) {
	if r := t.table.removeNumber(p.to); r != nil {
		t.complete(r, ErrCanceled)
	}
}

// cancel ends a request before its operation does, for cause, and returns true: then the caller completes
// it or gives it back. It returns false if the request is done, or ends by itself soon (stopCopying).
func (t *transfers) cancel(r *request, cause error) bool {
	switch {
	case t.stopCopying(r, cause):
		t.detach(r)
		return true
	case !r.recv:
		t.detach(r)
		t.complete(r, nil) // the receiver has the message
	}
	return false
}

// detach removes a request from the queue of its communicator, from its lane and from the table.
func (t *transfers) detach(r *request) {
	if r.posted {
		r.g.q.Withdraw(r.ref)
	}
	if !r.recv && r.pe == t.me {
		r.g.e.kept.removeWaiter(r) // of a synchronous send to this process: its message stays
		for msg := range r.g.taken {
			if msg.waits == r {
				msg.waits = nil
			}
		}
	} else if !r.recv {
		t.laneTo(r.pe).withdraw(&t.outbound, r)
	}
	if r.number != 0 {
		t.table.removeNumber(r.number)
	}
}

// endOrphanedPull ends a receive whose sender has died while the message was being copied. A message in
// the sender's segment is still there.
func (t *transfers) endOrphanedPull(r *request) {
	s := r.share
	switch {
	case s.cause != nil:
		t.complete(r, s.cause)
	case s.get != nil: // the agent writes nothing of the dead any more
		t.failByDeath(r)
	case s.mapped != nil && s.closeAs(layout.ShareTaken) == layout.ShareTaken:
		moveBytes(r.buf, s.mapped, r.size)
		t.complete(r, nil)
	default:
		t.failByDeath(r)
	}
}
