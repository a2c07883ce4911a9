package mpi

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/mpi/match"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// request is a send or a receive under way. The engine's lock guards it until it is done; then it
// belongs to its waiter.
type request struct {
	// The first line of the cache is all that a receive needs which finds its message.
	use       uint64 // generation, in multiples of useGen, and marks; it grows when the request is given back
	done      uint64 // 1: complete
	g         *group
	status    Status
	direct    bool // of directRequest: the fields that it does not set are zero
	recv      bool // a receive, otherwise a send
	posted    bool // a receive that waits for a message in the queue
	anySource bool // a receive from any source
	exclusive bool // of a receive: only this process may write to the buffer; of a send: its call may give it up
	rare      bool // some of the fields from schedule on are set
	general   bool // it is what a goroutine does. Then rare is set
	detached  bool // nobody waits for it: that of Bsend, or a message of an agreement. Then rare is set

	lock *wait.Lock     // the engine's; it never changes, and is nil for requests that are complete for good
	buf  unsafe.Pointer // start of the buffer, which it keeps alive
	size int            // bytes of the buffer, then of the message
	elem int            // bytes of an element
	op   string         // the public function: "Irecv"
	err  error          // once a message is met that is longer than the buffer, or the request is done

	ref       match.Ref[*request] // of a posted receive, in the queue of its communicator
	sleeper   *wait.Parked        // the goroutine that waits for it, if that sleeps. Guarded by the engine's lock
	pe        layout.PE           // PE of the peer; a receive from any source learns it from its message
	awaitedPE int32               // PE of the peer plus 1, which does not change; 0: any source
	polls     uint32              // polls in vain, which only the waiter counts
	number    uint64              // in the engine's requestTable; 0: none

	peerNumber uint64 // number of the peer's request, once it is known
	moved      int    // bytes sent or received so far, of a message that goes through the lane in parts
	share      *share // of a long message; nil: the request has never had one
	sleeping   int32  // its place in group.sleeping, while its waiter sleeps

	schedule  *schedule        // of a collective; nil: a message
	parent    *schedule        // of a message of a schedule
	step      int32            // of a message of a schedule: its step; of a request in a TryBlock: its index
	place     int32            // of a message of a schedule: its place in schedule.open
	after     func(r *request) // what its waiter does when it is complete; nil: nothing
	agreement *agreement       // of an agreement, or of a message for it; otherwise nil
	partition *partition       // of a round of partitioned messages; otherwise nil

	block   *block                  // of the end of a TryBlock; otherwise nil
	inBlock *block                  // the TryBlock that waits for it; nil: none
	raised  error                   // of RaiseError; otherwise nil
	stop    context.CancelCauseFunc // of Go: ends the context of its function
}

// Marks of request.use.
const (
	useWaited = 1 << iota // a goroutine is in Wait or Test
	useKept               // the request is complete, keeps its outcome, and is never used again
	useGen                // one generation
)

// procNullRequest is the request of each receive from ProcNull.
var procNullRequest = &request{use: useGen | useKept, done: 1, status: procNullStatus, rare: true} // rare: takeDone leaves it to Wait

// procNullHandle is the handle of each receive from ProcNull, which is complete at once: see Request.endedAtOnce. That of a short send is Request{gen: useKept}:
// a variable for it would be read from memory.
var procNullHandle = Request{r: procNullRequest, gen: useGen | useKept}

// failedRequest returns the request of a send that could not begin. Its Wait returns the error.
func failedRequest(err error) Request {
	return Request{r: &request{use: useGen | useKept, done: 1, status: emptyStatus, err: err}, gen: useGen}
}

// generation returns the generation of a request, which tells it from others that had its place.
func (r *request) generation() uint64 { return atomic.LoadUint64(&r.use) &^ (useGen - 1) }

// handle returns the caller's Request.
func (r *request) handle(ctx context.Context) Request {
	return Request{r: r, gen: r.generation(), ctx: ctx}
}

// recycle makes a request available for use again. It is done, or the engine does not know it.
func (r *request) recycle() {
	if r.rare {
		r.rare, r.schedule, r.parent, r.after, r.agreement, r.partition, r.general, r.detached = false, nil, nil, nil, nil, nil, false, false
		r.block, r.inBlock, r.raised, r.stop = nil, nil, nil, nil
	}
	if r.direct {
		r.g, r.direct, r.done = nil, false, 0
		rma.StoreRelease(&r.use, r.generation()+useGen)
		return
	}
	r.g, r.buf, r.err, r.ref = nil, nil, nil, match.Ref[*request]{} // a Ref keeps its queue alive
	r.done, r.pe, r.number, r.peerNumber, r.moved, r.polls, r.awaitedPE = 0, 0, 0, 0, 0, 0, 0
	r.recv, r.posted, r.anySource, r.exclusive, r.status = false, false, false, false, Status{}
	if r.share != nil && r.share.used {
		*r.share = share{}
	}
	rma.StoreRelease(&r.use, r.generation()+useGen) // from here on the pool may give it out
}

// acceptMessage makes a message of n bytes that of a receive. It returns how many bytes fit the buffer.
func (r *request) acceptMessage(env envelope, n int) int {
	r.posted = false
	if n > r.size {
		r.err = fmt.Errorf("mpi.%s: %w: %d bytes with tag %d from rank %d, want at most the buffer's %d", r.op, ErrTruncated, n, env.Tag, env.Src, r.size)
		n = r.size
	}
	r.size = n
	r.status = statusOf(env, n, r.elem)
	return n
}

// useShare returns the share of a request, for a message that is copied in parts.
func (r *request) useShare() *share {
	if r.share == nil {
		r.share = new(share)
	}
	r.share.used = true
	return r.share
}

// isLent reports whether the peer of a request may copy its message.
func (r *request) isLent() bool { return r.share != nil && r.share.words != nil }

func (r *request) isDone() bool { return atomic.LoadUint64(&r.done) != 0 }

// Poll makes progress. The wait is over when the request is done, or a death ends the wait.
func (r *request) Poll() wait.Look {
	if r.isDone() {
		return wait.Over
	}
	look := wait.Nothing
	if e := r.g.e; e.hasWork() {
		e.mu.Lock()
		if r.progress() {
			look = wait.Moved
		}
		e.unlock()
		if r.isDone() {
			return wait.Over
		}
	}
	if r.polls++; r.polls%leftEvery == 0 {
		r.g.e.lookAround(r)
	}
	if r.isDone() || r.stoppedByDeath() {
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
	received := e.cellsReceived
	did = e.progressFor(before)
	if after, _ := r.g.q.Waiting(); r.posted && e.cellsReceived != received && after == before {
		// No waiting receive has met what came. What is behind it in the lanes may be for this one.
		for _, l := range *e.active.Load() {
			e.receiveCells(l, cellsMost/2)
		}
	}
	return did
}

// Awaits returns the PE that the request waits for, plus 1: see wait.Waiter.Awaited.
func (r *request) Awaits() int { return int(r.awaitedPE) }

// Park notes the goroutine that waits for the request, unless the request is done. The next Poll looks whether the peer
// has left: from now on others look, and they look for changes.
func (r *request) Park(g *wait.Parked) bool {
	e := r.g.e
	e.mu.Lock()
	defer e.unlock()
	if r.isDone() {
		return false
	}
	r.polls = leftEvery - 1
	r.noteSleeper(g)
	return true
}

// noteSleeper notes the goroutine that waits for the request. The caller has the engine's lock.
func (r *request) noteSleeper(g *wait.Parked) {
	r.sleeper, r.sleeping = g, int32(len(r.g.sleeping))
	r.g.sleeping = append(r.g.sleeping, r)
}

// Unpark ends what Park has begun.
func (r *request) Unpark() {
	e := r.g.e
	e.mu.Lock()
	defer e.unlock()
	r.forgetSleeper()
}

// forgetSleeper ends what noteSleeper has begun. The caller has the engine's lock.
func (r *request) forgetSleeper() {
	r.sleeper = nil
	all := r.g.sleeping
	last := all[len(all)-1]
	all[r.sleeping], last.sleeping = last, r.sleeping
	all[len(all)-1], r.g.sleeping = nil, all[:len(all)-1]
}

// Idle looks now and then for peers that have left.
func (r *request) Idle(slept time.Duration) {
	if r.g.e.isLongIdle(slept) {
		r.polls = leftEvery - 1
	}
}

// await returns nil when the request is done. It returns an error if the wait ends before; then the request
// goes on.
func (r *request) await(ctx context.Context) error {
	for !r.isDone() {
		if err := r.g.e.job.Waiter.WaitPoll(r, ctx); err != nil {
			if errors.Is(err, wait.ErrClosed) {
				return usage(r.op, ErrFinalized, finalizedMeanwhile)
			}
			return fmt.Errorf("mpi.%s: waiting for %s: %w", r.op, r.describeAwaited(), err)
		}
		if err := r.deathError(); err != nil {
			return err
		}
	}
	return nil
}

// describeAwaited says in words what a request waits for.
func (r *request) describeAwaited() string {
	e := r.g.e
	e.mu.Lock()
	defer e.unlock()
	switch {
	case r.agreement != nil:
		return "the votes of the other ranks"
	case r.partition != nil:
		return r.partition.describeAwaited()
	case r.block != nil:
		return r.block.describeAwaited()
	case r.general:
		return "the goroutine of this call"
	case r.schedule != nil:
		return r.schedule.describeAwaited()
	}
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

// stoppedByDeath reports whether a death ends waits for this request: it is a receive from any source
// without a message, and a death is not acknowledged. The dead rank may be the one that would have sent.
func (r *request) stoppedByDeath() bool {
	if !r.anySource || !r.g.unackedDeath.Load() {
		return false
	}
	e := r.g.e
	e.mu.Lock()
	defer e.unlock()
	if r.posted && !r.isDone() {
		e.receiveAll() // a message that is there comes before a death
	}
	return r.posted && !r.isDone()
}

// deathError returns the error of stoppedByDeath. It returns nil if the request is done, has met a message,
// or another goroutine has acknowledged the death meanwhile.
func (r *request) deathError() error {
	if !r.stoppedByDeath() {
		return nil
	}
	dead := failedUnacked(r.g)
	if dead == nil {
		return nil
	}
	return r.g.reportDeath(r.g.deadError(r.op, dead...))
}

// finish waits for the request of a blocking call, and ends it with the call: by its outcome, or by the
// error of the wait. A death does not end a receive that has met a message meanwhile.
func (r *request) finish(ctx context.Context) (Status, error) {
	for {
		err := r.await(ctx)
		died := errors.Is(err, ErrDied)
		if err != nil && r.g.e.abandon(r, died, err) {
			r.recycle()
			return emptyStatus, err
		}
		if r.isDone() {
			return r.takeOutcome()
		}
		if !died { // abandon has found that the request ends by itself soon
			ctx = context.Background()
		}
	}
}

// takeOutcome returns the outcome of a request that is done, and recycles the request.
func (r *request) takeOutcome() (Status, error) {
	if r.rare && r.after != nil {
		r.after(r)
	}
	s, err := r.status, r.g.reportDeath(r.err)
	r.recycle()
	return s, err
}
