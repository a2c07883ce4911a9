// Package interop is for programs that use one-sided communication (package shmem) and messages (package mpi)
// side by side: in one job, on one heap.
//
// The two packages promise each other:
//
//   - Order: their Init and Finalize may be called in any order, nested, and again. What a process has once (its
//     mapped memory, its connection to oshrun) goes with the last Finalize of both.
//   - Numbers: rank i of mpi's World.Comm is PE i of shmem's World, on every node. CommOf and TeamOf keep the
//     order of members.
//   - Memory: slices of the symmetric heap (shmem.Sym.Local) may be buffers of messages and of mpi's
//     collectives. Long messages are copied once then.
//   - Progress: all waits of a process make progress for messages, those of shmem too. So do shmem's tests when
//     they find nothing (Test, TestAll, TestAny, TestSome, Lock.Try), and SignalFetch. A loop that looks at
//     memory by other calls (AtomicFetch, Sym.Local) makes none. One-sided operations need none.
//   - Completion: mpi.Comm.Barrier completes no operation of shmem. Call Ctx.Quiet before it, or World.Barrier,
//     which does both, or BarrierAll. A message that is sent after Quiet tells its receiver that the operations before
//     Quiet are complete.
//   - Failures: a death for which one package has returned an error is known to the other at its next call. An
//     acknowledgment concerns the waits of one package; AckFailed makes both.
package interop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/internal/bridge"
	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
)

// CommOf returns a communicator of the PEs of a team, in their order, on any nodes. The communicator is strict and does not
// depend on the team. The caller frees it (mpi.Comm.Free).
//
// A team has one communicator at a time: until that is freed, further calls return the same one, without communication. TeamOf
// of it returns the team. For a communicator of your own, call mpi.Comm.Dup.
//
// By CommOf, survivors of a death go on with collectives of mpi: they free the old communicator, shrink its team
// (shmem.Team.Shrink), and make a communicator of the team that is left.
//
//   - Errors: as shmem.Team.SplitStrided; mpi.ErrFinalized when mpi is not initialized.
//   - Cost: a few barriers. The communicator of a team with PEs of several nodes has its collectives in messages.
//   - Collective: over the team.
func CommOf(team *shmem.Team) (*mpi.Comm, error) {
	const op = "CommOf"
	if !mpi.Initialized() {
		return nil, fmt.Errorf("interop.%s: mpi is not initialized, or is finalized; call mpi.Init first: %w", op, mpi.ErrFinalized)
	}
	g, err := bridge.OfTeam(opTeam, team)
	if err != nil {
		return nil, fmt.Errorf("interop.%s: %w", op, err)
	}
	if c, _ := g.Twin.Get().(*mpi.Comm); c != nil { // the same at all PEs: each of them has made it, and has freed it or not
		if g.Ctx != nil {
			c = c.With(g.Ctx)
		}
		return c, nil
	}
	var c any
	if g.Team != nil {
		c, err = commOfTeam(g)
	} else {
		c, err = commOfPEs(g)
	}
	if err != nil {
		return nil, fmt.Errorf("interop.%s: %w", op, err)
	}
	join(team, c)
	return c.(*mpi.Comm), nil //nolint:errcheck,forcetypeassert // bridge returns no other type
}

// opTeam and opComm are the calls that errors of CommOf and TeamOf name.
const (
	opTeam = "Team.SplitStrided"
	opComm = "Comm.Split"
)

// commOfTeam makes a communicator of a team of one node.
func commOfTeam(g bridge.Group) (any, error) {
	members := make([]int, g.Team.Size())
	for i := range members {
		members[i] = i
	}
	t, err := coll.Split(g.Ctx, g.Team, members, false)
	if err != nil {
		return nil, g.Fail(opTeam, err)
	}
	c, err := bridge.NewComm(g.Ctx, t)
	if err != nil && !errors.Is(err, mpi.ErrFinalized) { // ErrFinalized: another goroutine has called Finalize meanwhile
		err = g.Fail(opTeam, err) // the team has the members of the new one, by the same numbers
	}
	return c, err
}

// commOfPEs makes a communicator of a team of several nodes.
func commOfPEs(g bridge.Group) (any, error) {
	c, err := bridge.NewCommOf(g.Ctx, g.PEs, g.Name)
	gone, is := errors.AsType[*mpi.RankError](err)
	if !is {
		return c, err
	}
	var members []int // mpi's World has the numbers of PEs
	for _, pe := range gone.Ranks {
		if i := slices.Index(g.PEs, pe); i >= 0 {
			members = append(members, i)
		}
	}
	switch {
	case len(members) == 0:
	case errors.Is(err, mpi.ErrDied):
		err = g.Fail(opTeam, &coll.DeadError{Members: members})
	case errors.Is(err, mpi.ErrRankFinalized):
		err = g.Fail(opTeam, &coll.LeftError{Member: members[0]})
	}
	return nil, err
}

// join makes a team and a communicator twins.
func join(team, comm any) {
	t, teamLives := bridge.TeamHandle(team)
	c, commLives := bridge.CommHandle(comm)
	g, errTeam := bridge.OfTeam(opTeam, t)
	r, errComm := bridge.OfComm(opComm, "", c)
	if errTeam == nil && errComm == nil { // another goroutine may have ended one of them meanwhile
		g.Twin.Set(c, commLives)
		r.Twin.Set(t, teamLives)
	}
}

// TeamOf returns a team of the ranks of a communicator, in their order, on any nodes. The team is tolerant of failures if mode
// is shmem.ModeTolerant, otherwise strict, and does not depend on the communicator. The caller destroys it
// (shmem.Team.Destroy).
//
// A communicator has one team at a time: until that is destroyed, further calls return the same one if its mode is the one that is asked for; with
// shmem.ModeDefault, any mode is. CommOf of it returns the communicator. A communicator of CommOf has the team that it was made of.
//
//   - Errors: as mpi.Comm.Split, also for a communicator whose team exists already; shmem.ErrFinalized when shmem is not
//     initialized; shmem.ErrArgument for an unknown mode; mpi.ErrMismatch for different modes, and where another rank gets one of these
//     errors; shmem.ErrTooMany for more than 61 teams of a process.
//   - Cost: four gathers of 16 bytes; one if the team exists already. An id of a team may stay taken if a rank dies in the call, or its context ends.
//   - Collective: over the communicator, with the same mode.
func TeamOf(c *mpi.Comm, mode shmem.Mode) (*shmem.Team, error) {
	const op = "TeamOf"
	r, err := bridge.OfComm(opComm, "interop.TeamOf", c)
	var refused error
	switch {
	case mode > shmem.ModeStrict:
		refused = fmt.Errorf("interop.%s: mode %d, want ModeDefault, ModeTolerant or ModeStrict: %w", op, uint8(mode), shmem.ErrArgument)
	case !shmem.Initialized():
		refused = fmt.Errorf("interop.%s: shmem is not initialized, or is finalized; call shmem.Init first: %w", op, shmem.ErrFinalized)
	}
	if err != nil {
		if refused == nil {
			refused = fmt.Errorf("interop.%s: %w", op, err)
		}
		return nil, refused
	}
	mine, old := offerOf(mode), twinFor(&r, mode)
	if refused != nil {
		mine[0] = asksRefused
	} else if old != nil {
		mine[0] |= asksOld
	}
	all, err := r.Gather(mine) // also if it is refused here: the others wait
	switch {
	case refused != nil:
		return nil, refused
	case err != nil:
		return nil, fmt.Errorf("interop.%s: %w", op, err)
	}
	every := asksOld
	for rank, w := range all {
		every &= w[0]
		if w[0] == asksRefused {
			return nil, fmt.Errorf("interop.%s: rank %d was refused: it gave an invalid mode, or has not initialized shmem: %w", op, rank, mpi.ErrMismatch)
		}
		if w[0]&^asksOld != mine[0]&^asksOld {
			return nil, fmt.Errorf("interop.%s: called with %v here, want the same mode on all ranks; rank %d gave another one: %w", op, mode, rank, mpi.ErrMismatch)
		}
	}
	if every == asksOld {
		if r.Ctx != nil {
			old = old.With(r.Ctx)
		}
		return old, nil
	}
	t, err := bridge.NewTeam(r.PEs, mode == shmem.ModeTolerant, all[0][1], r.Gather)
	if err != nil {
		return nil, fmt.Errorf("interop.%s: %w", op, err)
	}
	join(t, c)
	return t.(*shmem.Team), nil //nolint:errcheck,forcetypeassert // bridge returns no other type
}

// What a rank asks for in TeamOf: the mode plus 1, and asksOld if it has such a team already. asksRefused: its call is refused.
const (
	asksOld     uint64 = 1 << 8
	asksRefused uint64 = 1 << 9
)

// offerOf returns what a rank tells the others in TeamOf: what it asks for, and a random number. That of the first rank names the team.
func offerOf(mode shmem.Mode) bridge.Words {
	return bridge.Words{uint64(mode) + 1, rand.Uint64()}
}

// twinFor returns the team of a communicator that TeamOf is to return, or nil.
func twinFor(r *bridge.Ranks, mode shmem.Mode) *shmem.Team {
	t, _ := r.Twin.Get().(*shmem.Team)
	if t == nil {
		return nil
	}
	config, err := t.Config()
	if err != nil || mode != shmem.ModeDefault && mode != config.Mode {
		return nil
	}
	// After Validate, a communicator has fewer ranks.
	if g, err := bridge.OfTeam(opTeam, t); err != nil || !slices.Equal(g.PEs, r.PEs) {
		return nil
	}
	return t
}

// BarrierAll completes all one-sided operations of this PE on the world's context, and returns when all ranks of the communicator have called it: what any of them has
// written before is in its place. It does not complete requests of mpi.
//
//   - Errors: those of shmem.Ctx.Quiet and of mpi.Comm.Barrier. A rank whose operations have failed meets the others all the same.
//   - Collective: over the communicator.
//   - Source: shmem_barrier_all and MPI_Barrier.
func BarrierAll(w *shmem.World, c *mpi.Comm) error {
	return errors.Join(w.Ctx().Quiet(), c.Barrier())
}

// Quiet returns a request that is complete when all one-sided operations are that this goroutine has called on the context: shmem.Ctx.Quiet as a request of
// mpi. So they can be waited for with messages, and be in a transaction (package mpi/ft).
//
//   - Errors: those of shmem.Ctx.Quiet, from Wait. Request.Cancel ends the wait.
//   - Concurrent calls: allowed.
func Quiet(c *shmem.Ctx) mpi.Request {
	return mpi.Go(func(ctx context.Context) error { return c.With(ctx).Quiet() })
}

// Property is something that programs with both packages may rely on.
type Property int

// The properties.
const (
	SamePEs          Property = iota // rank i of mpi's World.Comm is PE i of shmem's World
	SharedProgress                   // waits of either package make progress for the other one
	HeapInMessages                   // slices of the symmetric heap may be buffers of messages and of mpi's collectives
	OneFailureView                   // a death that one package has reported is known to the other
	AnyInitOrder                     // Init and Finalize of both may be called in any order, nested, and again
	MixedAtomics                     // shmem's atomics and mpi's operations may work on one datum at a time
	BarrierCompletes                 // mpi.Comm.Barrier completes operations of shmem
)

// Query reports whether a program may rely on a property: all but MixedAtomics and BarrierCompletes.
//
//   - Source: shmem_query_interoperability, proposed for OpenSHMEM.
func Query(p Property) bool {
	switch p {
	case SamePEs, SharedProgress, HeapInMessages, OneFailureView, AnyInitOrder:
		return true
	case MixedAtomics, BarrierCompletes:
	}
	return false
}

// AckFailed acknowledges all known deaths in both packages: waits of shmem go on, and so do receives of the
// communicator from any source. It returns the PEs that have died.
//
//   - Concurrent calls: allowed.
func AckFailed(w *shmem.World, c *mpi.Comm) []int {
	c.AckFailed()
	return w.AckFailed()
}
