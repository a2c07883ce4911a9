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
	"github.com/goshmem/goshmem/internal/bridge"
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
	t      *coll.Team     // of a communicator that spans nodes: its part here; nil: all its collectives go in messages (messaging.go)
	upper  *spanning.Team // of a communicator that spans nodes; otherwise nil
	left   []bool         // by rank: ranks of other nodes that have left; nil: none has. Guarded by the engine's lock
	number uint32         // the same at all members: the team's id, and how often the id was used
	me, n  int            // rank of this process, number of ranks
	checks bool           // the ranks compare their calls: see check.go
	pes    []layout.PE    // by rank
	ranks  []int32        // by PE; -1: not a member; PEs behind the last one are none
	q      queue          // guarded by the engine's lock
	self   bool           // World.Self
	world  bool           // World.Comm without a team: see worldinmessages.go
	remote bool           // it is the side of an Intercomm that messages go to: pes and ranks are of the remote group, me is the rank in the local one
	ended  atomic.Bool    // no call begins any more: it was freed, revoked, or the World is finalized
	freed  atomic.Bool    // at this rank

	revoked atomic.Bool

	hidden           *group // the communicator of the messages of its collectives; nil in that one
	collectives      collectives
	agreeing         *group      // the communicator of the messages of its agreements; nil in that one
	agreement        *agreement  // of such a communicator; otherwise nil
	partitioned      *group      // the communicator of its partitioned messages; nil in that one
	partitions       *partitions // of such a communicator; otherwise nil
	attributes       attributes
	handler          atomic.Pointer[ErrorHandler] // of OnError; nil: none
	info             Info                         // never changed, but replaced. Guarded by the engine's lock
	revokes          atomic.Bool                  // an error of a rank that has died revokes it
	uniform          atomic.Bool                  // its collectives are uniform
	agreesInMessages atomic.Bool                  // Agree goes in messages also where the ranks share memory
	validated        atomic.Pointer[validation]   // ranks that are recognized as dead; nil: none
	outer            *group                       // of an inner communicator (validate.go); otherwise nil
	twin             bridge.Twin                  // the team that it is one with: see package interop
	blocks           blocks                       // TryBlocks of this rank

	sleeping []*request            // whose waiters sleep. Guarded by the engine's lock
	taken    map[*message]struct{} // messages that Mprobe has taken, and Mrecv has not received
	leftSeen int                   // ranks that had left when wakeDeserted looked last

	always     *revocable                // the context of collectives without one, of a communicator with a team in shared memory
	mourning   *mourning                 // the context of collectives without one, of a communicator that spans nodes
	deathKnown atomic.Pointer[time.Time] // when a collective between nodes has first seen that a rank is dead

	unackedDeath atomic.Bool   // a death is not acknowledged, and ends receives from any source
	ackedEpoch   atomic.Uint64 // deaths up to this epoch of the failure page are acknowledged
}

// isWorld reports whether the communicator has all ranks of the job.
func isWorld(g *group) bool { return g.world || g.t != nil && g.t.ID() == coll.MPIWorld }

// pe returns the PE of a rank.
func (g *group) pe(rank int) layout.PE { return g.pes[rank] }

// rank returns the rank of a PE, or -1 if it is not a member.
func (g *group) rank(pe layout.PE) int {
	if uint(pe) >= uint(len(g.ranks)) { // it is of another job
		return -1
	}
	return int(g.ranks[pe])
}

// usable returns an error unless c is a communicator of a World, not freed and not finalized, that has collectives.
func (c *Comm) usable(op string) error {
	if c != nil && c.g != nil && c.g.remote {
		return remoteError(op)
	}
	return usableInMessages(c, op)
}

// remoteError returns the error of a call that Intercomm.Remote does not have.
func remoteError(op string) error {
	return usage(op, ErrArgument, "this is Intercomm.Remote, which only sends and receives; hint: Intercomm.Local, or functions whose names begin with Inter")
}

// usableInMessages is usable for calls that also Intercomm.Remote has.
func usableInMessages(c *Comm, op string) error {
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
	if g.revoked.Load() && !g.freed.Load() {
		return g.revokedError(op)
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
//   - Errors: as Barrier; ErrArgument for any other color, and ErrMismatch then for the other ranks;
//     ErrMismatch also where a rank has called something else.
//   - Cost: a few barriers. There may be any number of communicators. Those with ranks of several nodes, and those beyond about sixty, have no
//     shared memory for collectives: theirs go in messages.
//   - Collective: over the communicator.
//   - Source: MPI_Comm_split.
func (c *Comm) Split(color, key int) (*Comm, error) {
	of, err := splitComm(c, "Comm.Split", color, key)
	return of, handledOf(c, err)
}

// splitComm is Split for other functions that make communicators.
func splitComm(c *Comm, op string, color, key int) (*Comm, error) {
	if err := c.usable(op); err != nil {
		return nil, err
	}
	c = livingOf(c)
	g := c.g
	if g.checks {
		if err := c.compare(op, "%s", op); err != nil {
			return nil, err
		}
	}
	all, err := g.gatherWords(c.ctx, op, callSplit, coll.Words{uint64(color), uint64(key)}) // also with a bad color: the other ranks wait
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
	if spansNodes(g, all) {
		if members == nil {
			return nil, nil //nolint:nilnil // it is in none
		}
		return newMessagingComm(c, op, members, bySplit)
	}
	t, err := g.split(c.ctx, members)
	switch {
	case errors.Is(err, coll.ErrNoID) && members == nil:
		return nil, nil //nolint:nilnil // it is in none
	case errors.Is(err, coll.ErrNoID):
		return newMessagingComm(c, op, members, bySplit)
	case err != nil || t == nil:
		return nil, g.fail(op, err)
	}
	return newSplitComm(c, op, t)
}

// newSplitComm makes the communicator of a team that Split has made. Errors name ranks of c.
func newSplitComm(c *Comm, op string, t *coll.Team) (*Comm, error) {
	of, err := newCommOf(c, t)
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
func newCommOf(c *Comm, t *coll.Team) (*Comm, error) {
	g, err := c.g.e.newGroup(c.ctx, t, nil)
	if err != nil {
		t.Leave()
		t.Release()
		return nil, err
	}
	c.g.e.mu.Lock()
	inherit(g, c.g)
	c.g.e.unlock()
	return &Comm{g: g, ctx: c.ctx}, nil
}

const opFree = "Comm.Free"

// Free ends a communicator that Split or the like has made. If a member has died, or the communicator is broken or revoked,
// it does not wait for the others, and succeeds.
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
	if err := c.usable(op); err != nil && !errors.Is(err, ErrRevoked) {
		return err
	}
	g := c.g
	if g.self {
		return usage(op, ErrArgument, "this is the communicator of this process alone, World.Self, want one that Comm.Split or the like has returned")
	}
	if isWorld(g) {
		return usage(op, ErrArgument, "this is the communicator of all ranks, want one that Comm.Split has returned; call World.Finalize instead")
	}
	if err := unwinding(op); err != nil {
		return err
	}
	if g.checks && !g.revoked.Load() {
		if err := c.compare(op, "%s", op); err != nil && !permitsLeaving(err) {
			if !errors.Is(err, ErrMismatch) && !errors.Is(err, ErrArgument) { // the context has ended
				g.t.Release()
				g.markFreed(false)
			}
			return err
		}
	}
	if g.t == nil {
		return freeMessaging(c, op)
	}
	err := g.t.Dissolve(revocableOf(c.ctx, g))
	if errors.Is(err, coll.ErrConcurrent) {
		return g.fail(op, err)
	}
	g.markFreed(err == nil)
	if err := g.fail(op, err); err != nil && !permitsLeaving(err) {
		return err
	}
	return nil
}

// markFreed ends a communicator that this rank has freed. met says that all ranks have called Free.
func (g *group) markFreed(met bool) {
	g.e.mu.Lock()
	defer g.e.unlock()
	markFreedLocked(g, met)
}

// markFreedLocked is markFreed for a caller that has the engine's lock.
func markFreedLocked(g *group, met bool) {
	g.freed.Store(true)
	if v := g.validated.Load(); v != nil {
		v.view.inner.tell(noticeLeft)
		markFreedLocked(v.view.inner, false)
	}
	if met {
		g.agreeing.agreement.close()
	} else {
		g.agreeing.agreement.leave()
	}
	g.e.ended = slices.DeleteFunc(g.e.ended, func(x *group) bool { return x == g })
	g.e.closeGroup(g, ErrFreed, "communicator was freed meanwhile")
}
