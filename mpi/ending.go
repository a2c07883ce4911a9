package mpi

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Ends of requests that do not come from their operations: the communicator or the World ends, the
// caller gives the request up, or the peer has left.

const finalizedMeanwhile = "Finalize was called meanwhile"

// closeGroup makes all calls on a communicator fail, and ends its requests with cause.
func (e *engine) closeGroup(g *group, cause error, why string) {
	g.ended.Store(true)
	end := func(r *request) { e.complete(r, usage(r.op, cause, "%s", why)) }
	g.q.Sweep(func(_ envelope, r *request) bool {
		end(r)
		return true
	})
	for i := range e.table.entries {
		if r := e.table.entries[i].r; r != nil && r.g == g {
			if r.share.words != nil {
				e.removeFrom(&e.pushes, r)
				r.share.closeAs(layout.ShareEnded)
			}
			e.detach(r)
			end(r)
		}
	}
	for _, r := range slices.Clone(e.pulls) {
		if r.g == g {
			e.stopCopying(r, usage(r.op, cause, "%s", why))
		}
	}
	for _, r := range e.selfCopies {
		if r.g == g {
			e.stopCopying(r, usage(r.op, cause, "%s", why))
		}
	}
	for _, l := range e.blocked {
		l.streams = slices.DeleteFunc(l.streams, func(r *request) bool {
			if r.g != g {
				return false
			}
			end(r) // its receive ends when the receiver frees the communicator
			return true
		})
	}
	e.removeGroup(g)
}

// shutDown makes all calls on all communicators fail, ends their requests, and stops writing into lanes.
func (e *engine) shutDown() {
	e.mu.Lock()
	defer e.unlock()
	e.receiveAll()
	e.closed.Store(true)
	for _, g := range e.groups {
		if g.t.ID() != coll.MPIWorld { // a communicator that was not freed
			g.t.Leave()
			g.t.Release()
		}
		e.closeGroup(g, ErrFinalized, finalizedMeanwhile)
	}
	for _, l := range slices.Clone(e.blocked) {
		e.discardQueued(l, func(r *request) { e.complete(r, usage(r.op, ErrFinalized, finalizedMeanwhile)) })
	}
}

// abandon cancels a request for cause, unless it is done. If unmetOnly is set, it leaves a receive alone
// that has met a message. It returns false if the request is done, goes on, or ends by itself soon. After
// true, the caller may give the request back: an answer of the peer finds no request.
func (e *engine) abandon(r *request, unmetOnly bool, cause error) bool {
	e.mu.Lock()
	defer e.unlock()
	if r.isDone() || unmetOnly && !r.posted {
		return false
	}
	return e.cancel(r, cause)
}

// leftEvery is after how many polls in vain a wait checks whether the peer has left. The check takes the lock.
const leftEvery = 32

// endIfPeerLeft ends a request whose peer has left the communicator, as ranks do after a death: then
// Finalize and Free wait for nobody. All that the peer had sent is received first; it was in the lane
// before the peer left.
func (e *engine) endIfPeerLeft(r *request) {
	e.mu.Lock()
	defer e.unlock()
	if r.isDone() || r.g.peerLeftError(r) == nil {
		return
	}
	if e.receiveAll(); r.isDone() {
		return
	}
	// The second look is for a receive from any source that has met a message of another rank.
	if err := r.g.peerLeftError(r); err != nil && e.cancel(r, err) {
		e.complete(r, err)
	}
}

// peerLeftError returns the error of a request that no rank will meet: the peer has left, or, for a receive
// from any source, all other ranks have left or are dead. It returns nil in a communicator of one rank,
// in which another goroutine may send.
func (g *group) peerLeftError(r *request) error {
	if !r.anySource || !r.posted {
		if rank := g.rank(r.pe); rank != g.me && g.hasLeft(rank) {
			return g.leftError(r.op, rank)
		}
		return nil
	}
	var left, dead []int
	for rank, pe := range g.pes {
		switch {
		case rank == g.me:
		case g.e.isDead(pe):
			dead = append(dead, rank)
		case g.hasLeft(rank):
			left = append(left, rank)
		default:
			return nil
		}
	}
	switch {
	case left != nil:
		return g.leftError(r.op, left...)
	case dead != nil:
		return g.deadError(r.op, dead...)
	}
	return nil
}

// flushTimeout is how long Finalize waits for full lanes where it waits for nothing else.
const flushTimeout = time.Second

// flush waits until everything that waits for room in lanes is written, except in lanes to ranks that
// have left. If the ranks cannot meet any more, none of them has to read its lanes, and flush waits
// flushTimeout at most.
func (w *World) flush(ctx context.Context) error {
	f := flusher{World: w}
	if err := w.e.job.Waiter.WaitPoll(&f, ctx); err != nil || w.e.blockedCount.Load() == 0 {
		return err
	}
	f.apart = true
	bounded, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	err := w.e.job.Waiter.WaitPoll(&f, bounded)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil
	}
	return err
}

// flusher is the wait of flush.
type flusher struct {
	*World
	apart bool // the ranks are known not to meet any more
}

// Poll makes progress. The wait is over when nothing waits for room, or when it turns out that the ranks
// cannot meet any more.
func (f *flusher) Poll() wait.Look {
	e, g := f.e, f.comm.g
	moved := e.serve()
	if e.blockedCount.Load() == 0 || !f.apart && g.isDeserted() {
		return wait.Over
	}
	e.mu.Lock()
	defer e.unlock()
	for _, l := range slices.Clone(e.blocked) {
		if rank := g.rank(l.pe); g.hasLeft(rank) {
			e.discardQueued(l, func(r *request) {
				e.complete(r, r.g.leftError(r.op, r.g.rank(l.pe)))
			})
		}
	}
	switch {
	case len(e.blocked) == 0:
		return wait.Over
	case moved:
		return wait.Moved
	default:
		return wait.Nothing
	}
}

// copyWait is a wait until no process writes to a buffer of this process any more. A sender may be in the
// middle of a part for a receive that Finalize has ended. It must end before Finalize does: afterwards,
// this process makes no progress for it, and what is in the lanes belongs to the next World.
type copyWait World

// Poll makes progress. The wait is over when no message is being copied.
func (w *copyWait) Poll() wait.Look {
	moved := w.e.serve()
	switch {
	case w.e.copying.Load() == 0:
		return wait.Over
	case moved:
		return wait.Moved
	default:
		return wait.Nothing
	}
}
