package spanning

import (
	"context"
	"errors"
	"slices"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/coll/span"
	"github.com/goshmem/goshmem/symheap/layout"
)

// status says why a node has no part of a team that is being made.
const (
	statusOK      uint32 = iota
	statusNoID           // the part has found no free id
	statusMembers        // the lists of the part's members are no groups
	statusNoTeam         // a new team is on too many nodes
)

// Made is a team that Split or Survivors has made: one of both fields is set, or none if this PE is in no team.
type Made struct {
	Near *coll.Team // all members are on this node
	Far  *Team      // the members are on several nodes
}

// Split makes teams of the members of a team. Each member gives the members of the team that it is to be in, as indices
// in this team in the order of the new one, or none. All members of a new team give the same list. Teams of one call do
// not overlap.
//
// The members on one node compare their lists. Those on several nodes do not: a call has as many lists as teams, and they do not fit into a
// step. If lists differ between nodes, members wait for others that have another team. So callers have to make lists of
// arguments that all members have compared before, as package shmem does: the same arguments make the same lists.
//
// kind is the call, which members compare. All members get the same error: coll.ErrNoID if too many teams exist, a
// *coll.MembersError for bad lists, or that of a step. It is strict: if a member has died, all get a *coll.DeadError.
func (t *Team) Split(ctx context.Context, kind uint64, members []int, tolerant bool) (Made, error) {
	if !t.busy.CompareAndSwap(false, true) {
		return Made{}, coll.ErrConcurrent
	}
	defer t.busy.Store(false)
	mine := span.Record{First: coll.Words{3: kind}}
	part, err := coll.Split(ctx, t.part, t.partOf(members), tolerant)
	bad, isMembers := errors.AsType[*coll.MembersError](err)
	var failed error
	switch {
	case err == nil:
	case errors.Is(err, coll.ErrNoID):
		mine.Status = statusNoID
	case isMembers:
		mine.Status, mine.Who = statusMembers, int32(t.local[bad.Member])<<faultBits|int32(bad.Fault)
	case isLate(err):
		return Made{}, t.giveUp(t.teamError(err))
	default: // members of other nodes find something else, or nothing
		failed = t.teamError(err)
	}
	pes, spans := t.membersOf(members)
	var far *Team
	if part != nil && spans && t.refusal() == nil { // described before the step: who uses the team relies on it
		if far, err = makeTeam(t, layout.UpperSteps, part, pes); err != nil {
			mine.Status = statusNoTeam
		}
	}
	d, err := t.meet(ctx, mine, nil, failed)
	if again, is := errors.AsType[*AgainError](err); is {
		err = &coll.DeadError{Members: again.Dead}
	} else if err == nil && len(d.failed) > 0 {
		err = &coll.DeadError{Members: d.failed}
	} else if err == nil {
		err = splitError(&d.Record)
	}
	switch {
	case err != nil && far != nil:
		Abandon(far)
		return Made{}, err
	case err != nil:
		abandonPart(part)
		return Made{}, err
	case spans:
		return Made{Far: far}, nil
	}
	return Made{Near: part}, nil
}

// abandonPart is Abandon for a team of this node; nil: there is none.
func abandonPart(part *coll.Team) {
	if part != nil {
		part.Leave()
		part.Release()
	}
}

// isLate says whether an error is the end of a wait of this member alone.
func isLate(err error) bool {
	_, is := errors.AsType[*coll.LateError](err)
	return is
}

// faultBits is the number of bits of record.who that a coll.Fault takes.
const faultBits = 8

// membersOf returns the PEs of a new team, and whether they are on several nodes.
func (t *Team) membersOf(members []int) (pes []layout.PE, spans bool) {
	here := 0
	for _, i := range members {
		if i < 0 || i >= len(t.pes) {
			continue // coll.Split finds it too, as partOf passes it on
		}
		pes = append(pes, t.pes[i])
		if _, is := slices.BinarySearch(t.local, i); is {
			here++
		}
	}
	return pes, here < len(members)
}

// partOf returns those of the members that are on this node, as indices in the part. An index outside of the team
// becomes one outside of the part.
func (t *Team) partOf(members []int) (part []int) {
	for _, i := range members {
		switch k, is := slices.BinarySearch(t.local, i); {
		case is:
			part = append(part, k)
		case i < 0 || i >= len(t.pes):
			part = append(part, -1)
		}
	}
	return part
}

// splitError returns the error of a Split whose members have decided r, the same on all of them.
func splitError(r *span.Record) error {
	switch {
	case r.Differs >= 0:
		return &DifferError{First: int(r.Member), Differs: int(r.Differs)}
	case r.Status == statusMembers:
		return &coll.MembersError{Member: int(r.Who) >> faultBits, Fault: coll.Fault(r.Who & (1<<faultBits - 1))}
	case r.Status == statusNoTeam:
		return ErrNodes
	case r.Status == statusNoID:
		return coll.ErrNoID
	}
	return nil
}
