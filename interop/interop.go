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
//     which does both. A message that is sent after Quiet tells its receiver that the operations before
//     Quiet are complete.
//   - Failures: a death for which one package has returned an error is known to the other at its next call. An
//     acknowledgment concerns the waits of one package; AckFailed makes both.
package interop

import (
	"errors"
	"fmt"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/internal/bridge"
	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
)

// CommOf makes a communicator of the PEs of a team, in their order. The communicator is strict and does not
// depend on the team. The caller frees it (mpi.Comm.Free).
//
// By CommOf, survivors of a death go on with collectives of mpi: they free the old communicator, shrink its team
// (shmem.Team.Shrink), and make a communicator of the team that is left.
//
//   - Errors: as shmem.Team.SplitStrided; mpi.ErrFinalized when mpi is not initialized.
//   - Cost: a few barriers.
//   - Collective: over the team.
func CommOf(team *shmem.Team) (*mpi.Comm, error) {
	const op = "CommOf"
	if !mpi.Initialized() {
		return nil, fmt.Errorf("interop.%s: mpi is not initialized, or is finalized; call mpi.Init first: %w", op, mpi.ErrFinalized)
	}
	g, err := bridge.OfTeam("Team.SplitStrided", team)
	if err != nil {
		return nil, fmt.Errorf("interop.%s: %w", op, err)
	}
	t, err := duplicate(g, "Team.SplitStrided", false)
	if err != nil {
		return nil, fmt.Errorf("interop.%s: %w", op, err)
	}
	c, err := bridge.NewComm(g.Ctx, t)
	if err != nil {
		if !errors.Is(err, mpi.ErrFinalized) { // ErrFinalized: another goroutine has called Finalize meanwhile
			err = g.Fail("Team.SplitStrided", err) // the team has the members of the new one, by the same numbers
		}
		return nil, fmt.Errorf("interop.%s: %w", op, err)
	}
	return c.(*mpi.Comm), nil //nolint:errcheck,forcetypeassert // NewComm returns no other type
}

// TeamOf makes a team of the ranks of a communicator, in their order. The team is tolerant of failures if mode
// is shmem.ModeTolerant, otherwise strict, and does not depend on the communicator. The caller destroys it
// (shmem.Team.Destroy).
//
//   - Errors: as mpi.Comm.Split; shmem.ErrFinalized when shmem is not initialized; shmem.ErrArgument for an
//     unknown mode; mpi.ErrMismatch for different modes.
//   - Cost: a few barriers.
//   - Collective: over the communicator, with the same mode.
func TeamOf(c *mpi.Comm, mode shmem.Mode) (*shmem.Team, error) {
	const op = "TeamOf"
	if !shmem.Initialized() {
		return nil, fmt.Errorf("interop.%s: shmem is not initialized, or is finalized; call shmem.Init first: %w", op, shmem.ErrFinalized)
	}
	g, err := bridge.OfComm("Comm.Split", c)
	if mode > shmem.ModeStrict {
		if err == nil {
			_, _ = coll.Split(g.Ctx, g.Team, nil, false) // the other ranks wait for this call, and get an error by it
		}
		return nil, fmt.Errorf("interop.%s: mode %d, want ModeDefault, ModeTolerant or ModeStrict: %w", op, uint8(mode), shmem.ErrArgument)
	}
	if err != nil {
		return nil, fmt.Errorf("interop.%s: %w", op, err)
	}
	t, err := duplicate(g, "Comm.Split", mode == shmem.ModeTolerant)
	if errors.Is(err, mpi.ErrMismatch) {
		return nil, fmt.Errorf("interop.%s: called with %v here, want the same mode on all ranks: %w", op, mode, err)
	}
	if err != nil {
		return nil, fmt.Errorf("interop.%s: %w", op, err)
	}
	team, err := bridge.NewTeam(t)
	if err != nil {
		return nil, fmt.Errorf("interop.%s: %w", op, err)
	}
	return team.(*shmem.Team), nil //nolint:errcheck,forcetypeassert // NewTeam returns no other type
}

// duplicate splits off a team with the members of a group. Its errors have the form of the group's package.
func duplicate(g bridge.Group, op string, tolerant bool) (*coll.Team, error) {
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

// AckFailed acknowledges all known deaths in both packages: waits of shmem go on, and so do receives of the
// communicator from any source. It returns the PEs that have died.
//
//   - Concurrent calls: allowed.
func AckFailed(w *shmem.World, c *mpi.Comm) []int {
	c.AckFailed()
	return w.AckFailed()
}
