package mpi

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/goshmem/goshmem/coll"
)

// Undefined is the color of a rank that is to be in no communicator of a Split.
const Undefined = -1

// Comm is a communicator: an ordered group of processes, whose messages and
// collectives do not meet those of other communicators.
type Comm struct {
	g   *group
	ctx context.Context //nolint:containedctx // With's purpose
}

// group is what all handles of a communicator have in common.
type group struct {
	e            *engine
	t            *coll.Team
	number       uint32 // the same at all members: the team's id, and how often that was given
	me, n        int
	checks       bool    // ranks compare what they call: see check.go
	pes          []int   // by rank
	ranks        []int32 // by PE, -1: none
	q            queue   // the engine's lock guards it
	ended        atomic.Bool
	unackedDeath atomic.Bool   // a death is not acknowledged, and ends receives from any source
	ackedEpoch   atomic.Uint64 // deaths up to this epoch of the failure page are acknowledged
}

func (g *group) pe(rank int) int { return g.pes[rank] }

// rank returns a PE's, -1 if it is not in the communicator.
func (g *group) rank(pe int) int { return int(g.ranks[pe]) }

// usable checks that c came from a World and is neither freed nor finalized.
func (c *Comm) usable(op string) error {
	switch {
	case c == nil || c.g == nil:
		return usage(op, ErrArgument, "communicator is nil, want w.Comm() or one that Split returned")
	case c.g.ended.Load() || c.g.e.closed.Load():
		return c.g.endedError(op)
	}
	return nil
}

// endedError returns the error of a call on a communicator that has ended.
func (g *group) endedError(op string) error {
	if g.e.closed.Load() {
		return usage(op, ErrFinalized, "called after Finalize")
	}
	return usage(op, ErrFreed, "communicator was freed before this call, want a live one")
}

// Rank returns this process's rank, -1 in a nil Comm.
//
//   - Source: MPI_Comm_rank.
func (c *Comm) Rank() int {
	if c == nil || c.g == nil {
		return -1
	}
	return c.g.me
}

// Size returns the number of ranks, 0 of a nil Comm.
//
//   - Source: MPI_Comm_size.
func (c *Comm) Size() int {
	if c == nil || c.g == nil {
		return 0
	}
	return c.g.n
}

// With returns the same communicator, whose calls end with an error when ctx ends. A
// collective that ended so has broken it, for collectives; a receive has left its
// message to another one, but for a long one that it had met already and that was on its
// way: that is lost. Nobody writes to its buffer any more, even if the sender was stopped in the
// middle of the message: where ctx can end, the receiver copies long messages alone, which takes longer.
// Irecv and Request.With lose no message.
func (c *Comm) With(ctx context.Context) *Comm {
	if c == nil {
		return nil
	}
	return &Comm{g: c.g, ctx: ctx}
}

// Split makes communicators of the ranks that give the same color, 0 or more, each
// in the order of their keys, and of their ranks where keys are equal. It returns
// that which this rank is in, and nil if its color is Undefined.
//
//   - Errors: as Barrier; ErrTooMany; ErrArgument for another color, which is ErrMismatch for
//     the other ranks, as it is where a rank has called something else.
//   - Cost: a few barriers.
//   - Collective: over the communicator.
//   - Source: MPI_Comm_split.
func (c *Comm) Split(color, key int) (*Comm, error) {
	const op = "Comm.Split"
	if err := c.usable(op); err != nil {
		return nil, err
	}
	g := c.g
	if g.checks {
		if err := c.compare(op, "%s", op); err != nil {
			return nil, err
		}
	}
	all, err := g.t.Gather(c.ctx, coll.Words{uint64(color), uint64(key)}) // a bad color as well: others wait for it
	if color < Undefined {
		return nil, usage(op, ErrArgument, "color %d, want 0 or more, or Undefined", color)
	}
	if err != nil {
		return nil, g.fail(op, err)
	}
	var members []int
	for rank := range all {
		if other := int(all[rank][0]); other < Undefined {
			return nil, usage(op, ErrMismatch, "rank %d gave color %d, want 0 or more, or Undefined", rank, other)
		}
		if color != Undefined && int(all[rank][0]) == color {
			members = append(members, rank)
		}
	}
	slices.SortStableFunc(members, func(a, b int) int { return compare(int(all[a][1]), int(all[b][1])) })
	t, err := coll.Split(c.ctx, g.t, members, false)
	if err != nil || t == nil {
		return nil, g.fail(op, err)
	}
	return c.newSplitComm(op, t)
}

// newSplitComm makes a communicator of a team that was split off this one.
func (c *Comm) newSplitComm(op string, t *coll.Team) (*Comm, error) {
	of, err := c.newCommOf(t)
	if err == nil {
		return of, nil
	}
	if dead, ok := errors.AsType[*coll.DeadError](err); ok { // members of the team, who are named by their ranks here
		for i, m := range dead.Members {
			dead.Members[i] = c.g.rank(t.PEs()[m])
		}
		slices.Sort(dead.Members)
	}
	return nil, c.g.fail(op, err)
}

// newCommOf makes a communicator of a team with the context of this one. Its errors are package coll's,
// and name members by their rank in the team.
func (c *Comm) newCommOf(t *coll.Team) (*Comm, error) {
	g, err := c.g.e.newGroup(c.ctx, t)
	if err != nil {
		t.Leave()
		t.Release()
		return nil, err
	}
	return &Comm{g: g, ctx: c.ctx}, nil
}

func compare(a, b int) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

const opFree = "Comm.Free"

// Free ends a communicator that Split made: calls on it fail with ErrFreed from then on,
// and messages in it that were not received are dropped. Requests that are not complete
// end with ErrFreed, sends also well. When a member has died, or the communicator is
// broken, it does not wait for the others and succeeds.
//
// This rank has freed the communicator also where Free returns an error, unless that is
// ErrArgument, ErrUnwinding, or ErrMismatch alone: the end of c's context, before which the
// others have not come, is one that says so.
//
//   - Errors: ErrArgument for the communicator of all ranks, and while another collective of it
//     is under way in this process; ErrFreed; ErrFinalized; ErrUnwinding as World.Finalize;
//     ErrMismatch where ranks compare what they call; the end of c's context.
//   - Collective: over the communicator.
//   - Source: MPI_Comm_free.
func (c *Comm) Free() error {
	const op = opFree
	if err := c.usable(op); err != nil {
		return err
	}
	g := c.g
	if g.t.ID() == coll.MPIWorld {
		return usage(op, ErrArgument, "this is the communicator of all ranks, want one that Split returned")
	}
	if err := unwinding(op); err != nil {
		return err
	}
	if g.checks {
		if err := c.compare(op, "%s", op); err != nil && !permitsLeaving(err) {
			if !errors.Is(err, ErrMismatch) && !errors.Is(err, ErrArgument) { // the context has ended
				g.t.Release()
				g.markFreed()
			}
			return err
		}
	}
	err := g.t.Dissolve(c.ctx)
	if errors.Is(err, coll.ErrConcurrent) {
		return g.fail(op, err)
	}
	g.markFreed()
	if err := g.fail(op, err); err != nil && !permitsLeaving(err) {
		return err
	}
	return nil
}

// markFreed makes all calls on a communicator fail that this rank has freed.
func (g *group) markFreed() {
	g.e.mu.Lock()
	defer g.e.unlock()
	g.e.closeGroup(g, ErrFreed, "communicator was freed meanwhile")
}
