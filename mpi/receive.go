package mpi

import (
	"unsafe"

	"github.com/goshmem/goshmem/mpi/match"
	"github.com/goshmem/goshmem/symheap/layout"
)

// receiveCells reads up to limit cells of a lane, and reports whether there were any.
func (e *engine) receiveCells(l *inLane, limit int) (did bool) {
	for ; limit > 0 && l.hasCell(); limit-- {
		e.receiveCell(l)
		did = true
	}
	return did
}

// receiveAll is progress that reads everything that was in the lanes when it was called, for deaths and
// ends. Progress comes first, because it makes the lanes of new callers.
func (e *engine) receiveAll() {
	e.progress()
	e.receiveActive()
}

// receiveActive reads everything that was in the active lanes when it was called.
func (e *engine) receiveActive() {
	for _, l := range *e.active.Load() {
		e.receiveCells(l, l.shape.Cells)
	}
}

// drainLanes reads everything that was in the lanes when it was called.
func (e *engine) drainLanes() {
	e.mu.Lock()
	defer e.unlock()
	e.receiveAll()
}

// receiveCell reads the next cell of a lane, and hands it to the layer that it is for.
func (e *engine) receiveCell(l *inLane) {
	e.cellsReceived++
	c := l.nextCell()
	kind := uint8(c.Mark >> 32)
	rank, n := splitSize(c.Size)
	if l.pe == manyPEs && dropsCell(e, l, c, kind, n) {
		l.freeCell()
		return
	}
	switch kind {
	case kindEager:
		data := unsafe.Pointer(&c.Body)
		if n > layout.CellBody {
			data = l.nextData(n)
		}
		comm, tag := splitMatch(c.Match)
		if q := e.queueOf(comm); q != nil {
			e.matchWhole(q, match.Envelope{Src: int32(rank), Tag: tag}, data, n, l.from(c))
		}
	case kindAnnounce:
		p := (*parcel)(unsafe.Pointer(&c.Body))
		comm, tag := splitMatch(c.Match)
		e.handleAnnounce(comm, message{
			env: match.Envelope{Src: int32(rank), Tag: tag}, pe: l.from(c), size: n, sender: p.from, offset: p.offset, addr: p.addr, far: l.pe == manyPEs,
		})
	case kindClear:
		e.handleClear(l.from(c), (*parcel)(unsafe.Pointer(&c.Body)))
	case kindData:
		e.handleData((*parcel)(unsafe.Pointer(&c.Body)).to, l.nextData(n), n)
	case kindDone:
		e.handleDone((*parcel)(unsafe.Pointer(&c.Body)))
	case kindHelp:
		e.startPush(l.from(c), (*parcel)(unsafe.Pointer(&c.Body)))
	case kindRefuse:
		e.handleRefuse((*parcel)(unsafe.Pointer(&c.Body)))
	case kindNotice:
		switch comm, tag := splitMatch(c.Match); tag {
		case noticeLeft:
			noteLeft(e, comm, rank)
		case noticeBroken:
			noteBroken(e, comm, (*parcel)(unsafe.Pointer(&c.Body)).to)
		case noticeGivenUp:
			noteGivenUp(e, comm, (*parcel)(unsafe.Pointer(&c.Body)).to)
		case noticeRevoke:
			noteRevoked(e, comm)
		case noticeGone:
			noteGone(e, l.from(c))
		case noticeHold:
			noteHold(e, l.from(c), (*parcel)(unsafe.Pointer(&c.Body)).to)
		case noticeAgreed:
			noteAgreed(e, comm, rank, (*parcel)(unsafe.Pointer(&c.Body)))
		case noticePort:
			notePort(e, comm, l.from(c), (*parcel)(unsafe.Pointer(&c.Body)))
		case noticeBlock:
			noteBlock(e, comm, (*parcel)(unsafe.Pointer(&c.Body)).to)
		case noticeAsk:
			noteAsk(e, comm, rank, (*parcel)(unsafe.Pointer(&c.Body)))
		}
	}
	l.freeCell()
}
