package mpi

import (
	"unsafe"

	"github.com/goshmem/goshmem/symheap/layout"
)

// Most receives that wait are for a short message of one sender, while no other receive waits. Such a
// message goes from the lane to the buffer without a request. A request would cost about as much as the
// message's way from one processor to the other.

const (
	directPolls = 500 // polls before the receive is posted
	directMost  = 16  // direct receives between two looks at everything
)

// recvDirect receives a message without a request, if one comes soon. If it returns false, nothing has
// happened: no message has come, or something is unusual, and the caller posts the receive.
func recvDirect(c *Comm, s span, src, tag int) (st Status, ok bool) {
	if c == nil || c.g == nil || uint(src) >= uint(c.g.n) || tag < AnyTag || tag > MaxTag {
		return st, false
	}
	g, env := c.g, envelope{Src: int32(src), Tag: int32(tag)}
	e := g.e
	e.job.Waiter.Beat()
	st, ok, laneEmpty := g.tryDirect(s, env)
	if !laneEmpty {
		return st, ok
	}
	for range min(directPolls, e.job.Waiter.Polls) {
		if e.hasWork() {
			st, ok, _ = g.tryDirect(s, env)
			return st, ok
		}
	}
	return st, false
}

// tryDirect is recvNext with the lock. If the lane is empty, it warms the lane to the sender, to which the
// answer will go.
func (g *group) tryDirect(s span, env envelope) (st Status, ok, laneEmpty bool) {
	e := g.e
	e.mu.Lock()
	defer e.unlock()
	if g.ended.Load() {
		return st, false, false
	}
	if st, ok, laneEmpty = g.recvNext(s, env); laneEmpty {
		if out := e.out[g.pe(int(env.Src))]; out != nil {
			out.warm()
		}
	}
	return st, ok, laneEmpty
}

// recvNext receives the message that a receive from one sender would get, if it is whole, fits the buffer, and
// is kept or next in the sender's lane. laneEmpty reports that the lane is empty and nothing else is in the
// way. The caller has the engine's lock.
func (g *group) recvNext(s span, env envelope) (st Status, ok, laneEmpty bool) {
	e, pe := g.e, g.pe(int(env.Src))
	l := e.in[pe]
	if k, found, kept := g.q.Peek(env); kept {
		n, ok := e.kept.copyWhole(s, k)
		if !ok {
			return st, false, false
		}
		_, _, _ = g.q.Take(env)
		if k.form() == keptRecord {
			e.dropRecord(e.kept.removeRecord(k))
		} else {
			e.dropShort(k)
		}
		e.progressBeside(l)
		return statusOf(found, n, s.elem), true, false
	}
	if receives, _ := g.q.Waiting(); receives != 0 {
		return st, false, false // they came first, and may be for the same message
	}
	if l == nil || !l.hasCell() {
		return st, false, true
	}
	c := l.nextCell()
	rank, n := splitSize(c.Size)
	comm, tag := splitMatch(c.Match)
	found := envelope{Src: int32(rank), Tag: tag}
	if uint8(c.Mark>>32) != kindEager || comm != g.number || !env.Fits(found) || n > s.bytes {
		return st, false, false
	}
	switch {
	case n > layout.CellBody:
		copyBytes(s.at, l.nextData(n), n)
	case n == 8:
		*(*[8]byte)(s.at) = *(*[8]byte)(unsafe.Pointer(&c.Body))
	case n > 0:
		copyBytes(s.at, unsafe.Pointer(&c.Body), n)
	}
	l.freeCell()
	e.progressBeside(l)
	return statusOf(found, n, s.elem), true, false
}

// statusOf returns the status of a receive of n bytes, in elements of elem bytes.
func statusOf(env envelope, n, elem int) Status {
	s := Status{Source: int(env.Src), Tag: int(env.Tag), Bytes: n, Count: n}
	if elem > 1 { // a division costs as much as the rest of the function
		s.Count = n / elem
	}
	return s
}
