package mpi

import (
	"math"
	"slices"

	"github.com/goshmem/goshmem/symheap/layout"
)

// processDeaths acts on the deaths up to an epoch. Their lanes were read after the epoch was: the dead
// have sent nothing that this process has not received.
func (e *engine) processDeaths(epoch uint64) {
	e.deathEpoch.Store(epoch)
	if e.dead == nil {
		e.dead = make([]bool, len(e.out))
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
	for _, f := range e.foreign.all() {
		processForeignDeaths(e, f, epoch)
	}
}

// isTooFresh reports whether a PE of another node has died after an epoch. Then its messages may not have been read, as more may wait
// than its lane has cells. The next progress finds the later epoch.
func (e *engine) isTooFresh(pe layout.PE, epoch uint64) bool {
	if e.far == nil {
		return false
	}
	if e.isNear(pe) {
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
		switch get := r.share.get; { // a pull has a share
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
	e.wakeProbes(nil, envelope{})
	defer lookInBlocks(e)
	for _, g := range e.groups {
		rank := g.rank(pe)
		if rank < 0 {
			continue
		}
		if g.agreement != nil {
			g.agreement.peerFailed(rank)
		}
		if g.partitions != nil {
			g.partitions.failSendsTo(rank)
		}
		if g.hidden != nil {
			g.collectives.dead = append(g.collectives.dead, rank)
			g.collectives.failAll(func(s *schedule) error {
				if dead := s.deadOf(g); dead != nil {
					return g.deadError(s.r.op, dead...)
				}
				return nil
			})
		}
		g.unackedDeath.Store(!isRecognized(g, rank) || failedUnacked(g) != nil)
		wakeSleepers(g) // receives from any source: stoppedByDeath
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

// failedUnacked returns the ranks whose deaths end receives from any source, ascending.
func failedUnacked(g *group) []int {
	ranks := slices.DeleteFunc(g.failedSince(g.ackedEpoch.Load()), func(rank int) bool { return isRecognized(g, rank) })
	if len(ranks) == 0 {
		return nil
	}
	slices.Sort(ranks)
	return ranks
}

// failedSince returns the ranks that have died after an epoch, in the order in which this process has learned of their deaths.
func (g *group) failedSince(epoch uint64) (ranks []int) {
	all := g.e.failuresSince(epoch)
	for i := range all {
		if rank := g.rank(layout.PE(all[i].PE)); rank >= 0 {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// Failed returns the ranks that are known to have died, in the order in which this process has learned of it: what one call returns is the beginning of
// what later ones return. Without oshrun --recover a death ends the job, and with it this process.
//
//   - Concurrent calls: allowed.
//   - Source: MPIX_Comm_get_failed.
func (c *Comm) Failed() []int {
	if c == nil || c.g == nil {
		return nil
	}
	c.g.e.job.Waiter.Beat() // a program may poll Failed
	if c.g.e.foreign.jobs.Load() != nil && !c.g.e.closed.Load() {
		c.g.e.serve() // deaths in other jobs are known from then on
	}
	return c.g.failedSince(0)
}

// AckFailed acknowledges all known deaths in the communicator, and returns their ranks, in the order of Failed. A
// death that is not acknowledged ends receives from AnySource, and is an error of Agree; after AckFailed receives wait for the
// ranks that live. Collectives, and package shmem, are not concerned; interop.AckFailed acknowledges in
// both packages.
//
//   - Concurrent calls: allowed.
//   - Source: MPIX_Comm_failure_ack and MPIX_Comm_failure_get_acked; MPIX_Comm_ack_failed of all.
func (c *Comm) AckFailed() []int { return c.AckFirst(math.MaxInt) }

// AckFirst is AckFailed for the first n ranks that Failed returns. It returns those whose deaths are acknowledged then: all n, more if more were
// acknowledged before, or fewer if fewer have died.
//
//   - Concurrent calls: allowed.
//   - Source: MPIX_Comm_ack_failed.
func (c *Comm) AckFirst(n int) []int {
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
	ranks, epoch := g.firstFailed(n, e.deathEpoch.Load())
	g.ackedEpoch.Store(epoch)
	g.unackedDeath.Store(failedUnacked(g) != nil)
	return ranks
}

// firstFailed returns the first n ranks that have died up to an epoch, or more if more are acknowledged, and the epoch of the last of these deaths: the given
// one if they are all.
func (g *group) firstFailed(n int, upTo uint64) (ranks []int, epoch uint64) {
	epoch = g.ackedEpoch.Load()
	all := g.e.failuresSince(0)
	for i := range all {
		rank := g.rank(layout.PE(all[i].PE))
		switch {
		case rank < 0:
		case all[i].Epoch > upTo:
			return ranks, max(epoch, upTo)
		case len(ranks) >= n && all[i].Epoch > epoch:
			return ranks, epoch
		default:
			ranks = append(ranks, rank)
			epoch = max(epoch, all[i].Epoch)
		}
	}
	return ranks, max(epoch, upTo)
}
