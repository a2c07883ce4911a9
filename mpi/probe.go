package mpi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/goshmem/goshmem/internal/wait"
)

// probe is a wait for a message that no receive has met. The engine's lock guards it.
type probe struct {
	c       *Comm // of the call
	g       *group
	op      string
	env     envelope
	take    bool // the message is taken from the queue
	m       *message
	found   envelope
	size    int
	err     error
	polls   uint
	sleeper *wait.Parked
}

// look makes progress and looks for the message. It reports whether the probe is over.
func (p *probe) look() bool {
	g, e := p.g, p.g.e
	e.mu.Lock()
	defer e.unlock()
	if !g.ended.Load() {
		e.progress()
	}
	return p.check()
}

// check looks for the message. The caller has the engine's lock.
func (p *probe) check() bool {
	g, e := p.g, p.g.e
	k, found, ok := g.q.Peek(p.env)
	switch {
	case g.ended.Load():
		p.err = g.endedError(p.op)
	case ok && p.take:
		_, _, _ = g.q.Take(p.env)
		p.m = e.recordOf(found, k)
		p.found, p.size = found, p.m.size
		if g.taken == nil {
			g.taken = map[*message]struct{}{}
		}
		g.taken[p.m] = struct{}{}
	case ok:
		p.found, p.size = found, e.kept.sizeOf(k)
	case p.env.Src != AnySource && isRecognized(g, int(p.env.Src)):
		p.found = envelope{Src: ProcNull, Tag: AnyTag}
	case p.env.Src != AnySource && e.isDead(g.pe(int(p.env.Src))):
		p.err = g.deadError(p.op, int(p.env.Src))
	case p.env.Src == AnySource && g.unackedDeath.Load():
		if dead := failedUnacked(g); dead != nil {
			p.err = g.deadError(p.op, dead...)
			return true
		}
		return false
	default:
		return false
	}
	return true
}

// Poll makes progress. The wait is over when there is a message, or none will come.
func (p *probe) Poll() wait.Look {
	if p.polls++; p.polls%leftEvery == 0 {
		if p.lookForLeft() {
			return wait.Over
		}
		return wait.Nothing
	}
	if p.g.e.hasWork() || p.g.ended.Load() {
		if p.look() {
			return wait.Over
		}
		return wait.Moved
	}
	return wait.Nothing
}

// lookForLeft is look, which also finds that the source has left.
func (p *probe) lookForLeft() bool {
	if p.look() {
		return true
	}
	g, e := p.g, p.g.e
	e.mu.Lock()
	defer e.unlock()
	// The error is that of a receive for the same message.
	like := &request{g: g, op: p.op, recv: true, posted: true, anySource: p.env.Src == AnySource}
	if !like.anySource {
		like.pe = g.pe(int(p.env.Src))
	}
	if g.peerLeftError(like) == nil {
		return false
	}
	e.receiveAll()
	if !p.check() {
		p.err = g.peerLeftError(like)
	}
	return true
}

// Park notes the goroutine that waits, unless there is a message.
func (p *probe) Park(g *wait.Parked) bool {
	e := p.g.e
	e.mu.Lock()
	defer e.unlock()
	if p.check() {
		return false
	}
	p.sleeper, p.polls = g, leftEvery-1
	e.probes = append(e.probes, p)
	return true
}

// Unpark ends what Park has begun.
func (p *probe) Unpark() {
	e := p.g.e
	e.mu.Lock()
	defer e.unlock()
	e.probes = slices.DeleteFunc(e.probes, func(x *probe) bool { return x == p })
}

// Idle looks now and then for sources that have left.
func (p *probe) Idle(slept time.Duration) {
	if p.g.e.isLongIdle(slept) {
		p.polls = leftEvery - 1
	}
}

// wakeProbes wakes the goroutines that probe for a message which has come, or all of them if q is nil, and those that wait for a meeting.
func (m *matcher) wakeProbes(q *queue, env envelope) {
	if q == nil {
		for _, x := range m.meetings {
			if x.sleeper != nil {
				x.sleeper.Wake()
			}
		}
	}
	for _, p := range m.probes {
		if q == nil || q == &p.g.q && p.env.Fits(env) {
			p.sleeper.Wake()
		}
	}
}

// newProbe checks the arguments of a probe. A probe of ProcNull is nil without an error.
func newProbe(c *Comm, op string, src, tag int, take bool) (*probe, error) {
	if err := checkRecv(c, op, src, tag); err != nil || src == ProcNull {
		return nil, handledOf(c, err)
	}
	c.g.e.job.Waiter.Beat()
	return &probe{c: c, g: c.g, op: op, env: envelope{Src: int32(src), Tag: int32(tag)}, take: take}, nil
}

// status returns the status of what a probe has found.
func (p *probe) status() (Status, error) {
	if p.err != nil {
		return emptyStatus, handled(p.g, p.g.reportDeath(p.err))
	}
	return statusOf(p.found, p.size, 1), nil
}

// await waits until the probe is over.
func (p *probe) await(ctx context.Context) error {
	if p.look() {
		return nil
	}
	err := p.g.e.job.Waiter.WaitPoll(p, ctx)
	switch {
	case errors.Is(err, wait.ErrClosed):
		return usage(p.op, ErrFinalized, finalizedMeanwhile)
	case err != nil:
		return fmt.Errorf("mpi.%s: waiting for a message: %w", p.op, err)
	}
	return nil
}

// Probe waits for a message that fits src and tag, and leaves it where it is. Count of the status is the message's bytes, as its
// elements are not known.
//
//   - Errors: *UsageError; the end of c's context; *RankError as Recv.
//   - Concurrent calls: allowed. Another goroutine may receive the message; Mprobe keeps it for this one.
//   - Source: MPI_Probe.
func (c *Comm) Probe(src, tag int) (Status, error) {
	p, err := newProbe(c, "Comm.Probe", src, tag, false)
	if err != nil || p == nil {
		return procNullStatus, err
	}
	if err := p.await(c.ctx); err != nil {
		return emptyStatus, err
	}
	return p.status()
}

// Iprobe makes progress and reports whether there is a message that fits src and tag.
//
//   - Errors: as Probe.
//   - Concurrent calls: allowed.
//   - Source: MPI_Iprobe.
func (c *Comm) Iprobe(src, tag int) (Status, bool, error) {
	p, err := newProbe(c, "Comm.Iprobe", src, tag, false)
	if err != nil || p == nil {
		return procNullStatus, err == nil, err
	}
	if !p.look() {
		return emptyStatus, false, nil
	}
	s, err := p.status()
	return s, err == nil, err
}

// Message is a message that Mprobe has taken. Only Mrecv and Imrecv receive it, once.
type Message struct {
	p    *probe
	used *atomic.Bool
}

// Mprobe waits for a message that fits src and tag, and takes it: no other receive gets it.
//
//   - Errors: as Probe.
//   - Concurrent calls: allowed.
//   - Source: MPI_Mprobe.
func (c *Comm) Mprobe(src, tag int) (Message, Status, error) {
	p, err := newProbe(c, "Comm.Mprobe", src, tag, true)
	if err != nil || p == nil {
		return Message{}, procNullStatus, err
	}
	if err := p.await(c.ctx); err != nil {
		return Message{}, emptyStatus, err
	}
	return p.message()
}

// Improbe makes progress, and takes a message that fits src and tag if there is one.
//
//   - Errors: as Probe.
//   - Concurrent calls: allowed.
//   - Source: MPI_Improbe.
func (c *Comm) Improbe(src, tag int) (Message, Status, bool, error) {
	p, err := newProbe(c, "Comm.Improbe", src, tag, true)
	if err != nil || p == nil {
		return Message{}, procNullStatus, err == nil, err
	}
	if !p.look() {
		return Message{}, emptyStatus, false, nil
	}
	m, s, err := p.message()
	return m, s, err == nil, err
}

// message returns the message that was taken.
func (p *probe) message() (Message, Status, error) {
	s, err := p.status()
	if err != nil {
		return Message{}, s, err
	}
	return Message{p, new(atomic.Bool)}, s, nil
}

// Imrecv begins to receive a message that Mprobe has taken. The zero Message, of ProcNull, is complete at once.
//
//   - Shape: as Recv.
//   - Errors: *UsageError for a message that was received before; others as Irecv, from Wait.
//   - Concurrent calls: allowed.
//   - Source: MPI_Imrecv.
func Imrecv[T any](m Message, buf []T) (Request, error) {
	const op = "Imrecv"
	if err := checkType[T](op); err != nil {
		return Request{}, err
	}
	if isIntercepted() && m.p != nil {
		return interceptStart(m.seen(op, spanOf(buf)), func() (Request, error) { return m.receive(op, spanOf(buf)) })
	}
	return m.receive(op, spanOf(buf))
}

// seen returns what an interceptor sees of the receive of a message that is not that of ProcNull.
func (m Message) seen(op string, s span) Call {
	return Call{op, m.p.c, int(m.p.found.Src), int(m.p.found.Tag), s.bytes}
}

// Mrecv receives a message that Mprobe has taken.
//
//   - Shape: as Recv.
//   - Errors: as Recv; *UsageError for a message that was received before.
//   - Concurrent calls: allowed.
//   - Source: MPI_Mrecv.
func Mrecv[T any](m Message, buf []T) (Status, error) {
	const op = "Mrecv"
	if err := checkType[T](op); err != nil {
		return emptyStatus, err
	}
	if isIntercepted() && m.p != nil {
		var status Status
		err := intercept(m.seen(op, spanOf(buf)), func() (err error) {
			status, err = m.receiveNow(op, spanOf(buf))
			return err
		})
		return status, err
	}
	return m.receiveNow(op, spanOf(buf))
}

// receiveNow is Mrecv without the type and the interceptor.
func (m Message) receiveNow(op string, s span) (Status, error) {
	r, err := m.receive(op, s)
	if err != nil {
		return emptyStatus, err
	}
	return r.Wait()
}

func (m Message) receive(op string, s span) (Request, error) {
	if m.p == nil {
		return procNullHandle, nil
	}
	if m.used.Swap(true) {
		return Request{}, usage(op, ErrArgument, "the message was received before, want one of Mprobe or Improbe that was not")
	}
	g := m.p.g
	e := g.e
	e.job.Waiter.Beat()
	e.mu.Lock()
	defer e.unlock()
	if g.ended.Load() {
		return failedRequest(g.endedError(op)), nil
	}
	delete(g.taken, m.p.m)
	r := g.newRequest(op, s)
	r.recv = true
	e.deliverRecord(r, m.p.m)
	return r.handle(nil), nil //nolint:staticcheck // no context
}

// Cancel cancels a receive that has met no message: Wait returns ErrRequestCanceled then. Of a request of Go, it ends the context of the function. Any other
// request goes on.
//
//   - Errors: *UsageError for a send, and while another goroutine waits for the request.
//   - Concurrent calls: allowed, on different requests.
//   - Source: MPI_Cancel.
func (q Request) Cancel() error {
	const op = "Cancel"
	over, _, err := q.claim(op)
	if over || err != nil {
		return err
	}
	defer q.unclaim()
	r := q.r
	if r.isDone() {
		return nil
	}
	if r.rare && r.stop != nil {
		r.stop(ErrRequestCanceled)
		return nil
	}
	if !r.recv {
		return usage(op, ErrArgument, "the request is not a receive, want one of Irecv or of Go")
	}
	e := r.g.e
	e.mu.Lock()
	defer e.unlock()
	if r.posted && !r.isDone() && e.cancel(r, ErrRequestCanceled) {
		e.complete(r, fmt.Errorf("mpi.%s: %w", r.op, ErrRequestCanceled))
	}
	return nil
}
