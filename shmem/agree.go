package shmem

import (
	"context"

	"github.com/goshmem/goshmem/coll"
)

// Outcome lists the PEs of a collective by their numbers in the team, ascending.
type Outcome struct {
	Contributors []int // PEs whose data are in the result: all that called it; of a broadcast, the root alone
	Failed       []int // PEs that died before they called it
}

// Outcome describes the latest collective on the team that has returned on this PE, either without an error or
// because the root of a broadcast is dead. It is the same on all PEs on which that collective has returned. In the
// destinations of FCollect, Alltoall and AlltoallS, the blocks of failed PEs stay as they were; Collect leaves no gap
// for them.
//
// Allocation and the making of teams are collectives too.
//
//   - Cost: none for the collective; two slices for this call.
//   - Source: none; like MPI's MPIX_Comm_get_failed.
func (t *Team) Outcome() Outcome {
	if t.checkUsable("Team.Outcome") != nil {
		return Outcome{}
	}
	if t.upper != nil {
		return t.group.outcomeSpanning()
	}
	o := t.coll.Outcome()
	return Outcome{Contributors: o.Contributors, Failed: o.Failed}
}

// Agree returns the bitwise AND of the flags that the living PEs of the team passed. The result is the same on all of
// them, whichever PEs die meanwhile. Agree works in every mode of the team, also when a member has died, and when the
// team is broken.
//
//   - Cost: less than a reduction of one element.
//   - Errors: ErrTeamBroken and the end of the team's With, if an Agree, Validate or Shrink has ended so; *PEError
//     with ErrPEFinalized.
//   - Collective: over the PEs of the team that live.
//   - Source: none; MPI's MPIX_Comm_agree.
func (t *Team) Agree(flags uint64) (uint64, error) {
	a, err := t.runAgreement("Team.Agree", flags)
	return a.Flags, err
}

// Validate returns the PEs of the team that have died, ascending. The list is the same on all living PEs, and has
// every death that one of them knew when it called Validate.
//
//   - Cost: as Agree.
//   - Errors: as Agree.
//   - Collective: over the PEs of the team that live.
//   - Source: none; like MPI's MPIX_Comm_agree with MPIX_Comm_get_failed.
func (t *Team) Validate() (failed []int, err error) {
	a, err := t.runAgreement("Team.Validate", 0)
	return a.Failed, err
}

// runAgreement is Agree and Validate.
func (t *Team) runAgreement(op string, flags uint64) (coll.Agreement, error) {
	if err := t.checkUsable(op); err != nil {
		return coll.Agreement{}, err
	}
	if err := t.compareIfPossible(op); err != nil {
		return coll.Agreement{}, err
	}
	a, err := agree(t.ctx, t, flags)
	if len(a.Failed) > 0 {
		t.h.alertLayers()
	}
	return a, t.publicError(op, err)
}

// Shrink makes a team of the living PEs of the team, in the same order and with the same mode. It works whenever
// Agree does. A PE that dies during the call is in the new team on all PEs, or on none.
//
//   - Errors: ErrTooMany; those of Agree.
//   - Collective: over the PEs of the team that live.
//   - Source: none; MPI's MPIX_Comm_shrink.
func (t *Team) Shrink() (*Team, error) {
	const op = "Team.Shrink"
	if err := t.checkUsable(op); err != nil {
		return nil, err
	}
	if err := t.compareIfPossible(op); err != nil {
		return nil, err
	}
	c := TeamConfig{Mode: t.group.config.Mode}
	n, err := survivors(t, c.Mode == ModeTolerant)
	if err != nil {
		return nil, t.publicError(op, err)
	}
	if n.Size() < t.NPEs() {
		t.h.alertLayers()
	}
	return registerTeam(t.h, n, numbersOf(n.PEs()), c), nil
}

// agree is an agreement of the team.
func agree(ctx context.Context, t *Team, flags uint64) (coll.Agreement, error) {
	if t.upper != nil {
		return t.upper.Agree(ctx, flags)
	}
	return coll.Agree(ctx, t.coll, flags)
}

// survivors makes a team of the members that live.
func survivors(t *Team, tolerant bool) (member, error) {
	if t.upper != nil {
		return madeMember(t.upper.Survivors(t.ctx, tolerant))
	}
	vote := func(ctx context.Context, flags uint64) (uint64, []int, error) {
		a, err := coll.Agree(ctx, t.coll, flags)
		return a.Flags, a.Failed, err
	}
	return coll.Survivors(t.ctx, t.coll, vote, tolerant)
}
