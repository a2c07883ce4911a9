package mpi

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/coll/spanning"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Undefined is the color of a rank that joins no communicator of a Split.
const Undefined = -1

// Comm is a communicator: an ordered group of processes. Its messages and collectives do not meet those of
// other communicators.
type Comm struct {
	g   *group
	ctx context.Context //nolint:containedctx // With's purpose
}

// group is a communicator. Its handles, of type Comm, differ in their contexts.
type group struct {
	e      *engine
	t      *coll.Team     // of a communicator that spans nodes: its part here
	upper  *spanning.Team // of a communicator that spans nodes; otherwise nil
	left   []bool         // by rank: ranks of other nodes that have left; nil: none has. Guarded by the engine's lock
	number uint32         // the same at all members: the team's id, and how often the id was used
	me, n  int            // rank of this process, number of ranks
	checks bool           // the ranks compare their calls: see check.go
	pes    []layout.PE    // by rank
	ranks  []int32        // by PE; -1: not a member
	q      queue          // guarded by the engine's lock
	ended  atomic.Bool

	mourning   *mourning                 // the context of collectives without one, of a communicator that spans nodes
	deathKnown atomic.Pointer[time.Time] // when a collective between nodes has first seen that a rank is dead

	unackedDeath atomic.Bool   // a death is not acknowledged, and ends receives from any source
	ackedEpoch   atomic.Uint64 // deaths up to this epoch of the failure page are acknowledged
}

// pe returns the PE of a rank.
func (g *group) pe(rank int) layout.PE { return g.pes[rank] }

// rank returns the rank of a PE, or -1 if it is not a member.
func (g *group) rank(pe layout.PE) int { return int(g.ranks[pe]) }

// usable returns an error unless c is a communicator of a World, not freed and not finalized.
func (c *Comm) usable(op string) error {
	switch {
	case c == nil || c.g == nil:
		return usage(op, ErrArgument, "communicator is nil, want World.Comm or one that Comm.Split has returned")
	case c.g.ended.Load() || c.g.e.closed.Load():
		return c.g.endedError(op)
	}
	return nil
}

// endedError returns the error of a call on a communicator that is freed or finalized.
func (g *group) endedError(op string) error {
	if g.e.closed.Load() {
		return usage(op, ErrFinalized, "called after Finalize")
	}
	return usage(op, ErrFreed, "communicator was freed before this call, want a live one")
}

// Rank returns the rank of this process, or -1 for a nil Comm.
//
//   - Source: MPI_Comm_rank.
func (c *Comm) Rank() int {
	if c == nil || c.g == nil {
		return -1
	}
	return c.g.me
}

// Size returns the number of ranks, or 0 for a nil Comm.
//
//   - Source: MPI_Comm_size.
func (c *Comm) Size() int {
	if c == nil || c.g == nil {
		return 0
	}
	return c.g.n
}

// With returns the same communicator with a context: its calls end with an error when ctx ends.
//
//   - A collective that ends so breaks the communicator for collectives.
//   - A receive that ends so leaves its message to another receive. A long message that it had met already is
//     lost.
//   - After a receive has ended, nobody writes to its buffer, even if the sender was stopped in the middle of the
//     message. For that the receiver copies long messages alone if ctx can end, which takes longer.
//   - Irecv and Request.With lose no message.
func (c *Comm) With(ctx context.Context) *Comm {
	if c == nil {
		return nil
	}
	return &Comm{g: c.g, ctx: ctx}
}

// Split makes a communicator of the ranks that give the same color, 0 or more, in the order of their keys.
// Ranks with equal keys keep their order. Split returns the communicator of this rank's color, or nil if
// that is Undefined.
//
//   - Errors: as Barrier; ErrTooMany; ErrArgument for any other color, and ErrMismatch then for the other ranks;
//     ErrMismatch also where a rank has called something else.
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
	all, err := g.gatherWords(c.ctx, callSplit, coll.Words{uint64(color), uint64(key)}) // also with a bad color: the other ranks wait
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
	slices.SortStableFunc(members, func(a, b int) int { return cmp.Compare(int(all[a][1]), int(all[b][1])) })
	if err := g.checkOneNode(op, all); err != nil {
		return nil, err
	}
	t, err := g.split(c.ctx, members)
	if err != nil || t == nil {
		return nil, g.fail(op, err)
	}
	return c.newSplitComm(op, t)
}

// newSplitComm makes the communicator of a team that Split has made. Errors name ranks of c.
func (c *Comm) newSplitComm(op string, t *coll.Team) (*Comm, error) {
	of, err := c.newCommOf(t)
	if err == nil {
		return of, nil
	}
	if dead, ok := errors.AsType[*coll.DeadError](err); ok { // members of the team: name their ranks in c
		for i, m := range dead.Members {
			dead.Members[i] = c.g.rank(t.PEs()[m])
		}
		slices.Sort(dead.Members)
	}
	return nil, c.g.fail(op, err)
}

// newCommOf makes the communicator of a team, with the context of this one. Its errors are those of package
// coll, and name members by their rank in the team.
func (c *Comm) newCommOf(t *coll.Team) (*Comm, error) {
	g, err := c.g.e.newGroup(c.ctx, t, nil)
	if err != nil {
		t.Leave()
		t.Release()
		return nil, err
	}
	return &Comm{g: g, ctx: c.ctx}, nil
}

const opFree = "Comm.Free"

// Free ends a communicator that Split has made. If a member has died, or the communicator is broken, it
// does not wait for the others, and succeeds.
//
//   - Completion: calls on the communicator fail with ErrFreed from then on, and messages in it that were not
//     received are dropped. Requests that are not complete end with ErrFreed; sends may also end well.
//   - Errors: ErrArgument for the communicator of all ranks, and while another collective of it is under way in
//     this process; ErrFreed; ErrFinalized; ErrUnwinding as World.Finalize; ErrMismatch where ranks compare
//     their calls; the end of c's context before the others have come. The communicator is freed at this rank
//     all the same, unless the error is ErrArgument, ErrUnwinding, or ErrMismatch alone.
//   - Collective: over the communicator.
//   - Source: MPI_Comm_free.
func (c *Comm) Free() error {
	const op = opFree
	if err := c.usable(op); err != nil {
		return err
	}
	g := c.g
	if g.t.ID() == coll.MPIWorld {
		return usage(op, ErrArgument, "this is the communicator of all ranks, want one that Comm.Split has returned; call World.Finalize instead")
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

// markFreed ends a communicator that this rank has freed.
func (g *group) markFreed() {
	g.e.mu.Lock()
	defer g.e.unlock()
	g.e.closeGroup(g, ErrFreed, "communicator was freed meanwhile")
}
