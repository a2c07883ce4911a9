package shmem

import (
	"context"

	"github.com/goshmem/goshmem/coll"
)

// Outcome says of whom a collective was, by PE numbers of the team, ascending.
type Outcome struct {
	Contributors []int // whose data are in it: those that called it, of a broadcast the root alone
	Failed       []int // who died before that
}

// Outcome returns that of the latest collective on the team that has returned on this PE
// without an error, or with that of a broadcast's dead root. It is the same on all PEs that
// have returned from it. What belongs to a PE that failed stays as it was in the
// destinations of FCollect, Alltoall and AlltoallS; Collect closes the gap.
//
// Allocation and the making of teams are collectives too.
//
//   - Cost: none for the collective; here two slices.
//   - Source: none; of the kind of MPI's MPIX_Comm_get_failed.
func (t *Team) Outcome() Outcome {
	if t.usable("Team.Outcome") != nil {
		return Outcome{}
	}
	o := t.t.Outcome()
	return Outcome{Contributors: o.Contributors, Failed: o.Failed}
}

// Agree returns the AND of the flags that the living PEs of the team have given, the same
// on all of them, whoever dies meanwhile. It works in any mode of the team, also
// when a member has died, and when the team is broken.
//
//   - Cost: less than a reduction of one element.
//   - Errors: ErrTeamBroken and the end of the team's With when an Agree, Validate or
//     Shrink has ended so; *PEError with ErrPEFinalized.
//   - Collective: over the PEs of the team that live.
//   - Source: none; MPI's MPIX_Comm_agree.
func (t *Team) Agree(flags uint64) (uint64, error) {
	a, err := t.agree("Team.Agree", flags)
	return a.Flags, err
}

// Validate returns the PEs of the team that have died, ascending, the same on all that
// live: all of which any of these knew at its call are among them.
//
//   - Cost: as Agree.
//   - Errors: as Agree.
//   - Collective: over the PEs of the team that live.
//   - Source: none; of the kind of MPI's MPIX_Comm_agree with MPIX_Comm_get_failed.
func (t *Team) Validate() (failed []int, err error) {
	a, err := t.agree("Team.Validate", 0)
	return a.Failed, err
}

func (t *Team) agree(op string, flags uint64) (coll.Agreement, error) {
	if err := t.usable(op); err != nil {
		return coll.Agreement{}, err
	}
	if err := t.compareLiving(op); err != nil {
		return coll.Agreement{}, err
	}
	a, err := coll.Agree(t.ctx, t.t, flags)
	if len(a.Failed) > 0 {
		t.h.notice()
	}
	return a, t.fail(op, err)
}

// Shrink makes a team of the PEs of the team that live, in the same order and with the same
// mode; it works as Agree does. A PE that dies during the call is in the new team or not, for all
// alike.
//
//   - Errors: ErrTooMany; those of Agree.
//   - Collective: over the PEs of the team that live.
//   - Source: none; MPI's MPIX_Comm_shrink.
func (t *Team) Shrink() (*Team, error) {
	const op = "Team.Shrink"
	if err := t.usable(op); err != nil {
		return nil, err
	}
	if err := t.compareLiving(op); err != nil {
		return nil, err
	}
	c := TeamConfig{Mode: t.g.config.Mode}
	vote := func(ctx context.Context, flags uint64) (uint64, []int, error) {
		a, err := coll.Agree(ctx, t.t, flags)
		return a.Flags, a.Failed, err
	}
	n, err := coll.Survivors(t.ctx, t.t, vote, c.Mode == ModeTolerant)
	if err != nil {
		return nil, t.fail(op, err)
	}
	if n.Size() < t.NPEs() {
		t.h.notice()
	}
	return adopt(t.h, n, n.PEs(), c), nil
}
