package flat

import (
	"context"
	"errors"
	"math/bits"
	"slices"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/coll/span"
	"github.com/goshmem/goshmem/symheap/layout"
)

// mostTries bounds how often Split tries another upper id.
const mostTries = 64

// Made is a team that Split has made: one of both fields is set, or none if this PE is in no team.
type Made struct {
	Near *coll.Team // all members are on this node
	Far  *Team      // the members are on several nodes
}

// Split makes teams of the members of a team. Each member gives the members of the team that it is to be in, as indices
// in this team in the order of the new one, or none. All members of a new team give the same list. Teams of one call do
// not overlap. A team on one node may be tolerant; one that spans nodes is strict.
//
// kind is the call, which members compare. All members get the same error: coll.ErrNoID if too many teams exist, a
// *coll.MembersError for bad lists, or that of a step.
func (t *Team) Split(ctx context.Context, kind uint64, members []int, tolerant bool) (Made, error) {
	pes, spans := t.membersOf(members)
	part, err := coll.Split(ctx, t.part, t.partOf(members), tolerant && !spans)
	mine := span.Record{First: coll.Words{3: kind}}
	bad, isMembers := errors.AsType[*coll.MembersError](err)
	switch {
	case errors.Is(err, coll.ErrNoID):
		mine.Status = statusNoID
	case isMembers:
		mine.Status, mine.Who = statusMembers, int32(t.local[bad.Member])<<faultBits|int32(bad.Fault)
	case err != nil:
		return Made{}, t.giveUp(t.teamError(err))
	}
	far, err := t.agreeOnID(ctx, mine, part, pes, spans)
	if err != nil || !spans {
		if err != nil {
			part.Release()
			part = nil
		}
		return Made{Near: part}, err
	}
	return Made{Far: far}, nil
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

// agreeOnID finds an upper id for the new teams of a Split, with all members of the parent. It returns this member's
// team if that spans nodes.
func (t *Team) agreeOnID(ctx context.Context, mine span.Record, part *coll.Team, pes []layout.PE, spans bool) (*Team, error) {
	for range mostTries {
		mine.And, mine.Top = t.p.offer(spans)
		r, err := t.step(ctx, mine)
		if err == nil {
			err = splitError(&r)
		}
		if err != nil {
			return nil, err
		}
		id, start := bits.TrailingZeros64(r.And), r.Top+1
		var far *Team
		claimed := true
		if spans {
			if claimed = t.p.claim(id, start); claimed {
				far, err = newTeam(t.p, part, pes, id, start)
			}
		}
		ask := span.Record{First: mine.First, And: 1, Top: start}
		switch {
		case err != nil:
			ask.Fault, ask.Who = broken, -1
		case !claimed:
			ask.And = 0
		}
		r, e := t.step(ctx, ask)
		switch {
		case e == nil && r.And&1 != 0:
			return far, nil
		case claimed && spans:
			t.p.free(id)
		}
		if err = errors.Join(err, e); err != nil {
			return nil, err
		}
	}
	return nil, coll.ErrNoID
}

// splitError returns the error of a Split whose members have decided r, the same on all of them.
func splitError(r *span.Record) error {
	switch {
	case r.Differs >= 0:
		return &coll.OtherError{Member: int(r.Differs)}
	case r.Status == statusMembers:
		return &coll.MembersError{Member: int(r.Who) >> faultBits, Fault: coll.Fault(r.Who & (1<<faultBits - 1))}
	case r.Status == statusNoID || r.And == 0:
		return coll.ErrNoID
	}
	return nil
}
