package mpi

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/internal/wait"
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

// empty is the status of what has received nothing: of a send, of a request that has ended
// before, and of the zero Request. It names no rank.
var empty = Status{Source: AnySource, Tag: AnyTag}

// Request is a send or a receive that is under way. It is a value; the zero Request is
// complete. A Request that Wait or Test has said to be complete stays so: if it had failed,
// all later calls return the same error.
type Request struct {
	r   *request
	gen uint64
	ctx context.Context //nolint:containedctx // With's purpose
}

// What request.use says beside the generation, which is counted in multiples of useGen.
const (
	useWaited = 1 << iota // some goroutine is in Wait or Test
	useKept               // it is complete, its outcome stays, and it is never used again
	useGen
)

// request is what a Request is about. Until it is done, the engine's lock guards
// it; then it is the waiter's.
type request struct {
	g    *group
	op   string
	use  uint64         // its generation, which grows when it is given back, and marks
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
	from   int32  // the other side's PE plus 1, from the start; 0: any

	ref    match.Ref[*request] // of a receive that is posted
	recv   bool
	posted bool
	wild   bool // from any source
	own    bool // nobody but this process writes to its buffer
	status Status
	short  error // the message was too long
	err    error
}

// issued are the requests that were given out, the oldest first. One that has ended shows that by
// its generation, without a word to the engine, and is given out again. Guarded by the engine's lock.
type issued struct {
	ring []issue // a power of two of them
	next uint    // the oldest one, which comes next
}

// issue is a request as it was given out.
type issue struct {
	r   *request
	gen uint64
}

const (
	issuedLeast = 16
	issuedMost  = 4096 // requests under way that are remembered
	issuedLooks = 4    // at requests that may have ended, before a new one is made
)

// get returns a request.
func (f *issued) get() *request {
	for range min(issuedLooks, len(f.ring)) {
		i := &f.ring[f.next&uint(len(f.ring)-1)]
		f.next++
		if i.r == nil {
			i.r = new(request)
			return i.r
		}
		switch use := atomic.LoadUint64(&i.r.use); {
		case use&useKept != 0:
			i.r, i.gen = new(request), 0
			return i.r
		case use&^(useGen-1) != i.gen:
			i.gen = use
			return i.r
		}
	}
	if len(f.ring) == issuedMost {
		return new(request)
	}
	at := len(f.ring)
	f.ring = append(f.ring, make([]issue, max(issuedLeast, at))...)
	f.next = uint(at + 1)
	f.ring[at].r = new(request)
	return f.ring[at].r
}

// newRequest returns a request for the bytes of a buffer. The caller has the engine's lock.
func (g *group) newRequest(op string, s span) *request {
	r := g.e.issued.get()
	r.g, r.op, r.buf, r.size, r.elem, r.status = g, op, s.at, s.bytes, s.elem, empty
	return r
}

// generation returns what of r.use tells this request from others that had its place.
func (r *request) generation() uint64 { return atomic.LoadUint64(&r.use) &^ (useGen - 1) }

// handle returns the caller's Request.
func (r *request) handle(ctx context.Context) Request {
	return Request{r: r, gen: r.generation(), ctx: ctx}
}

// nobodys is the request of a receive from ProcNull.
var nobodys = &request{use: useGen | useKept, done: 1, status: nowhere}

// recycle gives a request back that is done, or that the engine does not know.
func (r *request) recycle() {
	r.g, r.buf, r.short, r.err, r.ref = nil, nil, nil, nil, match.Ref[*request]{} // which keeps a queue alive
	r.done, r.pe, r.number, r.theirs, r.moved, r.polls, r.from = 0, 0, 0, 0, 0, 0, 0
	r.recv, r.posted, r.wild, r.own, r.status = false, false, false, false, Status{}
	if r.share.used {
		r.share = share{}
	}
	rma.StoreRelease(&r.use, r.generation()+useGen) // from here on it may be another's
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
		r.status = empty // took has set it for what has not come
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
	if r.posted && !r.isDone() {
		e.takeAll() // a message that is there comes before a death
	}
	return r.posted && !r.isDone()
}

// Poll makes progress. The wait is over when the request is done, or alarmed.
func (r *request) Poll() wait.Look {
	if r.isDone() {
		return wait.Over
	}
	look := wait.Nothing
	if e := r.g.e; e.stirring() {
		e.mu.Lock()
		if r.progress() {
			look = wait.Moved
		}
		e.unlock()
		if r.isDone() {
			return wait.Over
		}
	}
	if r.polls++; r.polls%patience == 0 {
		r.g.e.deserted(r)
	}
	if r.isDone() || r.alarmed() {
		return wait.Over
	}
	return look
}

// progress is the engine's progress for a wait on this request. The caller has the lock.
func (r *request) progress() (did bool) {
	e := r.g.e
	if !r.recv {
		return e.progress()
	}
	before, _ := r.g.q.Waiting()
	taken := e.taken
	did = e.progressFor(before)
	if after, _ := r.g.q.Waiting(); r.posted && e.taken != taken && after == before {
		for _, l := range *e.active.Load() { // what came was for no receive that waits: what is behind it may be
			e.empty(l, cellsMost/2)
		}
	}
	return did
}

// Awaits says whom the request waits for: see wait.Waiter.Awaited.
func (r *request) Awaits() int { return int(r.from) }

// await returns when the request is done, or why it is not: then it goes on.
func (r *request) await(ctx context.Context) error {
	for !r.isDone() {
		if err := r.g.e.job.Waiter.WaitPoll(r, ctx); err != nil {
			if errors.Is(err, wait.ErrClosed) {
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
		died := errors.Is(err, ErrDied)
		if err != nil && r.g.e.abandon(r, died, err) {
			r.recycle()
			return empty, err
		}
		if r.isDone() {
			return r.end()
		}
		if !died { // it is about to end
			ctx = context.Background()
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
	for i := l.sent; i < len(l.queue); i++ {
		if l.queue[i].r == r {
			e.regain(r.number)
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

// claim begins a call on the request: nobody else may wait for it until the caller gives it
// back or concludes it. It fails if another goroutine is in such a call. A request that has
// ended before is over, and not claimed: s and err are its outcome.
func (q Request) claim(op string) (over bool, s Status, err error) {
	if q.r == nil {
		return true, empty, nil
	}
	for {
		switch use := atomic.LoadUint64(&q.r.use); use {
		case q.gen:
			if atomic.CompareAndSwapUint64(&q.r.use, use, use|useWaited) {
				return false, empty, nil
			}
		case q.gen | useKept:
			return true, q.r.status, q.r.err
		case q.gen | useWaited:
			return false, empty, usage(op, ErrArgument, "another goroutine waits for a copy of this request, want one at a time")
		default:
			return true, empty, nil
		}
	}
}

// giveBack ends a call on a request that goes on.
func (q Request) giveBack() { rma.StoreRelease(&q.r.use, q.gen) }

// conclude ends the last call on a request, which is done. An error stays: all later calls
// return it.
func (q Request) conclude() (Status, error) {
	r := q.r
	if r.err == nil {
		return r.end()
	}
	s, err := r.status, r.g.noticed(r.err)
	r.buf, r.ref = nil, match.Ref[*request]{}
	rma.StoreRelease(&r.use, q.gen|useKept)
	return s, err
}

// With returns a handle of the same request, whose Wait ends with an error when ctx
// ends; the request goes on.
func (q Request) With(ctx context.Context) Request {
	q.ctx = ctx
	return q
}

// Wait returns when the request is complete: the buffer of a send may be used
// again, that of a receive has the message. A further Wait returns at once: the same error if
// the request has failed, otherwise nil and a status of no message from no rank (Source is
// AnySource).
//
//   - Errors: those of the operation. Two errors leave the request as it is, so that Wait may be
//     called again: the end of the context (With, or that of the communicator), and *RankError
//     with ErrPending, of a receive from AnySource, for the death of a rank that is not
//     acknowledged. *UsageError where another goroutine waits for a copy of the request.
//   - Concurrent calls: allowed, on different requests.
//   - Source: MPI_Wait.
func (q Request) Wait() (Status, error) {
	if over, s, err := q.claim("Wait"); over || err != nil {
		return s, err
	}
	if err := q.r.await(q.ctx); err != nil {
		q.giveBack()
		return empty, pending(err)
	}
	return q.conclude()
}

// Test makes progress and says whether the request is complete. If so, it returns
// what Wait would.
//
//   - Errors: as Wait.
//   - Source: MPI_Test.
func (q Request) Test() (s Status, done bool, err error) {
	if over, s, err := q.claim("Test"); over || err != nil {
		return s, over, err
	}
	q.r.g.e.job.Waiter.Beat()
	if q.r.Poll() != wait.Over {
		q.giveBack()
		return empty, false, nil
	}
	if err := q.r.alarm(); err != nil || !q.r.isDone() {
		q.giveBack()
		return empty, false, pending(err)
	}
	s, err = q.conclude()
	return s, true, err
}

// WaitAll waits for all requests and returns the errors of all joined. A status is
// written to the element of statuses with the same index, if there is one.
//
//   - Errors: as Wait.
//   - Source: MPI_Waitall.
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
