package coll

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/symheap/layout"
)

// Errors of Split.
var (
	// ErrNoID reports that the PEs have as many teams as they can.
	ErrNoID = fmt.Errorf("no team id is free with all PEs, of %d", layout.MaxTeams-firstFree)
	// ErrMembers is the cause of every *MembersError.
	ErrMembers = errors.New("bad list of members")
)

// Fault says what is wrong with a list of members.
type Fault uint32

// The faults.
const (
	NoFault       Fault = iota
	OutOfRange          // an index is none of the parent's
	Twice               // an index stands there twice
	WithoutItself       // a member is not in its own list
	Differs             // members of one group have not given the same list, or mode
	Elsewhere           // a member called another collective
)

var faults = [...]string{
	OutOfRange:    "has an index outside the parent team",
	Twice:         "has a member twice",
	WithoutItself: "does not contain the PE that gave it",
	Differs:       "differs from that of another member of the same group",
	Elsewhere:     "is missing: it called another collective",
}

// MembersError reports a list of members that is no group. All members of the parent
// get the same one.
type MembersError struct {
	Member int // of the parent, whose list it is
	Fault  Fault
}

// Error says what is wrong.
func (e *MembersError) Error() string {
	return fmt.Sprintf("the list of members from member %d of the parent %s", e.Member, faults[e.Fault])
}

// Unwrap returns ErrMembers.
func (e *MembersError) Unwrap() error { return ErrMembers }

// offer is what a member tells all others of the parent, in its slot: first which ids are free
// with it, then whether it has claimed the one that was chosen.
type offer struct {
	seq, check uint64 // the step, and its complement with the kind of offer in it
	fault      Fault  // what is wrong with the member's list, or Elsewhere for a claim that failed
	size       uint32 // members of the group that the member is to be in; 0: it is to be in none
	group      uint64 // hash of the list and the mode
	free       uint64 // a bit for each id that is free with the member
	top        uint64 // the greatest sequence number that the member has had with any id
}

// The kinds of offers. No user data and no record of Same has such a check.
const (
	ofGroup = 0x6f66667267 << iota
	ofClaim
)

const (
	offerBytes = int(unsafe.Sizeof(offer{}))
	mostTries  = 64
)

// groupMaker makes groups of the members of a team. Offers and claims go through the parent's slots
// (Split), or through its votes (Survivors). ids.go argues why an id can be used again.
//
//   - Owns: nothing that outlives the call.
//   - Writes: this member's offers in the parent; after a claim, its words Seq and Used, its votes
//     and, if it is the group's first member, the group's arrival words.
type groupMaker struct {
	parent   *Team
	tolerant bool // of the group
}

// Split makes groups of the members of a team. Each member gives the members of the group
// that it is to be in, as indices in the parent in the order of the group. All members of a group
// give the same list. A member that gives none is in no group, and gets nil. Groups of one call do
// not overlap.
//
// It is a collective over the parent and strict: if a member has died, all survivors
// get a *DeadError. They all get the same *MembersError for lists that are no groups,
// and ErrNoID if there are too many teams. Then no group was made.
func Split(ctx context.Context, parent *Team, members []int, tolerant bool) (*Team, error) {
	m := groupMaker{parent, tolerant}
	mine := offer{size: uint32(len(members)), group: hashMembers(members, tolerant), fault: m.findFault(members)}
	held := false // this member held an id in the last try, which is free when all have met once more
	for try := range mostTries {
		mine.free, mine.top = m.offerableIDs(len(members) > 0)
		seq, err := m.exchangeOffer(ctx, mine, ofGroup)
		if err != nil {
			return nil, err
		}
		free, top, err := m.mergeOffers(seq)
		if err != nil {
			return nil, err
		}
		id := chooseID(free, parent.id, try)
		if id < 0 && held {
			held = false
			continue
		}
		if id < 0 {
			return nil, ErrNoID
		}
		t, claimed := m.claimID(members, id, top+1)
		if !claimed {
			mine.fault = Elsewhere
		}
		step := parent.state.Seq + 1
		if seq, err = m.exchangeOffer(ctx, mine, ofClaim); err != nil {
			order, made := slices.Clone(members), false
			if !parent.survives(err) { // of a death that it survives, all members find the same
				parent.markWithdrawn(step)
				made = len(order) > 0 && m.hasClaimed(order[0], step)
			}
			t.abandonGroup(made, func(i int) bool { return atomic.LoadUint64(parent.word(order[i])) >= step })
			return nil, err
		}
		if _, _, err = m.mergeOffers(seq); err == nil {
			return t, nil
		}
		t.Release()
		mine.fault, held = NoFault, true
	}
	return nil, ErrNoID
}

// hashMembers returns a word that tells lists and modes from each other.
func hashMembers(members []int, tolerant bool) uint64 {
	h := uint64(len(members)) << 1
	if tolerant {
		h |= 1
	}
	for _, m := range members {
		h = mix(h ^ uint64(m))
	}
	return h
}

// mix is the output function of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// findFault returns what is wrong with a list that this member gives.
func (m groupMaker) findFault(members []int) Fault {
	if len(members) == 0 {
		return NoFault
	}
	seen := make([]bool, len(m.parent.members))
	for _, i := range members {
		switch {
		case i < 0 || i >= len(seen):
			return OutOfRange
		case seen[i]:
			return Twice
		}
		seen[i] = true
	}
	if !seen[m.parent.me] {
		return WithoutItself
	}
	return NoFault
}

// exchangeOffer gives an offer to all members of the parent, and returns the step in which all
// offers can be read. If a member's offer is missing, it fails on all survivors.
func (m groupMaker) exchangeOffer(ctx context.Context, o offer, kind uint64) (uint64, error) {
	t := m.parent
	o.seq = t.state.Seq + 1
	o.check = ^o.seq ^ kind
	seq, err := t.exchange(ctx, unsafe.Slice((*byte)(unsafe.Pointer(&o)), offerBytes))
	if err != nil {
		return 0, err
	}
	if err := t.checkWithdrawn(seq); err != nil {
		t.breakTeam()
		return 0, err
	}
	return seq, t.Whole() // the parent may be tolerant
}

// hasClaimed says whether member i has entered a step of claims with a claim that is good. Its
// offer stays there, as a member has given the step up.
func (m groupMaker) hasClaimed(i int, seq uint64) bool {
	if atomic.LoadUint64(m.parent.word(i))&^marks < seq {
		return false
	}
	o := (*offer)(m.parent.contributionOf(i, seq, offerBytes))
	return o.seq == seq && o.check == ^seq^ofClaim && o.fault == NoFault
}

// mergeOffers returns which ids are free with all members that have made offers in a step, and the
// highest sequence number. Or it returns what is wrong, the same on all members.
func (m groupMaker) mergeOffers(seq uint64) (free, top uint64, err error) {
	t := m.parent
	free = ^uint64(0)
	came := map[uint64]uint32{} // members of each group
	for i := range t.members {
		o := (*offer)(t.contributionOf(i, seq, offerBytes))
		if o.seq != seq || o.check != ^seq^ofGroup && o.check != ^seq^ofClaim {
			return 0, 0, &MembersError{Member: i, Fault: Elsewhere}
		}
		if o.fault != NoFault {
			return 0, 0, &MembersError{Member: i, Fault: o.fault}
		}
		free &= o.free
		top = max(top, o.top)
		if o.size > 0 {
			came[o.group]++
		}
	}
	// Each member is in its own list. So the members that gave one list are members of that
	// group; if they are as many as the list has, they are all of it.
	for i := range t.members {
		if o := (*offer)(t.contributionOf(i, seq, offerBytes)); o.size > 0 && came[o.group] != o.size {
			return 0, 0, &MembersError{Member: i, Fault: Differs}
		}
	}
	return free, top, nil
}

// Vote is an agreement among the members of a team that live. All return the same: the AND of the
// flags that the members have given, and the members that have given none as they are dead.
//
// It goes by Agree on that team: after a Vote that failed, the members' votes there say which
// members are past it.
type Vote func(ctx context.Context, flags uint64) (all uint64, failed []int, err error)

// Numbering is what the members of a group find while they make it: a number above all that any of them has known.
type Numbering struct {
	Known   func() uint64                    // the greatest number that this member has known
	IsTaken func(id int, number uint64) bool // whether this member has had an id with a number meanwhile

	// Once this member has claimed the group's id: the number and the id. They are set even if the group is not made in the end.
	Number uint64
	ID     int
}

// Survivors makes a group of the members of a team that live, in the same order, also
// of a team that has been given up. All of them call it and get the same group.
func Survivors(ctx context.Context, parent *Team, vote Vote, tolerant bool) (*Team, error) {
	return NumberedSurvivors(ctx, parent, vote, tolerant, nil)
}

// NumberedSurvivors is Survivors of a group whose members also find a number. All members give a Numbering, or none does.
func NumberedSurvivors(ctx context.Context, parent *Team, vote Vote, tolerant bool, n *Numbering) (*Team, error) {
	g, votes := groupMaker{parent, tolerant}, parent.votes()
	held := false // as in Split
	for try := 0; try < mostTries; {
		free, top := g.offerableIDs(true)
		if n != nil {
			atomic.StoreUint64(&parent.members[parent.me].Floors[parent.id], n.Known())
		}
		atomic.StoreUint64(&parent.state.Offer, top)
		free, failed, err := vote(ctx, free)
		if err != nil {
			return nil, err
		}
		id := chooseID(free, parent.id, try)
		if id < 0 && held {
			held = false
			continue
		}
		if id < 0 {
			return nil, ErrNoID
		}
		var members []int
		known := uint64(0)
		for i, m := range parent.members {
			if !slices.Contains(failed, i) {
				members = append(members, i)
				top = max(top, atomic.LoadUint64(&m.Teams[parent.id].Offer))
				known = max(known, atomic.LoadUint64(&m.Floors[parent.id]))
			}
		}
		t, claimed := g.claimID(members, id, top+1)
		if n != nil && claimed {
			if n.IsTaken(id, known+1) {
				t.Release()
				t, claimed = nil, false
			} else {
				n.Number, n.ID = known+1, id
			}
		}
		flags := uint64(0)
		if claimed {
			flags = 1
		}
		voted := votes.latest() + 1
		flags, after, err := vote(ctx, flags)
		if err == nil && votes.givenUpIn(voted) {
			err = ErrBroken
		}
		if err != nil {
			first := votes.of(members[0], voted)
			made := atomic.LoadUint64(&first.Seq)&^marks == voted && first.Flags&1 != 0
			t.abandonGroup(made, func(i int) bool { return atomic.LoadUint64(&votes.of(members[i], voted).Seq) >= voted })
			return nil, err
		}
		if flags&1 != 0 && slices.Equal(failed, after) {
			return t, nil
		}
		t.Release()
		if held = true; slices.Equal(failed, after) {
			try++ // and not for one more that has died meanwhile
		}
	}
	return nil, ErrNoID
}
