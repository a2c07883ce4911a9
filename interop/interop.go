// Package interop is for programs that use one-sided communication (package shmem) and
// messages (package mpi) side by side, in one job, on one heap.
//
// What both promise each other:
//
//   - Init and Finalize of both may be called in any order, nested and again: what a process
//     has once, as its mapped memory and its connection to oshrun, goes with the last
//     Finalize.
//   - Rank i of mpi's World.Comm is PE i of shmem's World, on every node, and CommOf and
//     TeamOf keep the order. So a rank can be used as a PE and the other way round.
//   - Slices of the symmetric heap (shmem.Sym.Local) are good buffers of messages and of
//     mpi's collectives: long messages are then copied once.
//   - All waits of a process make progress for messages, those of shmem too, and so do shmem's tests
//     in vain: Test, TestAll, TestAny, TestSome and Lock.Try, and SignalFetch. A loop that looks at memory by
//     other calls, such as AtomicFetch or Sym.Local, makes none. One-sided operations need none.
//   - mpi.Comm.Barrier completes no operation of shmem: call Ctx.Quiet before it, or
//     World.Barrier, which does both. A message that was sent after Quiet tells its
//     receiver that what came before Quiet is in place.
//   - There is one view of failures. A death that one package returns an error for is
//     known to the other at its next call. An acknowledgment concerns the waits of the
//     package that it was made to; AckFailed makes both.
package interop

import (
	"errors"
	"fmt"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/internal/bridge"
	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
)

// CommOf makes a communicator of the PEs of a team, in their order; it is strict, and to be
// freed (mpi.Comm.Free). It does not depend on the team any more.
//
// After a death, this is how survivors go on with collectives of mpi: Comm.Free the old
// communicator, shmem.Team.Shrink its team, and make a communicator of what is left.
//
//   - Errors: those of shmem.Team.SplitStrided; mpi.ErrFinalized when mpi is not initialized.
//   - Cost: a few barriers.
//   - Collective: over the team.
func CommOf(team *shmem.Team) (*mpi.Comm, error) {
	const op = "CommOf"
	if !mpi.Initialized() {
		return nil, fmt.Errorf("interop.%s: mpi is not initialized, or no longer, want mpi.Init before: %w", op, mpi.ErrFinalized)
	}
	g, err := bridge.OfTeam("Team.SplitStrided", team)
	if err != nil {
		return nil, fmt.Errorf("interop.%s: %w", op, err)
	}
	t, err := same(g, "Team.SplitStrided", false)
	if err != nil {
		return nil, fmt.Errorf("interop.%s: %w", op, err)
	}
	c, err := bridge.NewComm(g.Ctx, t)
	if err != nil {
		if !errors.Is(err, mpi.ErrFinalized) { // another goroutine has called Finalize meanwhile
			err = g.Fail("Team.SplitStrided", err) // the new team's members are those of the old one
		}
		return nil, fmt.Errorf("interop.%s: %w", op, err)
	}
	return c.(*mpi.Comm), nil //nolint:errcheck,forcetypeassert // it makes nothing else
}

// TeamOf makes a team of the ranks of a communicator, in their order; it is tolerant of
// failures if mode is shmem.ModeTolerant, otherwise strict, and to be destroyed (shmem.Team.Destroy). It
// does not depend on the communicator any more.
//
//   - Errors: those of mpi.Comm.Split; shmem.ErrFinalized when shmem is not initialized;
//     shmem.ErrArgument for a mode that is none; mpi.ErrMismatch for different modes.
//   - Cost: a few barriers.
//   - Collective: over the communicator, with the same mode.
func TeamOf(c *mpi.Comm, mode shmem.Mode) (*shmem.Team, error) {
	const op = "TeamOf"
	if !shmem.Initialized() {
		return nil, fmt.Errorf("interop.%s: shmem is not initialized, or no longer, want shmem.Init before: %w", op, shmem.ErrFinalized)
	}
	g, err := bridge.OfComm("Comm.Split", c)
	if mode > shmem.ModeStrict {
		if err == nil {
			_, _ = coll.Split(g.Ctx, g.Team, nil, false) // others wait for it, and get an error by this
		}
		return nil, fmt.Errorf("interop.%s: mode %d, want ModeDefault, ModeTolerant or ModeStrict: %w", op, uint8(mode), shmem.ErrArgument)
	}
	if err != nil {
		return nil, fmt.Errorf("interop.%s: %w", op, err)
	}
	t, err := same(g, "Comm.Split", mode == shmem.ModeTolerant)
	if errors.Is(err, mpi.ErrMismatch) {
		return nil, fmt.Errorf("interop.%s: called with %v here, want the same on all ranks: %w", op, mode, err)
	}
	if err != nil {
		return nil, fmt.Errorf("interop.%s: %w", op, err)
	}
	team, err := bridge.NewTeam(t)
	if err != nil {
		return nil, fmt.Errorf("interop.%s: %w", op, err)
	}
	return team.(*shmem.Team), nil //nolint:errcheck,forcetypeassert // it makes nothing else
}

// same splits a group with the same members off.
func same(g bridge.Group, op string, tolerant bool) (*coll.Team, error) {
	members := make([]int, g.Team.Size())
	for i := range members {
		members[i] = i
	}
	t, err := coll.Split(g.Ctx, g.Team, members, tolerant)
	if err != nil {
		return nil, g.Fail(op, err)
	}
	return t, nil
}

// AckFailed acknowledges all deaths that are known to both packages: waits of shmem and
// receives of the communicator from any source go on. It returns the PEs that have died.
//
//   - Concurrent calls: allowed.
func AckFailed(w *shmem.World, c *mpi.Comm) []int {
	c.AckFailed()
	return w.AckFailed()
}
