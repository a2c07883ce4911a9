package mpi

import (
	"slices"

	"github.com/goshmem/goshmem/symheap/layout"
)

// processDeaths acts on the deaths up to an epoch. Their lanes were read after the epoch was: the dead
// have sent nothing that this process has not received.
func (e *engine) processDeaths(epoch uint64) {
	e.deathEpoch.Store(epoch)
	if e.dead == nil {
		e.dead = make([]bool, e.job.NPEs)
	}
	for pe := range layout.PE(e.job.NPEs) {
		if !e.dead[pe] && e.job.IsDead(pe) && !e.isTooFresh(pe, epoch) {
			if l := e.in[pe]; l != nil {
				e.receiveCells(l, l.shape.Cells) // the lane of the dead gets no more cells
			}
			e.dead[pe] = true
			e.failRequestsWith(pe)
		}
	}
}

// isTooFresh reports whether a PE of another node has died after an epoch. Then its messages may not have been read, as more may wait
// than its lane has cells. The next progress finds the later epoch.
func (e *engine) isTooFresh(pe layout.PE, epoch uint64) bool {
	if e.far == nil {
		return false
	}
	if _, near := e.job.Place.Local(pe); near {
		return false
	}
	f, known := e.job.Failures.Failure(int(pe))
	return !known || f.Epoch > epoch
}

// failRequestsWith ends the requests that need a PE which has died.
func (e *engine) failRequestsWith(pe layout.PE) {
	e.table.endLoans(func(to layout.PE) bool { return to == pe })
	for i := range e.table.entries {
		if r := e.table.entries[i].r; r != nil && r.pe == pe {
			e.table.removeNumber(r.number)
			e.removeFrom(&e.pushes, r)
			e.failByDeath(r)
		}
	}
	for _, r := range slices.Clone(e.pulls) {
		switch get := r.share.get; {
		case r.pe != pe:
		case get != nil && len(get.parts) > 0: // it ends when nothing is written to its buffer any more
			r.share.cause = r.g.deadError(r.op, r.g.rank(pe))
		default:
			e.removeFrom(&e.pulls, r)
			e.endOrphanedPull(r)
		}
	}
	if l := e.out[pe]; l != nil {
		e.discardQueued(l, e.failByDeath)
	}
	for _, g := range e.groups {
		rank := g.rank(pe)
		if rank < 0 {
			continue
		}
		g.unackedDeath.Store(true)
		g.q.Sweep(func(env envelope, r *request) bool {
			if env.Src == int32(rank) {
				r.pe = pe
				e.failByDeath(r)
				return true
			}
			return false
		})
	}
}

// failedUnacked returns the ranks whose deaths end receives from any source.
func (g *group) failedUnacked() []int { return g.failedSince(g.ackedEpoch.Load()) }

// failedSince returns the ranks that have died after an epoch, ascending.
func (g *group) failedSince(epoch uint64) (ranks []int) {
	all, _ := g.e.job.Failures.Since(epoch)
	for i := range all {
		if rank := g.rank(layout.PE(all[i].PE)); rank >= 0 {
			ranks = append(ranks, rank)
		}
	}
	slices.Sort(ranks)
	return ranks
}

// Failed returns the ranks that are known to have died, ascending. Without oshrun --recover a death
// ends the job, and with it this process.
//
//   - Concurrent calls: allowed.
//   - Source: MPIX_Comm_get_failed.
func (c *Comm) Failed() []int {
	if c == nil || c.g == nil {
		return nil
	}
	c.g.e.job.Waiter.Beat() // a program may poll Failed
	return c.g.failedSince(0)
}

// AckFailed acknowledges all known deaths in the communicator, and returns their ranks, ascending. A
// death that is not acknowledged ends receives from AnySource; after AckFailed they wait for the
// ranks that live. Other calls, and package shmem, are not concerned; interop.AckFailed acknowledges in
// both packages.
//
//   - Concurrent calls: allowed.
//   - Source: MPIX_Comm_ack_failed.
func (c *Comm) AckFailed() []int {
	if c == nil || c.g == nil {
		return nil
	}
	g := c.g
	e := g.e
	e.job.Waiter.Beat() // a program may poll AckFailed
	e.mu.Lock()
	defer e.unlock()
	if g.ended.Load() {
		return g.failedSince(0) // no progress: the lanes may be those of another World
	}
	e.progress() // up to the present epoch, or a later one
	ranks := g.failedSince(0)
	epoch := e.deathEpoch.Load()
	g.ackedEpoch.Store(epoch)
	g.unackedDeath.Store(len(g.failedSince(epoch)) > 0)
	return slices.DeleteFunc(ranks, func(rank int) bool { return !e.isDead(g.pe(rank)) })
}
