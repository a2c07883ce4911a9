package mpi

import (
	"context"
	"errors"
	"math"
	"unsafe"

	"github.com/goshmem/goshmem/mpi/match"
)

// Wildcards of a receive, and the rank of nobody: a send to ProcNull and a receive
// from it succeed at once and move nothing.
const (
	AnySource = -1
	AnyTag    = -1
	ProcNull  = -2
)

// MaxTag is the greatest tag of a message.
const MaxTag = math.MaxInt32

type envelope = match.Envelope

// span is a buffer without its type.
type span struct {
	at        unsafe.Pointer
	bytes     int
	elem      int  // bytes of an element
	exclusive bool // nobody but this process may write to it
}

func spanOf[T any](buf []T) span {
	size := int(unsafe.Sizeof(*new(T)))
	return span{at: unsafe.Pointer(unsafe.SliceData(buf)), bytes: len(buf) * size, elem: size}
}

// exclusiveFor makes a buffer one that its owner has back when ctx ends, whatever the sender of the
// message does: so that one does not write to it.
func (s span) exclusiveFor(ctx context.Context) span {
	s.exclusive = ctx != nil && ctx.Done() != nil
	return s
}

// overlaps says whether two buffers have bytes in common.
func (s span) overlaps(o span) bool {
	a, b := uintptr(s.at), uintptr(o.at)
	return a < b+uintptr(o.bytes) && b < a+uintptr(s.bytes)
}

// Send sends a message and returns when buf may be used again: short messages at
// once, unless the way to dst is full, longer ones when they are received.
// Messages between two ranks are received in the order in which they were sent.
//
//   - Shape: the receiver's buffer has at least as many bytes; its type is not compared.
//   - Cost: a long message is copied once, by both sides (package documentation).
//   - Errors: *UsageError; *RankError when dst has died or finalized; the end of c's context, with
//     which a message that was announced already is given up: its receive fails, or, if
//     buf is in the symmetric heap and 512 other long messages were under way, may get
//     what is there later.
//   - Concurrent calls: allowed.
//   - Source: MPI_Send.
func Send[T any](c *Comm, buf []T, dst, tag int) error {
	const op = "Send"
	if err := checkType[T](op); err != nil {
		return err
	}
	return c.send(op, spanOf(buf), dst, tag)
}

// Isend begins to send a message. Until the request is complete, buf must not be
// changed.
//
//   - Errors: as Send, here or at Wait. Where the rank has died, here and at Wait of the request.
//   - Concurrent calls: allowed.
//   - Source: MPI_Isend.
func Isend[T any](c *Comm, buf []T, dst, tag int) (Request, error) {
	const op = "Isend"
	if err := checkType[T](op); err != nil {
		return Request{}, err
	}
	return c.isend(op, spanOf(buf), dst, tag)
}

// Recv receives the earliest message that fits src and tag, which may be AnySource
// and AnyTag.
//
//   - Errors: *UsageError; ErrTruncated when the message is longer than buf; ErrCanceled when
//     its sender has given it up; *RankError when src has died or finalized and all that it
//     had sent was received, or, for AnySource, when a rank has died whose death is not
//     acknowledged (AckFailed) and no message is there, when the message met was that of a
//     rank that has died, or when no other rank is left; the end of c's context.
//   - Concurrent calls: allowed.
//   - Source: MPI_Recv.
func Recv[T any](c *Comm, buf []T, src, tag int) (Status, error) {
	const op = "Recv"
	if err := checkType[T](op); err != nil {
		return emptyStatus, err
	}
	s := spanOf(buf)
	if status, ok := c.recvDirect(s, src, tag); ok {
		return status, nil
	}
	r, err := c.startRecv(op, s.exclusiveFor(c.ctx), src, tag)
	switch {
	case err != nil:
		return emptyStatus, err
	case r == nil:
		return procNullStatus, nil
	}
	return r.finish(c.ctx)
}

// Irecv begins to receive a message. Until the request is complete, buf must not be
// used.
//
//   - Errors: as Recv, here or at Wait.
//   - Concurrent calls: allowed.
//   - Source: MPI_Irecv.
func Irecv[T any](c *Comm, buf []T, src, tag int) (Request, error) {
	const op = "Irecv"
	if err := checkType[T](op); err != nil {
		return Request{}, err
	}
	r, err := c.startRecv(op, spanOf(buf), src, tag)
	switch {
	case err != nil:
		return Request{}, err
	case r == nil:
		return procNullRequest.handle(c.ctx), nil
	}
	return r.handle(c.ctx), nil
}

// Sendrecv sends a message and receives one, in any order.
//
//   - Shape: as Send and Recv; send and recv do not overlap, which is not checked.
//   - Errors: as Send and Recv. When the send fails, the receive is taken back; if its
//     message had come before, recv and the status have it, otherwise the status is that of
//     ProcNull.
//   - Concurrent calls: allowed.
//   - Source: MPI_Sendrecv.
func Sendrecv[S, R any](c *Comm, send []S, dst, sendTag int, recv []R, src, recvTag int) (Status, error) {
	const op = "Sendrecv"
	err := checkType[S](op)
	if err == nil {
		err = checkType[R](op)
	}
	if err == nil {
		err = c.checkSend(op, dst, sendTag)
	}
	if err != nil {
		return emptyStatus, err
	}
	into := spanOf(recv)
	into.exclusive = true // it is taken back if the send fails, too
	r, err := c.startRecv(op, into, src, recvTag)
	if err != nil {
		return emptyStatus, err
	}
	if err := c.send(op, spanOf(send), dst, sendTag); err != nil {
		if r == nil {
			return procNullStatus, err
		}
		if r.g.e.abandon(r, false, err) {
			r.recycle()
			return procNullStatus, err
		}
		for !r.isDone() { // its sender is about to write to the buffer
			_ = r.await(nil) //nolint:staticcheck // none
		}
		s, short := r.takeOutcome()
		switch {
		case short == nil, errors.Is(short, ErrTruncated):
			return s, errors.Join(err, short)
		case errors.Is(short, err):
			return procNullStatus, err
		default:
			return procNullStatus, errors.Join(err, short)
		}
	}
	if r == nil {
		return procNullStatus, nil
	}
	return r.finish(c.ctx)
}

// checkSend checks the communicator, rank and tag of a send.
func (c *Comm) checkSend(op string, dst, tag int) error {
	if c != nil && c.g != nil && uint(dst) < uint(c.g.n) && uint(tag) <= MaxTag && !c.g.ended.Load() {
		return nil
	}
	if err := c.usable(op); err != nil {
		return err
	}
	if dst != ProcNull && (dst < 0 || dst >= c.g.n) {
		return usage(op, ErrRankRange, "destination %d in a communicator of %d, want 0 to %d or ProcNull", dst, c.g.n, c.g.n-1)
	}
	if tag < 0 || tag > MaxTag {
		return usage(op, ErrTag, "tag %d, want 0 to %d", tag, MaxTag)
	}
	return nil
}

// checkRecv is checkSend for a receive.
func (c *Comm) checkRecv(op string, src, tag int) error {
	if err := c.usable(op); err != nil {
		return err
	}
	if src != ProcNull && (src < AnySource || src >= c.g.n) {
		return usage(op, ErrRankRange, "source %d in a communicator of %d, want 0 to %d, AnySource or ProcNull", src, c.g.n, c.g.n-1)
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
	r, err := c.g.startSend(op, s, dst, tag)
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

// startSend begins a send. It returns no request if that is complete already.
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
		e.offerShare(r)
		e.sendPacket(l, &packet{kind: kindAnnounce, match: match, size: size, r: r, body: parcel{
			from: r.number, offset: e.segmentOffset(s.at, s.bytes), addr: uint64(uintptr(s.at)),
		}})
	}
	return r, nil
}

// startRecv begins a receive. It returns no request for one from ProcNull.
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
	r := g.newRequest(op, s)
	r.recv, r.anySource, r.exclusive = true, src == AnySource, s.exclusive
	receives, _ := g.q.Waiting()
	laneEmpty := false // the lane of the sender, a moment ago
	if src != AnySource {
		if receives != 0 {
			e.progressFor(receives) // they may all have what they wait for, and this one is alone then
		}
		var st Status
		var ok bool
		if st, ok, laneEmpty = g.recvNext(s, env); ok {
			r.status, r.done = st, 1 // nobody else knows of it yet
			return r, nil
		}
	}
	if m, ok := g.q.Take(env); ok {
		e.deliverKept(r, m)
		e.progressFor(1) // also where every receive finds its message waiting
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
