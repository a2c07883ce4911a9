package mpi

import (
	"context"
	"unsafe"

	"github.com/goshmem/goshmem/mpi/match"
)

type envelope = match.Envelope

// span is a buffer without its type.
type span struct {
	at        unsafe.Pointer
	bytes     int
	elem      int  // bytes of an element
	exclusive bool // only this process may write to the buffer of a receive, or its call may give a send up
}

// spanOf returns the span of a slice.
func spanOf[T any](buf []T) span {
	size := int(unsafe.Sizeof(*new(T)))
	return span{at: unsafe.Pointer(unsafe.SliceData(buf)), bytes: len(buf) * size, elem: size}
}

// exclusiveFor makes a buffer exclusive if ctx can end. Then the call returns the buffer to its owner, and
// a sender that writes to it could be stopped in the middle of a part. A receiver that reads from it could get what its owner writes.
func (s span) exclusiveFor(ctx context.Context) span {
	s.exclusive = ctx != nil && ctx.Done() != nil
	return s
}

// overlaps reports whether two buffers have bytes in common.
func (s span) overlaps(o span) bool {
	a, b := uintptr(s.at), uintptr(o.at)
	return a < b+uintptr(o.bytes) && b < a+uintptr(s.bytes)
}

// checkSend checks the communicator, destination and tag of a send.
func (c *Comm) checkSend(op string, dst, tag int) error {
	if c != nil && c.g != nil && uint(dst) < uint(c.g.n) && uint(tag) <= MaxTag && !c.g.ended.Load() {
		return nil
	}
	if err := c.usable(op); err != nil {
		return err
	}
	if dst != ProcNull && (dst < 0 || dst >= c.g.n) {
		return usage(op, ErrRankRange, "destination %d in a communicator of %d ranks, want 0 to %d or ProcNull", dst, c.g.n, c.g.n-1)
	}
	if tag < 0 || tag > MaxTag {
		return usage(op, ErrTag, "tag %d, want 0 to %d", tag, MaxTag)
	}
	return nil
}

// checkRecv checks the communicator, source and tag of a receive.
func (c *Comm) checkRecv(op string, src, tag int) error {
	if err := c.usable(op); err != nil {
		return err
	}
	if src != ProcNull && (src < AnySource || src >= c.g.n) {
		return usage(op, ErrRankRange, "source %d in a communicator of %d ranks, want 0 to %d, AnySource or ProcNull", src, c.g.n, c.g.n-1)
	}
	if tag < AnyTag || tag > MaxTag {
		return usage(op, ErrTag, "tag %d, want 0 to %d or AnyTag", tag, MaxTag)
	}
	return nil
}

// send is Send without the type.
func (c *Comm) send(op string, s span, dst, tag int) error {
	if err := c.checkSend(op, dst, tag); err != nil || dst == ProcNull {
		return err
	}
	r, err := c.g.startSend(op, s.exclusiveFor(c.ctx), dst, tag)
	if r == nil {
		return c.g.reportDeath(err)
	}
	_, err = r.finish(c.ctx)
	return err
}

// isend is Isend without the type.
func (c *Comm) isend(op string, s span, dst, tag int) (Request, error) {
	if err := c.checkSend(op, dst, tag); err != nil || dst == ProcNull {
		return Request{}, err
	}
	r, err := c.g.startSend(op, s, dst, tag)
	switch {
	case err != nil:
		return failedRequest(err), c.g.reportDeath(err)
	case r == nil:
		return Request{}, nil
	}
	return r.handle(c.ctx), nil
}

// startSend begins a send. It returns nil without an error if the send is complete already.
func (g *group) startSend(op string, s span, dst, tag int) (*request, error) {
	e, pe := g.e, g.pe(dst)
	if pe == e.me && s.bytes > lockedMost {
		return nil, g.sendLongToSelf(op, s, tag)
	}
	e.job.Waiter.Beat()
	e.mu.Lock()
	defer e.unlock()
	if g.ended.Load() {
		return nil, g.endedError(op)
	}
	if e.job.Failures.Epoch() != e.deathEpoch.Load() {
		e.progress()
	}
	if e.isDead(pe) {
		return nil, g.deadError(op, dst)
	}
	if pe == e.me {
		e.matchWhole(&g.q, envelope{Src: int32(g.me), Tag: int32(tag)}, s.at, s.bytes)
		return nil, nil
	}
	l, match, size := e.laneTo(pe), matchOf(g.number, int32(tag)), sizeOf(g.me, s.bytes)
	if s.bytes <= e.eager && l.isIdle() && l.writeEager(match, size, s.at, s.bytes) {
		return nil, nil
	}
	r := g.newRequest(op, s)
	r.pe, r.awaitedPE = pe, int32(pe)+1
	if s.bytes <= e.eager {
		e.sendPacket(l, &packet{kind: kindEager, match: match, size: size, data: s.at, n: s.bytes, r: r})
	} else {
		e.table.assignNumber(r)
		if l.far == nil {
			e.offerShare(r)
		}
		offset := e.segmentOffset(s.at, s.bytes)
		if s.exclusive && r.share.words == nil { // nothing would tell the receiver that the send has been given up
			offset = 0
		}
		e.sendPacket(l, &packet{kind: kindAnnounce, match: match, size: size, r: r, body: parcel{
			from: r.number, offset: offset, addr: uint64(uintptr(s.at)),
		}})
	}
	return r, nil
}

// startRecv begins a receive. It returns nil without an error for a receive from ProcNull.
func (c *Comm) startRecv(op string, s span, src, tag int) (*request, error) {
	if err := c.checkRecv(op, src, tag); err != nil || src == ProcNull {
		return nil, err
	}
	g := c.g
	e := g.e
	env := envelope{Src: int32(src), Tag: int32(tag)}
	e.job.Waiter.Beat()
	e.mu.Lock()
	defer e.unlock()
	if g.ended.Load() {
		return nil, g.endedError(op)
	}
	receives, _ := g.q.Waiting()
	laneEmpty := false // the sender's lane was empty a moment ago
	if src != AnySource {
		if receives != 0 {
			e.progressFor(receives) // if all of them get their messages, this receive is alone and may be direct
		}
		var st Status
		var ok bool
		if st, ok, laneEmpty = g.recvNext(s, env); ok {
			return g.directRequest(st), nil
		}
	}
	r := g.newRequest(op, s)
	r.recv, r.anySource, r.exclusive = true, src == AnySource, s.exclusive
	if m, ok := g.q.Take(env); ok {
		e.deliverKept(r, m)
		e.progressFor(1) // a receive that finds its message waiting makes progress, too
		return r, nil
	}
	if src != AnySource {
		r.pe = g.pe(src)
		r.awaitedPE = int32(r.pe) + 1
		if e.isDead(r.pe) {
			e.failByDeath(r)
			return r, nil
		}
	}
	r.ref, r.posted = g.q.Post(env, r), true
	if laneEmpty {
		e.progressBeside(e.in[r.pe])
	} else {
		receives, _ = g.q.Waiting()
		e.progressFor(receives)
	}
	return r, nil
}
