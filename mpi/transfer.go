package mpi

import (
	"unsafe"

	"github.com/goshmem/goshmem/symheap/layout"
)

// A message that is too long to be sent at once stays with its sender, who announces
// it. When it has met its receive:
//
//   - if its memory can be reached, sender and receiver copy it together (share), and the
//     receiver says that it is done; if there is no share for it, the receiver alone, and
//     only if it lies in the sender's symmetric heap;
//   - if not, the receiver clears it. If the receiver's buffer is in its symmetric
//     heap, the sender copies the message to there, and says that it is done;
//   - otherwise the sender sends it through the lane part by part: that takes two copies.

// entry is a request that another process knows by its place here. The number given
// to it has the generation as well, so that an answer to one that has ended, for a
// death or a context, is known as such.
//
// The share of a message is the one with the number of its entry. An entry whose share has been
// lent is not used again before the receiver has given that back.
type entry struct {
	r    *request
	gen  uint32
	lent int32 // 1 + the PE that may still look at the share, 0: nobody
}

// enter gives a request a number, which is not 0.
func (e *engine) enter(r *request) uint64 {
	var i uint32
	if n := len(e.vacant); n > 0 {
		i, e.vacant = e.vacant[n-1], e.vacant[:n-1]
	} else {
		i = uint32(len(e.table))
		e.table = append(e.table, entry{})
	}
	if e.table[i].gen++; e.table[i].gen == 0 { // after 2^32 uses, number 0 would be nobody's
		e.table[i].gen = 1
	}
	e.table[i].r = r
	r.number = uint64(e.table[i].gen)<<32 | uint64(i)
	return r.number
}

// find returns the request with a number, nil if it has ended.
func (e *engine) find(number uint64) *request {
	i := uint32(number)
	if int(i) >= len(e.table) || e.table[i].gen != uint32(number>>32) {
		return nil
	}
	return e.table[i].r
}

// strike takes a request's number away.
func (e *engine) strike(number uint64) *request {
	r := e.find(number)
	if r != nil {
		i := uint32(number)
		e.table[i].r = nil
		if e.table[i].lent == 0 {
			e.vacant = append(e.vacant, i)
		}
		r.number = 0
	}
	return r
}

// regain takes back the share of a request's message, with which the receiver is done. By then it
// may be another's: where Finalize waits for nobody, a message of before it may be found in
// the lane at the next Init, and is answered then.
func (w *wires) regain(number uint64) {
	i := uint32(number)
	if int(i) < len(w.table) && w.table[i].gen == uint32(number>>32) && w.table[i].lent != 0 {
		w.reuse(i)
	}
}

// reclaim takes back all shares that were lent to certain PEs.
func (w *wires) reclaim(from func(pe int32) bool) {
	for i := range w.table {
		if by := w.table[i].lent; by != 0 && from(by-1) {
			w.reuse(uint32(i))
		}
	}
}

// reuse ends the loan of an entry's share.
func (w *wires) reuse(i uint32) {
	w.table[i].lent = 0
	if w.table[i].r == nil {
		w.vacant = append(w.vacant, i)
	}
}

// offset returns where bytes are in the heap of this process's segment, 0 if they are
// not.
func (e *engine) offset(p unsafe.Pointer, n int) uint64 {
	off := uint64(uintptr(p) - uintptr(unsafe.Pointer(e.own)))
	if size := e.job.Map.Size(); off < layout.HeapOffset || off >= size || size-off < uint64(n) {
		return 0
	}
	return off
}

// at returns the address of an offset in a PE's segment.
func (e *engine) at(pe int, off uint64) unsafe.Pointer {
	return unsafe.Add(e.job.Map.Segment(pe), int(off))
}

// announced takes word of a message.
func (e *engine) announced(comm uint32, m message) {
	q := e.queue(comm)
	if q == nil {
		e.release(&m) // nobody will ever want it
		return
	}
	if r, ok := q.Arrive(m.env); ok {
		e.fetch(r, &m)
		return
	}
	keep := e.newMessage(0)
	m.data = keep.data
	*keep = m
	q.Keep(m.env, keep)
}

// take gives a receive the message that it has met, which was waiting.
func (e *engine) take(r *request, m *message) {
	switch {
	case m.sender != 0:
		e.fetch(r, m)
	case m.size > 0:
		e.fill(r, m.env, unsafe.Pointer(&m.data[0]), m.size)
	default:
		e.fill(r, m.env, nil, 0)
	}
	e.drop(m)
}

// fetch begins to move a message that was announced to its receive.
func (e *engine) fetch(r *request, m *message) {
	n := r.took(m.env, m.size)
	dead := e.dead != nil && e.dead[m.pe]
	if !dead && e.pull(r, m, n) {
		return
	}
	r.pe = m.pe
	if dead && n > 0 && !e.outlives(m) {
		e.fails(r)
		return
	}
	if m.offset != 0 || n == 0 {
		if n > 0 {
			moveBytes(r.buf, e.at(m.pe, m.offset), n) // also from one who is dead
		}
		e.release(m)
		e.complete(r, nil)
		return
	}
	e.send(e.lane(m.pe), &packet{kind: kindClear, body: parcel{to: m.sender, offset: e.offsetFor(r, n), from: e.enter(r), size: uint64(n)}})
}

// release tells the sender of a message that nobody here needs it any more.
func (e *engine) release(m *message) {
	e.send(e.lane(m.pe), &packet{kind: kindDone, body: parcel{to: m.sender}})
}

// outlives says whether a message is there still, although its sender has died: it is in a
// segment, and was not given up.
func (e *engine) outlives(m *message) bool {
	if m.offset == 0 || !m.sharable() {
		return m.offset != 0
	}
	s := e.shareOf(m)
	return s.close(layout.ShareTaken) == layout.ShareTaken
}

// cleared sends a message that its receiver waits for.
func (e *engine) cleared(pe int, p *parcel) {
	l, r, n := e.lane(pe), e.strike(p.to), int(p.size)
	e.regain(p.to)
	if r == nil {
		e.send(l, &packet{kind: kindRefuse, body: parcel{to: p.from}})
		return
	}
	e.noCopy(&e.helps, r)
	r.share.words = nil
	if p.offset != 0 {
		moveBytes(e.at(pe, p.offset), r.buf, n)
		e.send(l, &packet{kind: kindDone, body: parcel{to: p.from}})
		e.complete(r, nil)
		return
	}
	r.theirs, r.moved, r.size = p.from, 0, n
	l.streams = append(l.streams, r)
	e.stick(l)
}

// done ends a send whose message its receiver has, or will never want.
func (e *engine) done(p *parcel) {
	e.regain(p.to)
	if r := e.strike(p.to); r != nil {
		e.noCopy(&e.helps, r)
		e.complete(r, nil)
	}
}

// part takes the next part of a message.
func (e *engine) part(number uint64, data unsafe.Pointer, n int) {
	r := e.find(number)
	if r == nil {
		return // nobody waits for it any more
	}
	copyBytes(unsafe.Add(r.buf, r.moved), data, n)
	if r.moved += n; r.moved == r.size {
		e.strike(number)
		e.complete(r, nil)
	}
}
