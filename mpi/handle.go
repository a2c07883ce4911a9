package mpi

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/mpi/match"
	"github.com/goshmem/goshmem/rma"
)

// Status says what a receive has received. Of a truncated message it counts what is in the buffer.
type Status struct {
	Source int // rank of the sender, or ProcNull
	Tag    int
	Count  int // whole elements of the receive's type
	Bytes  int
}

// emptyStatus is the status of what has received nothing: a send, a request that has ended before, the
// zero Request. It names no rank.
var emptyStatus = Status{Source: AnySource, Tag: AnyTag}

// procNullStatus is the status of a receive from ProcNull.
var procNullStatus = Status{Source: ProcNull, Tag: AnyTag}

// Request is a send or a receive that is under way. It is a value; copies are handles of one
// operation. The zero Request is complete. A Request that Wait or Test has reported as complete stays so:
// all later calls return the same error, or nil.
//
// A short send is complete when Isend returns, and so is what goes to ProcNull or comes from it. WaitAny and the like return such a request
// once, too: they note it in the slice that they are given.
type Request struct { //nolint:recvcheck // RaiseError alone changes the handle
	r   *request
	gen uint64          // the generation of r; useKept as well for a request that was complete at once, and that WaitAny or the like has not returned
	ctx context.Context //nolint:containedctx // With's purpose
}

// claim begins a call on the request. Until unclaim or conclude, no other goroutine can claim it; claim
// returns an error then. If the request has ended before, over is true, s and err are its outcome,
// and nothing is claimed.
//
// The mark of a claim is set under the engine's lock. So WaitAll can claim many requests by one locked instruction.
func (q Request) claim(op string) (over bool, s Status, err error) {
	if q.r == nil {
		return true, emptyStatus, nil
	}
	if atomic.LoadUint64(&q.r.use) == q.gen|useKept { // for good; it may have no lock
		return true, q.r.status, q.r.err
	}
	q.r.lock.Lock()
	use := atomic.LoadUint64(&q.r.use)
	if use == q.gen {
		rma.StoreRelease(&q.r.use, use|useWaited)
	}
	q.r.lock.Unlock()
	switch use {
	case q.gen:
		return false, emptyStatus, nil
	case q.gen | useKept:
		return true, q.r.status, q.r.err
	case q.gen | useWaited:
		return false, emptyStatus, usage(op, ErrArgument, "another goroutine waits for a copy of this request, want one goroutine at a time")
	default:
		return true, emptyStatus, nil
	}
}

// endedAtOnce reports whether the request was complete when it began, and WaitAny or the like has not returned this handle.
func (q Request) endedAtOnce() bool { return q.gen&useKept != 0 }

// unclaim ends a call on a request that goes on.
func (q Request) unclaim() { rma.StoreRelease(&q.r.use, q.gen) }

// conclude ends the call that finds the request done, and returns its outcome. A request with an error
// keeps it for all later calls.
func (q Request) conclude() (Status, error) { return q.concludeBy(handled) }

// concludeBy is conclude that gives an error to handle, and returns what that returns.
func (q Request) concludeBy(handle func(g *group, err error) error) (Status, error) {
	r := q.r
	r.takeRaised()
	if isDebug && !r.recv {
		if err := checkBuffer(r); err != nil && r.err == nil {
			r.err = err
		}
	}
	if r.err == nil {
		return r.takeOutcome()
	}
	if r.after != nil {
		r.after(r)
		r.after = nil
	}
	s, err := r.status, handle(r.g, r.g.reportDeath(r.err))
	r.err, r.buf, r.ref = err, nil, match.Ref[*request]{}
	rma.StoreRelease(&r.use, q.gen|useKept)
	return s, err
}

// active reports whether neither Wait nor Test has found the request complete.
func (q Request) active() bool {
	if q.r == nil || q.endedAtOnce() {
		return false
	}
	use := atomic.LoadUint64(&q.r.use)
	return use == q.gen || use == q.gen|useWaited
}

// With returns a handle of the same request whose Wait ends with an error when ctx ends. The request
// goes on then.
func (q Request) With(ctx context.Context) Request {
	q.ctx = ctx
	return q
}

// Wait returns when the request is complete: the buffer of a send may be used again, the buffer of a
// receive has the message.
//
//   - Completion: a further Wait returns at once: the same error, or nil and the status of no message
//     (Source is AnySource).
//   - Errors: those of the operation; *UsageError while another goroutine waits for a copy of the
//     request. Two errors leave the request under way, so that Wait may be called again. One is the end of
//     the context (of With, or of the communicator). The other is a *RankError with ErrPending: a death that
//     is not acknowledged, for a receive from AnySource.
//   - Concurrent calls: allowed, on different requests.
//   - Source: MPI_Wait.
func (q Request) Wait() (Status, error) {
	if over, s, err := q.claim("Wait"); over || err != nil {
		return s, err
	}
	if err := q.r.await(q.ctx); err != nil {
		g := q.r.g
		q.unclaim()
		return emptyStatus, handled(g, markPending(err))
	}
	return q.conclude()
}

// Status makes progress and reports whether the request is complete, as Test, but leaves it as it is: a later Wait or Test returns the same status, and does
// what it does at the end of the request: it fills the buffer of IrecvLayout, for example, and calls the handler of errors.
//
//   - Errors: as Test.
//   - Concurrent calls: allowed, on different requests.
//   - Source: MPI_Request_get_status.
func (q Request) Status() (s Status, done bool, err error) {
	if over, s, err := q.claim("Status"); over || err != nil {
		return s, over, err
	}
	defer q.unclaim()
	r := q.r
	r.g.e.job.Waiter.Beat()
	if r.Poll() != wait.Over {
		return emptyStatus, false, nil
	}
	if err := r.deathError(); err != nil || !r.isDone() {
		return emptyStatus, false, markPending(err)
	}
	r.takeRaised()
	return r.status, true, r.g.reportDeath(r.err)
}

// Test makes progress and reports whether the request is complete. If it is, Test returns what Wait
// would.
//
//   - Errors: as Wait.
//   - Concurrent calls: allowed, on different requests.
//   - Source: MPI_Test.
func (q Request) Test() (s Status, done bool, err error) {
	if over, s, err := q.claim("Test"); over || err != nil {
		return s, over, err
	}
	q.r.g.e.job.Waiter.Beat()
	if q.r.Poll() != wait.Over {
		q.unclaim()
		return emptyStatus, false, nil
	}
	if err := q.r.deathError(); err != nil || !q.r.isDone() {
		g := q.r.g
		q.unclaim()
		return emptyStatus, false, handled(g, markPending(err))
	}
	s, err = q.conclude()
	return s, true, err
}

// WaitAll waits for all requests, one after the other. The status of request i is written to
// statuses[i], if statuses has that element.
//
//   - Errors: as Wait, those of all requests joined.
//   - Source: MPI_Waitall.
func WaitAll(all []Request, statuses []Status) error {
	var failed []error
	for i := 0; i < len(all); i++ {
		if i += takeDone(all[i:], statuses[min(i, len(statuses)):]); i == len(all) {
			break
		}
		s, err := all[i].Wait()
		all[i].gen &^= useKept
		if i < len(statuses) {
			statuses[i] = s
		}
		if err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// takeMost is how many requests takeDone takes while it has the lock. Other goroutines wait for it.
const takeMost = 64

// takeDone ends requests from the first one on that are complete without an error, writes their statuses,
// and returns their number. It leaves all other cases to Wait. The lock is taken once for all, so a request
// costs no locked instruction of its own.
func takeDone(all []Request, statuses []Status) (n int) {
	var lock *wait.Lock
	for n < min(len(all), takeMost) {
		q, s := all[n], emptyStatus
		if r := q.r; r != nil {
			if lock == nil && r.lock != nil {
				lock = r.lock
				lock.Lock()
			}
			if isDebug && !r.recv || r.rare || r.lock != lock || atomic.LoadUint64(&r.use) != q.gen || !r.isDone() || r.err != nil {
				break
			}
			s = r.status
			r.recycle()
		} else if q.endedAtOnce() {
			all[n].gen = 0
		}
		if n < len(statuses) {
			statuses[n] = s
		}
		n++
	}
	if lock != nil {
		lock.Unlock()
	}
	return n
}
