package coll

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// The ids of teams that are there without Split, which gives the others.
const (
	ShmemWorld  = 0
	MPIWorld    = 1
	ShmemShared = 2
	firstFree   = 3
)

// # Groups and their ids
//
// A group has an id, which is free with all its members when it is made, and begins
// at a sequence number, start, that is greater than any that the members have had
// with any id. Its arrival words are set to start and its collectives count on from
// there. So is an id used again although somebody may still look at what the group
// before had there:
//
// The words lie in the first member's segment, the slots in each member's own. A PE
// frees an id when nobody looks at its slots any more, nor at the data beside its
// words, and nobody who looks at the words can be misled. That is so
//
//   - when a meeting has ended well behind which the team is not used (Dissolve): who
//     has entered it has done with all slots and votes, and all that live have. A slow
//     one may still be looking for all words to be at that step or beyond. They are, and
//     stay so, as whatever comes into them later is greater;
//   - otherwise when each other member has released the team or is dead, which is
//     read in their Used words: what names the group that is meant, or not, cannot
//     become the same again. Only a member that has given up its making looks first whether
//     the others are past the point where they claim it, as they may still come to mark their
//     words.
//
// Nobody writes into the words of a group that it has released, or that the others may
// have freed. A group whose making fails is released like any other, as one of its members
// may leave a mark in its word still.
//
// Before a group is made, only its first member writes its words, in its own segment and
// behind its own claim. Another member does not know whether the first one has claimed the id:
// that one may have given up behind its offer, or lost the id to another group.
//
// A member, x, that gives up in the step of the claims has entered it, so others may
// find all claims there and wait for x in the group. It leaves a mark in the parent's words
// or votes, and looks behind that whether the first member has claimed. If so, it marks its
// word in the group. If not, the first member claims behind that look and finds the mark in the
// parent, as does everybody who waits for its claim: the group is made for none of them.
//
// Splits of one PE may be under way at once, on different parents. None reserves
// anything while it waits for others: ids are offered, one is chosen from what was
// offered, and claimed by each. If a claim fails, as another Split was faster, all
// release theirs and choose once more, each parent another one. A claim fails as well if
// a member has had a group with the id since its offer: that one's numbers may be
// greater than all that were offered.

// ids guards the Used words of the PEs of this process.
var ids struct {
	sync.Mutex
	released map[*layout.Control][]*Team // teams that others may still use, by the PE
}

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

// offer is what a member tells all others of the parent.
type offer struct {
	seq, check uint64
	fault      Fault
	size       uint32 // of the group; 0: in none
	group      uint64 // hash of its list and mode
	free       uint64 // ids
	top        uint64 // no sequence number here was greater
}

// The kinds of offers: no user data and no record of Same has such a check.
const (
	ofGroup = 0x6f66667267 << iota
	ofClaim
)

const (
	offerBytes = int(unsafe.Sizeof(offer{}))
	mostTries  = 64
)

// Split makes groups of the members of a team. Each gives the members of the group
// that it is to be in, as indices in the parent in the order of the group, the same for all
// of them; none: it is in no group, and gets nil. Groups of one call do not overlap.
//
// It is a collective over the parent and strict: if a member has died, all survivors
// get a *DeadError. They all get the same *MembersError for lists that are no groups,
// and ErrNoID if there are too many teams. Then no group was made.
func Split(ctx context.Context, parent *Team, members []int, tolerant bool) (*Team, error) {
	mine := offer{size: uint32(len(members)), group: fingerprint(members, tolerant), fault: parent.faultOf(members)}
	held := false // an id of the last try, which nobody holds any more when all have met once more
	for try := range mostTries {
		mine.free, mine.top = parent.available(len(members) > 0)
		seq, err := parent.tell(ctx, mine, ofGroup)
		if err != nil {
			return nil, err
		}
		free, top, err := parent.judge(seq)
		if err != nil {
			return nil, err
		}
		id := choose(free, parent.id, try)
		if id < 0 && held {
			held = false
			continue
		}
		if id < 0 {
			return nil, ErrNoID
		}
		t, claimed := parent.claim(members, id, top+1, tolerant)
		if !claimed {
			mine.fault = Elsewhere
		}
		step := parent.state.Seq + 1
		if seq, err = parent.tell(ctx, mine, ofClaim); err != nil {
			order, made := slices.Clone(members), false
			if !parent.survives(err) { // of a death that it survives, all members find the same
				parent.withdraw(step)
				made = len(order) > 0 && parent.hasClaimed(order[0], step)
			}
			t.abandon(made, func(i int) bool { return atomic.LoadUint64(parent.word(order[i])) >= step })
			return nil, err
		}
		if _, _, err = parent.judge(seq); err == nil {
			return t, nil
		}
		t.Release()
		mine.fault, held = NoFault, true
	}
	return nil, ErrNoID
}

// fingerprint tells lists from each other.
func fingerprint(members []int, tolerant bool) uint64 {
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

// faultOf says what is wrong with a list that this member gives.
func (t *Team) faultOf(members []int) Fault {
	if len(members) == 0 {
		return NoFault
	}
	seen := make([]bool, len(t.members))
	for _, m := range members {
		switch {
		case m < 0 || m >= len(seen):
			return OutOfRange
		case seen[m]:
			return Twice
		}
		seen[m] = true
	}
	if !seen[t.me] {
		return WithoutItself
	}
	return NoFault
}

// tell gives an offer to all members of the parent and returns the step in which all
// can be read. It fails on all survivors if it has not come from everybody.
func (t *Team) tell(ctx context.Context, o offer, kind uint64) (uint64, error) {
	o.seq = t.state.Seq + 1
	o.check = ^o.seq ^ kind
	seq, err := t.exchange(ctx, unsafe.Slice((*byte)(unsafe.Pointer(&o)), offerBytes))
	if err != nil {
		return 0, err
	}
	if err := t.intact(seq); err != nil {
		t.breakOff()
		return 0, err
	}
	return seq, t.Whole() // the parent may be tolerant
}

// withdraw says that this member has given the team up in step seq, if it has entered that.
func (t *Team) withdraw(seq uint64) {
	if atomic.LoadUint64(t.word(t.me))&^marks == seq {
		atomic.OrUint64(t.word(t.me), withdrew|gaveUp)
	}
}

// hasClaimed says whether member i has entered a step of claims with a good one. Its offer
// there stays, as a member has given the step up.
func (t *Team) hasClaimed(i int, seq uint64) bool {
	if atomic.LoadUint64(t.word(i))&^marks < seq {
		return false
	}
	o := (*offer)(t.slot(i, seq, offerBytes))
	return o.seq == seq && o.check == ^seq^ofClaim && o.fault == NoFault
}

// judge returns which ids are free with all who have made offers in a step, and the
// highest sequence number; or what is wrong, the same for all.
func (t *Team) judge(seq uint64) (free, top uint64, err error) {
	free = ^uint64(0)
	came := map[uint64]uint32{} // members of each group
	for i := range t.members {
		o := (*offer)(t.slot(i, seq, offerBytes))
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
	// Each member is in its own list, so those who gave one list are members of that
	// group; if they are as many, they are all.
	for i := range t.members {
		if o := (*offer)(t.slot(i, seq, offerBytes)); o.size > 0 && came[o.group] != o.size {
			return 0, 0, &MembersError{Member: i, Fault: Differs}
		}
	}
	return free, top, nil
}

// choose returns the id for a try, -1 if none is free: the lowest, and after a failed
// try another one for each parent.
func choose(free uint64, parent, try int) int {
	n := bits.OnesCount64(free)
	if n == 0 {
		return -1
	}
	if try > 0 {
		for range mix(uint64(parent)<<32|uint64(try)) % uint64(n) {
			free &= free - 1
		}
	}
	return bits.TrailingZeros64(free)
}

// available returns the ids that are free in this PE, all for one that is to be in no
// group, and the highest sequence number that it has had.
func (t *Team) available(member bool) (free, top uint64) {
	ids.Lock()
	defer ids.Unlock()
	me := t.members[t.me]
	sweep(me)
	for id := range me.Teams {
		if top = max(top, me.Teams[id].Seq); id >= firstFree && (!member || me.Teams[id].Used == 0) {
			free |= 1 << id
		}
	}
	return free, top
}

// claim makes a group with an id, for this PE, unless the id is no longer free or was in
// use since it was offered. It is good when all have claimed it. Nil: this PE is to be in none.
func (t *Team) claim(members []int, id int, start uint64, tolerant bool) (*Team, bool) {
	if len(members) == 0 {
		return nil, true
	}
	ids.Lock()
	defer ids.Unlock()
	state := &t.members[t.me].Teams[id]
	if state.Used != 0 || state.Seq >= start {
		return nil, false
	}
	c := Config{
		Map: t.segments, Waiter: t.w, Failures: t.failures, Me: slices.Index(members, t.me), ID: id, Tolerant: tolerant,
	}
	for _, m := range members {
		c.Members = append(c.Members, t.pes[m])
	}
	state.Seq = start
	g, err := New(c)
	if err != nil {
		return nil, false // it cannot be: all arguments are good
	}
	g.began = start
	if g.me == 0 {
		g.resetWords(start)
	}
	g.resetVotes(start)
	atomic.StoreUint64(&state.Used, start)
	return g, true
}

// resetWords lets a group count on from a step. All words are in this member's segment.
func (t *Team) resetWords(start uint64) {
	for i := range t.members {
		atomic.StoreUint64(t.word(i), start)
	}
}

// abandon releases a group whose making has failed here. Others may not have come to claim it
// yet; claimed says whether a member has, or never will. If it may be made for others, they
// find that this member has left.
func (t *Team) abandon(made bool, claimed func(i int) bool) {
	if t == nil {
		return
	}
	t.claimed = claimed
	if made {
		t.Leave()
	}
	t.Release()
}

// shut makes all calls on the team fail.
func (t *Team) shut() {
	t.released.Store(true)
	t.broken.Store(true)
}

// Dissolve is the last collective of a team that Split made: it meets the others, as
// Sync does, and releases the team, however that ends. A team that another collective
// is under way on stays as it is.
//
// Who gives the meeting up by the end of its context leaves no mark in its word, unlike
// in other collectives: nobody waits for a later step, and when all others have met, the
// word may belong to another group already.
func (t *Team) Dissolve(ctx context.Context) error {
	seq, err := t.begin(1)
	if errors.Is(err, ErrConcurrent) {
		return err
	}
	if err == nil {
		if err = t.meet(ctx, seq); err == nil && t.began != 0 {
			t.free()
		}
		if err != nil {
			t.broken.Store(true)
		}
		rma.StoreRelease(&t.busy, 0) // not before the team is shut
	}
	if err != nil {
		t.Release()
	}
	return err
}

// free makes the id of a group free, whose members need it no more.
func (t *Team) free() {
	ids.Lock()
	defer ids.Unlock()
	t.shut()
	atomic.StoreUint64(&t.state.Used, 0)
}

// Release says that this PE will not use the team any more, without meeting anybody.
// Its id can be given again when all other members have said so or are dead. It does
// nothing to a team that Split has not made.
func (t *Team) Release() {
	if t == nil || t.began == 0 {
		return
	}
	ids.Lock()
	defer ids.Unlock()
	if t.released.Load() {
		return
	}
	t.shut()
	atomic.StoreUint64(&t.state.Used, t.began|layout.TeamReleased)
	if ids.released == nil {
		ids.released = map[*layout.Control][]*Team{}
	}
	me := t.members[t.me]
	ids.released[me] = append(ids.released[me], t)
	sweep(me)
}

// sweep frees the ids of the teams that a PE has released and nobody else uses. ids is
// locked.
func sweep(me *layout.Control) {
	kept := slices.DeleteFunc(ids.released[me], func(t *Team) bool {
		for i, m := range t.members {
			if i == t.me || t.dead(i) {
				continue
			}
			// In this order: who is past has stored its Used word before.
			if t.claimed != nil && !t.claimed(i) || atomic.LoadUint64(&m.Teams[t.id].Used) == t.began {
				return false
			}
		}
		atomic.StoreUint64(&t.state.Used, 0)
		return true
	})
	if len(kept) == 0 {
		delete(ids.released, me)
		return
	}
	ids.released[me] = kept
}

// givenUp says whether a member has given an agreement up that it had voted in, its latest one.
func (t *Team) givenUp(voted uint64) bool {
	for i := range t.members {
		if v := atomic.LoadUint64(&t.vote(i, voted).Seq); v&gaveUp != 0 && v&^marks == voted && t.votedOf(i) == voted {
			return true
		}
	}
	return false
}

// Vote is an agreement among the members of a team that live: all return the same, the
// flags that each of them has given, and who has given none as it is dead. It goes by Agree on
// that team: after one that failed, the members' votes there say who is past it.
type Vote func(ctx context.Context, flags uint64) (all uint64, failed []int, err error)

// Survivors makes a group of the members of a team that live, in the same order, also
// of a team that has been given up. All of them call it and get the same group.
func Survivors(ctx context.Context, parent *Team, vote Vote, tolerant bool) (*Team, error) {
	held := false // as in Split
	for try := 0; try < mostTries; {
		free, top := parent.available(true)
		atomic.StoreUint64(&parent.state.Offer, top)
		free, failed, err := vote(ctx, free)
		if err != nil {
			return nil, err
		}
		id := choose(free, parent.id, try)
		if id < 0 && held {
			held = false
			continue
		}
		if id < 0 {
			return nil, ErrNoID
		}
		var members []int
		for i, m := range parent.members {
			if !slices.Contains(failed, i) {
				members = append(members, i)
				top = max(top, atomic.LoadUint64(&m.Teams[parent.id].Offer))
			}
		}
		t, claimed := parent.claim(members, id, top+1, tolerant)
		flags := uint64(0)
		if claimed {
			flags = 1
		}
		voted := parent.voted() + 1
		flags, after, err := vote(ctx, flags)
		if err == nil && parent.givenUp(voted) {
			err = ErrBroken
		}
		if err != nil {
			first := parent.vote(members[0], voted)
			made := atomic.LoadUint64(&first.Seq)&^marks == voted && first.Flags&1 != 0
			t.abandon(made, func(i int) bool { return atomic.LoadUint64(&parent.vote(members[i], voted).Seq) >= voted })
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
