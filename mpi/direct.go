package mpi

import (
	"unsafe"

	"github.com/goshmem/goshmem/mpi/match"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Most receives that wait are for a short message of one sender, while no other receive
// does. Such a message goes from the lane to the buffer: without a request, which would
// cost about as much as the message's way from one processor to the other.

const (
	directPolls = 500 // looks before the receive is posted
	directMost  = 16  // messages received so between two looks at everything
)

// direct is a short cut of a receive that waits: it returns at once or soon, and ok if it
// has received the message. Otherwise nothing has happened, and the receive is to be
// posted: also because of anything that is unusual, which is dealt with there.
func (c *Comm) direct(s span, src, tag int) (st Status, ok bool) {
	if c == nil || c.g == nil || uint(src) >= uint(c.g.n) || tag < AnyTag || tag > MaxTag {
		return st, false
	}
	g, env := c.g, envelope{Src: int32(src), Tag: int32(tag)}
	e := g.e
	e.job.Waiter.Beat()
	st, ok, empty := g.snatch(s, env)
	if !empty {
		return st, ok
	}
	for range min(directPolls, e.job.Waiter.Polls) {
		if e.stirring() {
			st, ok, _ = g.snatch(s, env)
			return st, ok
		}
	}
	return st, false
}

// snatch is next for who has no request.
func (g *group) snatch(s span, env envelope) (st Status, ok, empty bool) {
	e := g.e
	e.mu.Lock()
	defer e.unlock()
	if g.ended.Load() {
		return st, false, false
	}
	if st, ok, empty = g.next(s, env); empty {
		if out := e.out[g.pe(int(env.Src))]; out != nil {
			out.warm()
		}
	}
	return st, ok, empty
}

// next receives a whole message that was kept, or is the next one in the lane of its
// sender, if it is what comes next for this receive and fits the buffer. Empty says that the lane
// has nothing, and nothing else was found to be in the way. The caller has the engine's lock.
func (g *group) next(s span, env envelope) (st Status, ok, empty bool) {
	e, pe := g.e, g.pe(int(env.Src))
	l := e.in[pe]
	if m, kept := g.q.Peek(env); kept {
		if m.sender != 0 || m.size > min(s.bytes, lockedMost) {
			return st, false, false
		}
		_, _ = g.q.Take(env)
		if m.size > 0 {
			copyBytes(s.at, unsafe.Pointer(&m.data[0]), m.size)
		}
		st = statusOf(m.env, m.size, s.elem)
		e.drop(m)
		e.seldom(l)
		return st, true, false
	}
	if receives, _ := g.q.Waiting(); receives != 0 {
		return st, false, false // they may be for the same message, and were there before
	}
	if l == nil || !l.ready() {
		return st, false, true
	}
	c := l.next()
	rank, n := splitSize(c.Size)
	comm, tag := splitMatch(c.Match)
	found := envelope{Src: int32(rank), Tag: tag}
	if uint8(c.Mark>>32) != kindEager || comm != g.number || !env.Fits(found) || n > s.bytes {
		return st, false, false
	}
	switch {
	case n > layout.CellBody:
		copyBytes(s.at, l.behind(n), n)
	case n == 8:
		*(*[8]byte)(s.at) = *(*[8]byte)(unsafe.Pointer(&c.Body))
	case n > 0:
		copyBytes(s.at, unsafe.Pointer(&c.Body), n)
	}
	l.free()
	e.seldom(l)
	return statusOf(found, n, s.elem), true, false
}

// seldom makes progress for a receive that was direct, if there is more to do than to
// look at lanes, and now and then in any case: everything else goes on although every
// receive finds its message. The lane of the messages stays as it is, as those that go from
// there to their buffers take no way round.
func (e *engine) seldom(but *inLane) {
	if e.directs++; e.directs%directMost == 0 || len(e.stuck)+len(e.pulls)+len(e.helps) > 0 {
		e.progressUpTo(cellsMost, but)
	}
}

// statusOf returns the status of a receive that has got n bytes in elements of a size.
func statusOf(env match.Envelope, n, elem int) Status {
	s := Status{Source: int(env.Src), Tag: int(env.Tag), Bytes: n, Count: n}
	if elem > 1 { // a division costs as much as all else here
		s.Count = n / elem
	}
	return s
}
