package mpi

import (
	"context"
	"slices"

	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/mpi/sched"
)

// # Ranks that are recognized as dead
//
// Validate makes a communicator usable again in which ranks have died. All ranks that live agree on the list of the dead; from then on these are
// recognized: messages to and from them move nothing, and collectives are those of the other ranks.
//
//   - A Validate is a Shrink in messages whose communicator the program does not see: the inner one. Collectives of the outer one go there. So messages of
//     collectives that the death has ended meet no later ones, and the ranks count alike whatever each of them had begun.
//   - The plan of a collective is one of the ranks of the inner communicator (view). Errors name the ranks of the outer one (group.outer).

// validation is what a Validate has found. It never changes.
type validation struct {
	dead []int // ranks that are recognized, ascending
	view view
}

// view is what a plan is made of: the ranks of a communicator that take part in collectives.
type view struct {
	n, me int
	ranks []int  // of the communicator, by those of the inner one; nil: all, and there is no inner one
	inner *group // the inner communicator, or nil
}

// viewOf returns the ranks that take part in collectives of a communicator.
func viewOf(g *group) view {
	if v := g.validated.Load(); v != nil {
		return v.view
	}
	return view{n: g.n, me: g.me}
}

// root returns the place of a root in a plan, or an error if the root is recognized as dead.
func (v view) root(g *group, op string, root int) (int, error) {
	if v.ranks == nil {
		return root, nil
	}
	if at := slices.Index(v.ranks, root); at >= 0 {
		return at, nil
	}
	return -1, g.reportDeath(g.deadError(op, root))
}

// pick returns the parts of the ranks that take part.
func (v view) pick(parts []sched.Part) []sched.Part {
	if v.ranks == nil || parts == nil {
		return parts
	}
	picked := make([]sched.Part, v.n)
	for i, rank := range v.ranks {
		picked[i] = parts[rank]
	}
	return picked
}

// collectivesInMessages reports whether the collectives of a communicator go in messages.
func collectivesInMessages(g *group) bool { return g.t == nil || g.validated.Load() != nil }

// areBroken reports whether the collectives of a communicator are broken, at this rank. The caller has the engine's lock.
func areBroken(g *group) bool {
	v := g.validated.Load()
	return g.collectives.broken && v == nil || v != nil && v.view.inner.collectives.broken
}

// livingOf returns the communicator of the ranks that are not recognized as dead, for calls that make further communicators.
func livingOf(c *Comm) *Comm {
	if v := c.g.validated.Load(); v != nil {
		return &Comm{g: v.view.inner, ctx: c.ctx}
	}
	return c
}

// isRecognized reports whether a rank is recognized as dead.
func isRecognized(g *group, rank int) bool {
	v := g.validated.Load()
	return v != nil && slices.Contains(v.dead, rank)
}

// outerRanks returns the ranks of the outer communicator.
func outerRanks(inner *group, ranks []int) []int {
	of := make([]int, len(ranks))
	for i, rank := range ranks {
		of[i] = inner.outer.rank(inner.pe(rank))
	}
	return of
}

// Validate returns the ranks that have died, ascending: the same at all ranks that live, whoever dies meanwhile. From then on these ranks are recognized as
// dead, and calls of the communicator treat them as if they were nobody:
//
//   - A send to such a rank, and a receive or probe from it, end at once as those with ProcNull. A receive still gets what the rank had sent.
//   - Collectives are those of the other ranks, which keep their numbers: buffers have a part for each rank as before, and the parts of such ranks stay as
//     they are. As a root such a rank is an error with ErrDied. Neighborhood collectives, and persistent ones that were made before, fail.
//   - Split, Dup and the like make communicators of the other ranks.
//   - Its death counts as acknowledged.
//
// A rank that dies later is an error again, until the next Validate. A rank that has finalized, or freed the communicator, counts as dead in collectives.
//
//   - Errors: ErrRevoked; ErrCommBroken when another rank has given this call up; the end of c's context.
//   - Cost: two agreements in messages; it starts again when a rank dies between them. Collectives go in messages afterwards, if ranks have died.
//   - Collective: over the ranks that live, in the same order as Shrink. No other collective of this rank is under way, nor a uniform one of another rank.
//   - Source: MPI_Comm_validate_all of the proposal of run-through stabilization; Hursey and Graham.
func (c *Comm) Validate() ([]int, error) {
	const op = "Comm.Validate"
	if err := c.usable(op); err != nil {
		return nil, handledOf(c, err)
	}
	s := startShrink(c.g, op, &Comm{}, true)
	if err := s.finish(c.ctx); err != nil {
		return nil, handled(c.g, err)
	}
	var dead []int
	for _, rank := range s.dead {
		dead = append(dead, int(rank))
	}
	awaitNews(c.g, dead)
	p := deathsPoll{c.g, dead}
	if err := c.g.e.job.Waiter.WaitPoll(p, context.Background()); err != nil {
		return nil, usage(op, ErrFinalized, finalizedMeanwhile)
	}
	return dead, nil
}

// deathsPoll is a wait until the engine has acted on deaths that are published.
type deathsPoll struct {
	g     *group
	ranks []int
}

// Poll makes progress.
func (p deathsPoll) Poll() wait.Look {
	e := p.g.e
	e.mu.Lock()
	defer e.unlock()
	moved := e.progress()
	for _, rank := range p.ranks {
		if pe := p.g.pe(rank); !e.isForeign(pe) && e.job.IsDead(pe) && !e.isDead(pe) && !e.closed.Load() {
			if moved {
				return wait.Moved
			}
			return wait.Nothing
		}
	}
	p.g.unackedDeath.Store(failedUnacked(p.g) != nil)
	return wait.Over
}

// recognize makes a communicator that the ranks which live have just made the inner one. The caller has the engine's lock.
func recognize(g, inner *group, ranks, dead []int) {
	former := g.validated.Load()
	inner.outer = g
	g.validated.Store(&validation{dead: dead, view: view{n: inner.n, me: inner.me, ranks: ranks, inner: inner}})
	if former != nil {
		former.view.inner.tell(noticeLeft)
		markFreedLocked(former.view.inner, false)
	}
	g.unackedDeath.Store(failedUnacked(g) != nil)
}

// endInner ends the collectives of a communicator that is revoked, and whose collectives have an inner one. The caller has the engine's lock.
func endInner(g *group) {
	if v := g.validated.Load(); v != nil {
		inner := v.view.inner
		inner.revoked.Store(true)
		g.e.endRequests(inner, g.revokedError)
		inner.ended.Store(true)
	}
}
