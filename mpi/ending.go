package mpi

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Ends of requests that do not come from their operations: the communicator or the World ends, the
// caller gives the request up, or the peer has left.

const finalizedMeanwhile = "Finalize was called meanwhile"

// closeGroup makes all calls on a communicator fail, and ends its requests with cause.
func (e *engine) closeGroup(g *group, cause error, why string) {
	e.endRequests(g, func(op string) error { return usage(op, cause, "%s", why) })
	if g.hidden != nil {
		e.endRequests(g.hidden, func(op string) error { return usage(op, cause, "%s", why) })
		e.removeGroup(g.hidden)
		e.removeGroup(g.partitioned) // endRequests has ended it
		g.agreeing.agreement.fail(func(op string) error { return usage(op, cause, "%s", why) })
	}
	e.removeGroup(g)
}

// endRequests makes all calls on a communicator fail, and ends its requests.
func (e *engine) endRequests(g *group, cause func(op string) error) {
	g.ended.Store(true)
	e.wakeProbes(nil, envelope{})
	if g.hidden != nil {
		g.collectives.failAll(func(s *schedule) error { return cause(s.r.op) })
	}
	end := func(r *request) { e.complete(r, cause(r.op)) }
	g.q.Sweep(func(_ envelope, r *request) bool {
		end(r)
		return true
	})
	for _, k := range g.q.Messages {
		if msg := e.kept.record(k); msg != nil && msg.waits != nil {
			end(msg.waits)
			msg.waits = nil
		}
	}
	for msg := range g.taken {
		if msg.waits != nil {
			end(msg.waits)
		}
		e.dropTaken(msg)
	}
	g.taken = nil
	for i := range e.table.entries {
		if r := e.table.entries[i].r; r != nil && r.g == g {
			if r.isLent() {
				e.removeFrom(&e.pushes, r)
				r.share.closeAs(layout.ShareEnded)
			}
			e.detach(r)
			end(r)
		}
	}
	for _, r := range slices.Concat(e.pulls, e.selfCopies) {
		if r.g == g {
			e.stopCopying(r, cause(r.op))
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
	if g.partitioned != nil {
		e.endRequests(g.partitioned, cause)
		endPartitions(g, cause)
	}
}

// shutDown makes all calls on all communicators fail, ends their requests, and stops writing into lanes.
func (e *engine) shutDown() {
	e.mu.Lock()
	defer e.unlock()
	e.receiveAll()
	for _, g := range e.groups {
		if g.hidden != nil && g.t == nil { // it was not freed
			g.tell(noticeLeft)
		}
	}
	e.closed.Store(true)
	defer leaveForeign(e)
	endGenerals(e)
	for _, g := range e.ended {
		if !g.freed.Load() {
			if g.t != nil && !isWorld(g) {
				g.t.Leave()
				g.t.Release()
			}
			e.closeGroup(g, ErrFinalized, finalizedMeanwhile)
		}
	}
	for _, g := range e.groups {
		if g.hidden == nil {
			continue // closeGroup of the one that it belongs to closes it
		}
		if g.t != nil && !isWorld(g) { // it was not freed
			g.t.Leave()
			g.t.Release()
		}
		e.closeGroup(g, ErrFinalized, finalizedMeanwhile)
	}
	for _, g := range e.groups {
		if g.agreement != nil { // also those of communicators that were freed without having met the others
			g.agreement.close()
		}
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
	if s := r.schedule; s != nil {
		e.failSchedule(s, cause)
		e.goOn(s)
		s.giveUp()
		return false
	}
	return e.cancel(r, cause)
}

// leftEvery is after how many polls in vain a wait checks whether the peer has left. The check takes the lock.
const leftEvery = 32

// lookAround is endIfPeerLeft for a wait that polls. It also looks, now and then, for the goroutines that are parked: a process whose messages
// come without a pause is never idle.
func (e *engine) lookAround(r *request) {
	e.endIfPeerLeft(r)
	if !e.job.Waiter.HasParked() {
		return
	}
	if now := time.Now().UnixNano(); now-e.lookedAround.Load() > int64(longIdle) {
		e.lookedAround.Store(now)
		e.wakeDeserted()
	}
}

// endIfPeerLeft ends a request whose peer has left the communicator, as ranks do after a death: then
// Finalize and Free wait for nobody. All that the peer had sent is received first; it was in the lane
// before the peer left.
func (e *engine) endIfPeerLeft(r *request) {
	e.mu.Lock()
	defer e.unlock()
	endIfLeft(e, r)
}

// endIfLeft is endIfPeerLeft for a caller that has the engine's lock.
func endIfLeft(e *engine, r *request) {
	switch {
	case r.isDone():
		return
	case r.agreement != nil:
		r.agreement.look()
		return
	case r.partition != nil:
		r.partition.lookForLeft()
		return
	case r.block != nil:
		r.block.look()
		return
	case r.general:
		return
	}
	if r.schedule != nil {
		e.endIfRankLeft(r.schedule)
		return
	}
	if r.g.peerLeftError(r) == nil {
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

// endIfRankLeft ends a schedule that waits for a rank which has left, or has withdrawn a message. The others are told, as they may wait for this one. Mostly the
// cause is a death, of which this process learns soon.
func (e *engine) endIfRankLeft(s *schedule) {
	g := s.r.g
	left := func() int {
		return slices.IndexFunc(s.open, func(r *request) bool { return !r.isDone() && g.hasLeft(g.rank(r.pe)) })
	}
	if !s.givenUp.IsZero() && time.Since(s.givenUp) > deathGrace {
		e.failSchedule(s, g.brokenError(s.r.op))
		e.goOn(s)
		return
	}
	if left() < 0 {
		s.askPeers()
		return
	}
	e.receiveAll() // what it had sent was in its lane before it left
	if i := left(); i >= 0 && s.err == nil && s.isLeftLong() {
		e.failSchedule(s, g.leftError(s.r.op, g.rank(s.open[i].pe)))
		e.goOn(s)
		s.giveUp()
	}
}

// longIdle is after how much idle time the driver looks for ranks that have left.
const longIdle = 100 * time.Millisecond

// isLongIdle adds to the idle time of the driver. If it is long, isLongIdle wakes the goroutines whose peers may have left, and reports true: the
// driver looks for itself.
func (e *engine) isLongIdle(slept time.Duration) bool {
	if e.idle += slept; e.idle < longIdle {
		return false
	}
	e.idle = 0
	if e.job.Waiter.HasParked() {
		e.wakeDeserted()
	}
	return true
}

// wakeDeserted wakes the goroutines that sleep in communicators that further ranks have left: each of them looks for itself.
func (e *engine) wakeDeserted() {
	e.mu.Lock()
	defer e.unlock()
	e.wakeProbes(nil, envelope{})
	lookForDeserted(e)
	for _, g := range e.groups {
		if g.agreement != nil {
			g.agreement.look()
			if len(g.sleeping) > 0 { // they look at the time, and at ranks that have left
				wakeSleepers(g)
			}
			continue
		}
		if len(g.sleeping) == 0 {
			continue
		}
		left := 0
		for rank := range g.n {
			if g.pe(rank) != e.me && g.hasLeft(rank) {
				left++
			}
		}
		if left != g.leftSeen {
			g.leftSeen = left
			wakeSleepers(g)
			continue
		}
		for _, s := range g.collectives.schedules { // a collective also looks at the time
			if s.r.sleeper != nil {
				s.r.sleeper.Wake()
			}
		}
	}
}

// wakeSleepers wakes all goroutines that sleep until requests of the communicator are complete. The caller has the engine's lock.
func wakeSleepers(g *group) {
	for _, r := range g.sleeping {
		if r.sleeper != nil {
			r.sleeper.Wake()
		}
	}
}

// peerLeftError returns the error of a request that no rank will meet: the peer has left, or, for a receive
// from any source, all other ranks have left or are dead. It returns nil in a communicator of one rank,
// in which another goroutine may send.
func (g *group) peerLeftError(r *request) error {
	if !r.anySource || !r.posted {
		if rank := g.rank(r.pe); r.pe != g.e.me && g.hasLeft(rank) {
			return g.leftError(r.op, rank)
		}
		return nil
	}
	var left, dead []int
	for rank, pe := range g.pes {
		switch {
		case pe == g.e.me:
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
		if hasFinalized(e, l.pe) {
			e.discardQueued(l, func(r *request) {
				e.complete(r, r.g.leftError(r.op, r.g.rank(l.pe)))
			})
		}
	}
	switch {
	case len(e.blocked) == 0:
		return wait.Over
	case !f.apart && !slices.ContainsFunc(e.blocked, func(l *outLane) bool { return !e.isForeign(l.pe) }):
		return wait.Over // processes of other jobs do not meet this one in Finalize: flush bounds the wait for them
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
