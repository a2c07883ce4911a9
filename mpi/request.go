package mpi

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/mpi/match"
	"github.com/goshmem/goshmem/rma"
)

// Status says what a receive has got: of a message that was truncated, what is in the
// buffer.
type Status struct {
	Source int // rank of the sender, or ProcNull
	Tag    int
	Count  int // elements of the receive's type, as far as they are whole
	Bytes  int
}

// Request is a send or a receive that is under way. It is a value, and the zero
// Request one that is complete, as is a Request that Wait or Test has said to be so.
type Request struct {
	r   *request
	gen uint64
	ctx context.Context //nolint:containedctx // With's purpose
}

// request is what a Request is about. Until it is done, the engine's lock guards
// it; then it is the waiter's.
type request struct {
	g    *group
	op   string
	gen  uint64         // grows when it is given back
	done uint64         // 1: complete
	buf  unsafe.Pointer // keeps it alive as well
	size int            // bytes of buf, then of the message
	elem int            // bytes of an element
	pe   int            // of the other side: from the start, but for a receive from any source

	number uint64 // in the engine's table; 0: not there
	theirs uint64 // the receive's number, when a send is cleared
	moved  int    // bytes that have gone or come so far
	share  share
	polls  uint32 // that were in vain; the waiter's

	ref    match.Ref // of a receive that is posted
	recv   bool
	posted bool
	wild   bool // from any source
	status Status
	short  error // the message was too long
	err    error
}

var requests = sync.Pool{New: func() any { return new(request) }}

// newRequest returns a request for the bytes of a buffer.
func (g *group) newRequest(op string, s span) *request {
	r := requests.Get().(*request) //nolint:errcheck,forcetypeassert // nothing else is in the pool
	r.g, r.op, r.buf, r.size, r.elem = g, op, s.at, s.bytes, s.elem
	return r
}

// recycle gives a request back that is done, or that the engine does not know.
func (r *request) recycle() {
	rma.StoreRelease(&r.gen, r.gen+1)
	r.g, r.buf, r.short, r.err = nil, nil, nil, nil
	r.done, r.pe, r.number, r.theirs, r.moved, r.polls = 0, 0, 0, 0, 0, 0
	r.recv, r.posted, r.wild, r.status = false, false, false, Status{}
	if r.share.index != 0 {
		r.share = share{}
	}
	requests.Put(r)
}

// took gives a receive its message: it returns how many bytes of n go to the buffer.
func (r *request) took(env match.Envelope, n int) int {
	r.posted = false
	if n > r.size {
		r.short = fmt.Errorf("mpi.%s: %w: %d bytes with tag %d from rank %d, want at most the buffer's %d", r.op, ErrTruncated, n, env.Tag, env.Src, r.size)
		n = r.size
	}
	r.size = n
	r.status = statusOf(env, n, r.elem)
	return n
}

// complete ends a request. The engine does not touch it any more.
func (e *engine) complete(r *request, err error) {
	if err == nil {
		err = r.short
	} else {
		r.status = Status{} // which took has set for what has not come
		if errors.Is(err, ErrCanceled) {
			err = fmt.Errorf("mpi.%s: %w", r.op, err)
		}
	}
	r.err = err
	e.finished++
	rma.StoreRelease(&r.done, 1)
}

func (r *request) isDone() bool { return atomic.LoadUint64(&r.done) != 0 }

// alarmed says whether a receive from any source may never end, for a death: it has not
// met a message.
func (r *request) alarmed() bool {
	if !r.wild || !r.g.alarm.Load() {
		return false
	}
	e := r.g.e
	e.mu.Lock()
	defer e.unlock()
	return r.posted && !r.isDone()
}

// Poll makes progress. The wait is over when the request is done, or alarmed.
func (r *request) Poll() rma.Look {
	if r.isDone() {
		return rma.Over
	}
	look := rma.Nothing
	if e := r.g.e; e.stirring() {
		e.mu.Lock()
		if e.progress() {
			look = rma.Moved
		}
		e.unlock()
		if r.isDone() {
			return rma.Over
		}
	}
	if r.polls++; r.polls%patience == 0 {
		r.g.e.deserted(r)
	}
	if r.isDone() || r.alarmed() {
		return rma.Over
	}
	return look
}

// await returns when the request is done, or why it is not: then it goes on.
func (r *request) await(ctx context.Context) error {
	for !r.isDone() {
		if err := r.g.e.job.Waiter.WaitPoll(r, ctx); err != nil {
			if errors.Is(err, rma.ErrClosed) {
				return usage(r.op, ErrFinalized, "Finalize was called meanwhile")
			}
			return fmt.Errorf("mpi.%s: waiting for %s: %w", r.op, r.awaited(), err)
		}
		if err := r.alarm(); err != nil {
			return err
		}
	}
	return nil
}

// awaited says what a request waits for.
func (r *request) awaited() string {
	e := r.g.e
	e.mu.Lock()
	defer e.unlock()
	if !r.recv {
		return fmt.Sprintf("rank %d to receive a message of %d bytes", r.g.rank(r.pe), r.size)
	}
	env, posted := r.g.q.Posted(r.ref)
	if !r.posted || !posted {
		return fmt.Sprintf("the end of a message from rank %d with tag %d", r.status.Source, r.status.Tag)
	}
	src, tag := fmt.Sprintf("rank %d", env.Src), fmt.Sprintf("tag %d", env.Tag)
	if env.Src == AnySource {
		src = "any rank"
	}
	if env.Tag == AnyTag {
		tag = "any tag"
	}
	return fmt.Sprintf("a message from %s with %s", src, tag)
}

// alarm returns the error of a receive from any source that a death ends. Nil: it is
// done, or has met a message, or somebody has acknowledged the death meanwhile.
func (r *request) alarm() error {
	if !r.alarmed() {
		return nil
	}
	dead := r.g.unacknowledged()
	if dead == nil {
		return nil
	}
	return r.g.noticed(r.g.died(r.op, dead...))
}

// finish awaits a request of a call that waits, which ends with it: not for a death,
// where it has met a message meanwhile.
func (r *request) finish(ctx context.Context) (Status, error) {
	for {
		err := r.await(ctx)
		if err != nil && r.g.e.abandon(r, errors.Is(err, ErrDied), err) {
			r.recycle()
			return Status{}, err
		}
		if r.isDone() {
			return r.end()
		}
	}
}

// end returns the outcome of a request that is done and gives it back.
func (r *request) end() (Status, error) {
	s, err := r.status, r.g.noticed(r.err)
	r.recycle()
	return s, err
}

// abandon makes the engine forget a request, unless it is done, or is only to go if it
// has met nothing and has, or is one that ends by itself soon, for the cause. What the other side
// has been told of it is good for nothing any more; it finds out.
func (e *engine) abandon(r *request, lone bool, cause error) bool {
	e.mu.Lock()
	defer e.unlock()
	if r.isDone() || lone && !r.posted {
		return false
	}
	return e.quit(r, cause)
}

// quit is forget for a request that may be about to end by itself: then it says no.
func (e *engine) quit(r *request, cause error) bool {
	switch {
	case e.unshare(r, cause):
		e.forget(r)
		return true
	case !r.recv:
		e.forget(r)
		e.complete(r, nil) // the receiver has it
	}
	return false
}

// forget takes a send out of what waits for room. A receiver that waits for parts of
// it is told.
func (l *outLane) forget(e *engine, r *request) {
	for i := l.head; i < len(l.queue); i++ {
		if l.queue[i].r == r {
			l.regain(r.share.index, r.number)
			l.queue = append(l.queue[:i], l.queue[i+1:]...)
			return
		}
	}
	for i, s := range l.streams {
		if s == r {
			l.streams = append(l.streams[:i], l.streams[i+1:]...)
			e.send(l, &packet{kind: kindRefuse, body: parcel{to: r.theirs}})
			return
		}
	}
}

// active says whether the handle is of a request that has not ended.
func (q Request) active() bool { return q.r != nil && atomic.LoadUint64(&q.r.gen) == q.gen }

// With returns a handle of the same request, whose Wait ends with an error when ctx
// ends; the request goes on.
func (q Request) With(ctx context.Context) Request {
	q.ctx = ctx
	return q
}

// Wait returns when the request is complete: the buffer of a send may be used
// again, that of a receive has the message.
//
// Errors: those of the operation. The end of the context (With, or that of the
// communicator) and, of a receive from AnySource, the death of a rank that is not
// acknowledged, leave the request as it is: Wait may be called again.
// Concurrent calls: allowed, on different requests.
// Source: MPI_Wait.
func (q Request) Wait() (Status, error) {
	if !q.active() {
		return Status{}, nil
	}
	if err := q.r.await(q.ctx); err != nil {
		return Status{}, err
	}
	return q.r.end()
}

// Test makes progress and says whether the request is complete. If so, it returns
// what Wait would.
//
// Errors: as Wait.
// Source: MPI_Test.
func (q Request) Test() (s Status, done bool, err error) {
	if !q.active() {
		return Status{}, true, nil
	}
	q.r.g.e.job.Waiter.Beat()
	if q.r.Poll() != rma.Over {
		return Status{}, false, nil
	}
	if err := q.r.alarm(); err != nil || !q.r.isDone() {
		return Status{}, false, err
	}
	s, err = q.r.end()
	return s, true, err
}

// WaitAll waits for all requests and returns the errors of all joined. A status is
// written to the element of statuses with the same index, if there is one.
//
// Errors: as Wait.
// Source: MPI_Waitall.
func WaitAll(all []Request, statuses []Status) error {
	var failed []error
	for i, q := range all {
		s, err := q.Wait()
		if i < len(statuses) {
			statuses[i] = s
		}
		if err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}
