package mpi

import (
	"context"
	"unsafe"

	"github.com/goshmem/goshmem/mpi/match"
	"github.com/goshmem/goshmem/symheap/layout"
)

type envelope = match.Envelope

// span is a buffer without its type.
type span struct {
	at    unsafe.Pointer
	bytes int
	elem  int // bytes of an element
	marks spanMarks
}

// spanMarks are marks of a span. They are one field, because the compiler keeps a struct of at most four in registers.
type spanMarks uint8

const (
	spanSynced    spanMarks = 1 << iota // the send is complete when its receive has begun
	spanExclusive                       // only this process may write to the buffer of a receive, or its call may give a send up
)

func (s span) isSynced() bool { return s.marks&spanSynced != 0 }

func (s span) isExclusive() bool { return s.marks&spanExclusive != 0 }

// spanOf returns the span of a slice.
func spanOf[T any](buf []T) span {
	size := int(unsafe.Sizeof(*new(T)))
	return span{at: unsafe.Pointer(unsafe.SliceData(buf)), bytes: len(buf) * size, elem: size}
}

// exclusiveFor makes a buffer exclusive if ctx can end. Then the call returns the buffer to its owner, and
// a sender that writes to it could be stopped in the middle of a part. A receiver that reads from it could get what its owner writes.
func (s span) exclusiveFor(ctx context.Context) span {
	if ctx != nil && ctx.Done() != nil {
		s.marks |= spanExclusive
	}
	return s
}

// overlaps reports whether two buffers have bytes in common.
func (s span) overlaps(o span) bool {
	a, b := uintptr(s.at), uintptr(o.at)
	return a < b+uintptr(o.bytes) && b < a+uintptr(s.bytes)
}

// checkSend checks the communicator, destination and tag of a send.
func checkSend(c *Comm, op string, dst, tag int) error {
	if c != nil && c.g != nil && uint(dst) < uint(c.g.n) && uint(tag) <= MaxTag && !c.g.ended.Load() {
		return nil
	}
	if err := usableInMessages(c, op); err != nil {
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
func checkRecv(c *Comm, op string, src, tag int) error {
	if err := usableInMessages(c, op); err != nil {
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

// sendSpan is Send without the type.
func sendSpan(c *Comm, op string, s span, dst, tag int) error {
	if isIntercepted() {
		return intercept(Call{op, c, dst, tag, s.bytes}, func() error { return sendUnseen(c, op, s, dst, tag, true) })
	}
	return sendUnseen(c, op, s, dst, tag, true)
}

// sendUnseen is sendSpan without a look at the interceptor. Unless handles is set, it does not call the communicator's handler.
func sendUnseen(c *Comm, op string, s span, dst, tag int, handles bool) error {
	err := checkSend(c, op, dst, tag)
	if err == nil && dst != ProcNull {
		r, failed := c.g.startSend(op, s.exclusiveFor(c.ctx), dst, tag)
		switch {
		case r != nil:
			_, err = r.finish(c.ctx)
		case failed != nil:
			err = c.g.reportDeath(failed)
		}
	}
	if err == nil || !handles {
		return err
	}
	return handledOf(c, err)
}

// isendSpan is Isend without the type.
func isendSpan(c *Comm, op string, s span, dst, tag int) (Request, error) {
	if isIntercepted() {
		return interceptStart(Call{op, c, dst, tag, s.bytes}, func() (Request, error) { return isendUnseen(c, op, s, dst, tag, false) })
	}
	return isendUnseen(c, op, s, dst, tag, true)
}

// isendUnseen is isendSpan without a look at the interceptor. Unless handles is set, it does not call the communicator's handler.
func isendUnseen(c *Comm, op string, s span, dst, tag int, handles bool) (q Request, _ error) {
	err := checkSend(c, op, dst, tag)
	if err == nil {
		if dst == ProcNull {
			return Request{gen: useKept}, nil
		}
		sum := sumOf(s)
		var r *request
		if r, err = c.g.startSend(op, s, dst, tag); err == nil {
			if r == nil {
				return Request{gen: useKept}, nil
			}
			if isDebug {
				noteBuffer(r, s, sum)
			}
			return r.handle(c.ctx), nil
		}
		q, err = failedRequest(err), c.g.reportDeath(err)
	}
	if handles {
		err = handledOf(c, err)
	}
	return q, err
}

// irecv is Irecv without the type.
func irecv(c *Comm, op string, s span, src, tag int) (Request, error) {
	if isIntercepted() {
		return interceptStart(Call{op, c, src, tag, s.bytes}, func() (Request, error) { return irecvUnseen(c, op, s, src, tag, false) })
	}
	return irecvUnseen(c, op, s, src, tag, true)
}

// irecvUnseen is irecv without a look at the interceptor. Unless handles is set, it does not call the communicator's handler.
func irecvUnseen(c *Comm, op string, s span, src, tag int, handles bool) (Request, error) {
	r, err := startRecv(c, op, s, src, tag)
	switch {
	case err != nil && handles:
		return Request{}, handledOf(c, err)
	case err != nil:
		return Request{}, err
	case r == nil:
		return procNullHandle, nil
	}
	return r.handle(c.ctx), nil
}

// startSend begins a send. It returns nil without an error if the send is complete already.
func (g *group) startSend(op string, s span, dst, tag int) (*request, error) {
	e, pe := g.e, g.pe(dst)
	if pe == e.me && s.bytes > lockedMost && !s.isSynced() {
		return nil, sendLongToSelf(g, op, s, tag)
	}
	e.job.Waiter.Beat()
	e.mu.Lock()
	defer e.unlock()
	if e.job.Failures.Epoch() != e.deathEpoch.Load() || e.far != nil && e.mustLook(pe, s.bytes) {
		e.progress()
	}
	if g.ended.Load() { // after progress, which may learn that the communicator is revoked
		return nil, g.endedError(op)
	}
	if l := e.out[pe]; l != nil && s.bytes <= layout.CellBody && !s.isSynced() && l.isIdle() && !e.isDead(pe) &&
		l.writeEager(matchOf(g.number, int32(tag)), sizeOf(g.me, s.bytes), s.at, s.bytes) { // putSend would do the same, but not as fast
		return nil, nil
	}
	return g.putSend(op, s, dst, tag)
}

// putSend sends a message, or begins to. It returns nil without an error if the send is complete already. The caller has the engine's lock. A message of this
// process to itself has at most lockedMost bytes.
func (g *group) putSend(op string, s span, dst, tag int) (*request, error) {
	e, pe := g.e, g.pe(dst)
	if e.isDead(pe) {
		if isRecognized(g, dst) {
			return nil, nil
		}
		return nil, g.deadError(op, dst)
	}
	if pe == e.me {
		env := envelope{Src: int32(g.me), Tag: int32(tag)}
		if s.isSynced() && !g.q.WouldMeet(env) {
			return keepForSelf(g, op, s, env), nil
		}
		e.matchWhole(&g.q, env, s.at, s.bytes, pe)
		return nil, nil
	}
	l, match, size := e.laneTo(pe), matchOf(g.number, int32(tag)), sizeOf(g.me, s.bytes)
	eager := s.bytes <= e.eager && !s.isSynced() && (s.bytes <= layout.CellBody || !l.isHeld())
	if eager && l.isIdle() && l.writeEager(match, size, s.at, s.bytes) {
		return nil, nil
	}
	r := g.newRequest(op, s)
	r.pe, r.awaitedPE, r.exclusive = pe, int32(pe)+1, s.isExclusive()
	if eager {
		e.sendPacket(l, &packet{kind: kindEager, match: match, size: size, data: s.at, n: s.bytes, r: r})
	} else {
		p := e.announcement(l, r, match, size)
		e.sendPacket(l, &p)
	}
	return r, nil
}

// postedLooks is after how many receives that begin while others wait for messages one looks into the lanes. A
// receiver that looks each time reads each cell just when its sender writes it: the cell's line then goes to and fro.
const postedLooks = 8

// startRecv begins a receive. It returns nil without an error for a receive from ProcNull.
func startRecv(c *Comm, op string, s span, src, tag int) (*request, error) {
	if c == nil || c.g == nil || uint(src-AnySource) > uint(c.g.n) || uint(tag-AnyTag) > MaxTag+1 {
		if err := checkRecv(c, op, src, tag); err != nil || src == ProcNull {
			return nil, err
		}
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
	if isDebug {
		poisonBuffer(s)
	}
	receives, _ := g.q.Waiting()
	looks := receives == 0
	if !looks {
		e.posts++
		looks = e.posts%postedLooks == 0
	}
	laneEmpty := false // the sender's lane was empty a moment ago
	if src != AnySource {
		if receives != 0 && looks {
			e.progressFor(receives) // if all of them get their messages, this receive is alone and may be direct
		}
		var st Status
		var ok bool
		if st, ok, laneEmpty = g.recvNext(s, env); ok {
			return g.directRequest(st), nil
		}
	}
	if g.ended.Load() { // progress has learned that the communicator is revoked
		return nil, g.endedError(op)
	}
	r := g.newRequest(op, s)
	r.recv, r.anySource, r.exclusive = true, src == AnySource, s.isExclusive()
	if k, found, ok := g.q.Take(env); ok {
		e.deliverKept(r, found, k)
		e.progressFor(1) // a receive that finds its message waiting makes progress, too
		return r, nil
	}
	if src != AnySource {
		r.pe = g.pe(src)
		r.awaitedPE = int32(r.pe) + 1
		if e.isDead(r.pe) {
			if isRecognized(g, src) {
				r.status = procNullStatus
				e.complete(r, nil)
			} else {
				e.failByDeath(r)
			}
			return r, nil
		}
	}
	r.ref, r.posted = g.q.Post(env, r), true
	switch {
	case laneEmpty:
		e.progressBeside(e.in[r.pe])
	case looks:
		receives, _ = g.q.Waiting()
		e.progressFor(receives)
	}
	return r, nil
}
