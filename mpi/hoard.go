package mpi

import (
	"sync/atomic"

	"github.com/goshmem/goshmem/symheap/layout"
)

// # Bounds of what waits for receives
//
// Short messages are sent at once, so a process keeps those for which no receive waits. What it keeps is bounded: a sender of which much is kept is told to
// announce its messages instead (Lane.Hold), and then waits in its sends until they are received. Only their envelopes are kept here.
//
//   - Messages that fit a cell are sent all the same: an announcement takes as much room.
//   - A sender on this node looks at the word now and then, and before each message while it is held. One on another node gets a notice.

// hoard counts what this process keeps of one sender. The engine's lock guards it.
type hoard struct {
	kept int  // bytes that whole messages take
	held bool // the sender has been told to announce its messages
}

const (
	hoardInline = 64       // bytes that a message of up to inlineMost bytes takes
	hoardSlot   = 128      // bytes that a longer one takes which fits a cell
	hoardRecord = 256      // bytes that any other one takes beside its buffer
	hoardMost   = 4 << 20  // bytes of one sender from which on it is held
	hoardAll    = 16 << 20 // bytes of all senders from which on each is held that has hoardLeast
	hoardLeast  = 64 << 10
)

// hoardOf returns what is kept of a sender.
func (m *matcher) hoardOf(pe layout.PE) *hoard {
	if m.hoards == nil {
		m.hoards = make([]hoard, len(m.out))
	}
	return &m.hoards[pe]
}

// noteKept notes that a whole message of another process is kept.
func (m *matcher) noteKept(pe layout.PE, size int) {
	h := m.hoardOf(pe)
	h.kept += size
	m.hoarded += size
	if !h.held && (h.kept > hoardMost || m.hoarded > hoardAll && h.kept > hoardLeast) {
		h.held = true
		m.setHold(pe, 1)
	}
}

// noteDropped notes that a message is kept no more.
func (m *matcher) noteDropped(pe layout.PE, size int) {
	h := m.hoardOf(pe)
	h.kept -= size
	m.hoarded -= size
	if h.held && h.kept <= hoardMost/2 && (m.hoarded <= hoardAll/2 || h.kept <= hoardLeast) {
		h.held = false
		m.setHold(pe, 0)
	}
}

// setHold tells a sender whether to announce its messages.
func (m *matcher) setHold(pe layout.PE, hold uint32) {
	if l := m.in[pe]; l != nil && l.pe != manyPEs {
		atomic.StoreUint32(&l.head.Hold, hold)
		return
	}
	if !m.isDead(pe) {
		m.sendPacket(m.laneTo(pe), &packet{kind: kindNotice, match: matchOf(0, noticeHold), body: parcel{to: uint64(hold)}})
	}
}

// noteHold notes what a receiver on another node says about this process's messages to it.
func noteHold(e *engine, from layout.PE, hold uint64) {
	atomic.StoreUint32(&e.laneTo(from).head.Hold, uint32(hold))
}

// farSends is after how many messages to a PE of another node, which do not fit a cell, a send makes progress.
const farSends = 32

// mustLook reports whether a send to a PE makes progress, as a notice may have come: a PE that only sends would never see it.
func (e *engine) mustLook(pe layout.PE, n int) bool {
	if n <= layout.CellBody || n > e.eager {
		return false
	}
	if l := e.out[pe]; l == nil || l.far == nil {
		return false
	}
	e.far.sends++
	return e.far.sends%farSends == 0 && e.hasWork()
}

// isHeld reports whether messages that do not fit a cell are to be announced, however short they are. A sender looks at
// Lane.Hold when it looks for room (outLane.hasRoom), and while it is held: the receiver writes to that line, so each look may take long. What it sends
// until then fits the lane.
func (l *outLane) isHeld() bool {
	if l.held || l.far != nil {
		l.held = atomic.LoadUint32(&l.head.Hold) != 0
	}
	return l.held
}

// endHolds ends what Finalize has left: the messages of then are gone. All ranks do so before one of them sends.
func (p *persistent) endHolds() {
	for pe, l := range p.in {
		if l != nil && l.pe != manyPEs {
			atomic.StoreUint32(&l.head.Hold, 0)
		}
		if o := p.out[pe]; o != nil && o.far != nil {
			atomic.StoreUint32(&o.head.Hold, 0)
		}
	}
}
