package mpi

import (
	"slices"

	"github.com/goshmem/goshmem/symheap/layout"
)

// bury acts on the deaths up to an epoch, of which it has received first all that they have sent.
func (e *engine) bury(epoch uint64) {
	e.epoch.Store(epoch)
	if e.dead == nil {
		e.dead = make([]bool, e.job.NPEs)
	}
	for pe := range e.dead {
		if !e.dead[pe] && e.job.Failures.Dead(pe, e.job.Map.Control(pe).Header.Incarnation) {
			if l := e.in[pe]; l != nil {
				e.empty(l, l.shape.Cells) // there is nothing else
			}
			e.dead[pe] = true
			e.lost(pe)
		}
	}
}

// lost ends what needs a PE that has died.
func (e *engine) lost(pe int) {
	e.reclaim(func(by int32) bool { return by == int32(pe) })
	for i := range e.table {
		if r := e.table[i].r; r != nil && r.pe == pe {
			e.strike(r.number)
			e.noCopy(&e.helps, r)
			e.fails(r)
		}
	}
	for _, r := range slices.Clone(e.pulls) {
		if r.pe == pe {
			e.noCopy(&e.pulls, r)
			e.bereaved(r)
		}
	}
	if l := e.out[pe]; l != nil {
		e.clear(l, e.fails)
	}
	for _, g := range e.groups {
		rank := g.rank(pe)
		if rank < 0 {
			continue
		}
		g.alarm.Store(true)
		g.q.Sweep(func(env envelope, r *request) bool {
			if env.Src == int32(rank) {
				r.pe = pe
				e.fails(r)
				return true
			}
			return false
		})
	}
}

// bereaved ends a receive whose message was being copied when its sender died. What is in
// a segment still is.
func (e *engine) bereaved(r *request) {
	s := &r.share
	switch {
	case s.cause != nil:
		e.complete(r, s.cause)
	case s.there != nil && s.close(layout.ShareTaken) == layout.ShareTaken:
		moveBytes(r.buf, s.there, r.size)
		e.complete(r, nil)
	default:
		e.fails(r)
	}
}

// fails completes a request whose other side has died.
func (e *engine) fails(r *request) { e.complete(r, r.g.died(r.op, r.g.rank(r.pe))) }

// unacknowledged returns the ranks whose death ends receives from any source.
func (g *group) unacknowledged() []int { return g.failed(g.acked.Load()) }

// failed returns the ranks that have died after an epoch, ascending.
func (g *group) failed(since uint64) (ranks []int) {
	all, _ := g.e.job.Failures.Since(since)
	for i := range all {
		if rank := g.rank(all[i].PE); rank >= 0 {
			ranks = append(ranks, rank)
		}
	}
	slices.Sort(ranks)
	return ranks
}

// Failed returns the ranks that are known to have died, ascending. Where a death ends
// the job, which is so without oshrun --recover, nobody is left to ask for long.
//
//   - Concurrent calls: allowed.
//   - Source: MPIX_Comm_get_failed.
func (c *Comm) Failed() []int {
	if c == nil || c.g == nil {
		return nil
	}
	c.g.e.job.Waiter.Beat() // it may be polled
	return c.g.failed(0)
}

// AckFailed acknowledges all deaths in the communicator that are known and returns
// the ranks, as Failed does. Receives from AnySource, which a death ends as long as
// it is not acknowledged, wait for the other ranks from then on. It changes nothing
// for other calls, and nothing for package shmem (interop.AckFailed does both).
//
//   - Concurrent calls: allowed.
//   - Source: MPIX_Comm_ack_failed.
func (c *Comm) AckFailed() []int {
	if c == nil || c.g == nil {
		return nil
	}
	g := c.g
	e := g.e
	e.job.Waiter.Beat() // it may be polled
	e.mu.Lock()
	defer e.unlock()
	if g.ended.Load() {
		return g.failed(0) // the lanes may be another World's
	}
	e.progress() // up to the present epoch, or a later one
	ranks := g.failed(0)
	epoch := e.epoch.Load()
	g.acked.Store(epoch)
	g.alarm.Store(len(g.failed(epoch)) > 0)
	return slices.DeleteFunc(ranks, func(rank int) bool { return e.dead == nil || !e.dead[g.pe(rank)] })
}
