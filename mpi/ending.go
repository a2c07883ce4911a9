package mpi

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/symheap/layout"
)

// How requests end that their operations do not: with the communicator, with the World,
// or because the other side has left.

// dissolve makes all calls on a communicator fail and ends its requests, as nobody will
// meet them any more.
func (e *engine) dissolve(g *group, cause error, why string) {
	g.ended.Store(true)
	end := func(r *request) { e.complete(r, usage(r.op, cause, "%s", why)) }
	g.q.Sweep(func(_ envelope, r *request) bool {
		end(r)
		return true
	})
	for i := range e.table {
		if r := e.table[i].r; r != nil && r.g == g {
			if r.share.words != nil {
				e.noCopy(&e.helps, r)
				r.share.close(layout.ShareEnded)
			}
			e.forget(r)
			end(r)
		}
	}
	for _, r := range slices.Clone(e.pulls) {
		if r.g == g {
			e.unshare(r, usage(r.op, cause, "%s", why))
		}
	}
	for _, r := range e.carried {
		if r.g == g {
			e.unshare(r, usage(r.op, cause, "%s", why))
		}
	}
	for _, l := range e.stuck {
		l.streams = slices.DeleteFunc(l.streams, func(r *request) bool {
			if r.g != g {
				return false
			}
			end(r) // and so does its receive, as the receiver frees the communicator
			return true
		})
	}
	for m := range g.q.Messages {
		if m.sharable() { // else its sender would have one less for good
			e.release(m)
		}
	}
	g.q = queue{}
	delete(e.groups, g.number)
	if e.latest == g {
		e.latest = nil
	}
}

// end makes all calls on communicators fail, ends their requests, and writes nothing
// any more.
func (e *engine) end() {
	e.mu.Lock()
	defer e.unlock()
	e.takeAll()
	e.closed.Store(true)
	for _, g := range e.groups {
		if g.t.ID() != coll.MPIWorld { // that was not freed
			g.t.Leave()
			g.t.Release()
		}
		e.dissolve(g, ErrFinalized, "Finalize was called meanwhile")
	}
	for _, l := range slices.Clone(e.stuck) {
		e.clear(l, func(r *request) { e.complete(r, usage(r.op, ErrFinalized, "Finalize was called meanwhile")) })
	}
}

// clear drops what waits for room in a lane, and ends its requests.
func (e *engine) clear(l *outLane, end func(r *request)) {
	for i := l.sent; i < len(l.queue); i++ {
		if p := &l.queue[i]; p.kind == kindEager && p.r != nil {
			end(p.r)
		}
	}
	for _, r := range l.streams {
		end(r)
	}
	l.queue, l.sent, l.streams = nil, 0, nil
	if !l.stuck {
		return
	}
	l.stuck = false
	atomic.StoreUint32(&l.head.Want, 0)
	e.stuck = slices.DeleteFunc(e.stuck, func(x *outLane) bool { return x == l })
	e.waiting.Store(int32(len(e.stuck)))
}

// forget takes a request out of all that others, or lanes, know of.
func (e *engine) forget(r *request) {
	if r.posted {
		r.g.q.Withdraw(r.ref)
	}
	if !r.recv {
		e.lane(r.pe).forget(e, r)
	}
	if r.number != 0 {
		e.strike(r.number)
	}
}

// patience is how many polls go by between looks at whether the other side has left,
// which takes the lock.
const patience = 32

// deserted ends a request whose other side has left the communicator, as it may when a
// rank has died: then Finalize and Free wait for nobody. All that it had sent is
// received first, which was in its lane before it left.
func (e *engine) deserted(r *request) {
	e.mu.Lock()
	defer e.unlock()
	if r.isDone() || r.g.hopeless(r) == nil {
		return
	}
	if e.takeAll(); r.isDone() {
		return
	}
	if err := r.g.hopeless(r); err != nil && e.quit(r, err) { // still, as it may have met a message of another rank
		e.complete(r, err)
	}
}

// hopeless returns the error of a request that will never be met: the other side has
// left, or, where that may be any, all others have left or are dead. In a communicator of
// one, another goroutine may send.
func (g *group) hopeless(r *request) error {
	if !r.wild || !r.posted {
		if rank := g.rank(r.pe); rank != g.me && g.t.HasLeft(rank) {
			return g.departed(r.op, rank)
		}
		return nil
	}
	var left, dead []int
	for rank, pe := range g.pes {
		switch {
		case rank == g.me:
		case g.e.dead != nil && g.e.dead[pe]:
			dead = append(dead, rank)
		case g.t.HasLeft(rank):
			left = append(left, rank)
		default:
			return nil
		}
	}
	switch {
	case left != nil:
		return g.departed(r.op, left...)
	case dead != nil:
		return g.died(r.op, dead...)
	}
	return nil
}

// departed returns the error of a call that needs ranks that have left.
func (g *group) departed(op string, ranks ...int) error {
	return &RankError{Ranks: ranks, Op: op, Err: ErrRankFinalized}
}

// flushPatience is how long Finalize waits for lanes that are full where it waits for nobody else.
const flushPatience = time.Second

// flush waits until all that was to be written into lanes has been, but for lanes to
// those who have left. Where the ranks cannot meet any more, nobody has to take anything: it
// waits so long as those need who do.
func (w *World) flush(ctx context.Context) error {
	f := flusher{World: w}
	if err := w.e.job.Waiter.WaitPoll(&f, ctx); err != nil || w.e.waiting.Load() == 0 {
		return err
	}
	f.alone = true
	bounded, cancel := context.WithTimeout(ctx, flushPatience)
	defer cancel()
	err := w.e.job.Waiter.WaitPoll(&f, bounded)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil
	}
	return err
}

type flusher struct {
	*World
	alone bool // it is known that the ranks cannot meet
}

// Poll makes progress. The wait is over when there is nothing left, or when it turns out that the
// ranks cannot meet.
func (f *flusher) Poll() wait.Look {
	e, g := f.e, f.comm.g
	moved := e.serve()
	if e.waiting.Load() == 0 || !f.alone && g.t.Deserted() {
		return wait.Over
	}
	e.mu.Lock()
	defer e.unlock()
	for _, l := range slices.Clone(e.stuck) {
		if rank := g.rank(l.pe); g.t.HasLeft(rank) {
			e.clear(l, func(r *request) {
				e.complete(r, r.g.departed(r.op, r.g.rank(l.pe)))
			})
		}
	}
	switch {
	case len(e.stuck) == 0:
		return wait.Over
	case moved:
		return wait.Moved
	default:
		return wait.Nothing
	}
}

// landing waits until no sender writes to a buffer of this process any more, which may be in
// the middle of a part of a receive that Finalize has ended. Behind Finalize nobody may make
// progress for it: what is in the lanes is the next World's then.
type landing World

// Poll makes progress. The wait is over when no message is being copied.
func (w *landing) Poll() wait.Look {
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

// settle takes what there is in the lanes.
func (e *engine) settle() {
	e.mu.Lock()
	defer e.unlock()
	e.takeAll()
}
