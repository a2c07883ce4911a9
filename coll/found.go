package coll

import "sync/atomic"

// # Groups without a parent
//
// Members that have no team in common make a group as Split does, but exchange their words by other means, such as messages:
//
//  1. Each offers the ids that are free with it (Founding.Offer). All choose the same one of those that are free with all (ChooseID).
//  2. Each claims it (Claim), and says whether it has.
//  3. If all have, each meets the others once more before it uses the group. Otherwise all release it, and try again.
//
// A member whose meeting fails gives the group up (GiveUpFounding). It does not know then how far the others have come:
//
//   - In 2, no other member uses the group, as that takes a further meeting with this one. But a slow member may still claim the id, and leave
//     a mark in the words of the first member, when it has met all others and its last meeting fails. So this one frees the id when it knows
//     that each other member has claimed it, or never will: its sequence number for the id is at the group's beginning or beyond. If neither
//     happens, as the member has failed before its claim, the id stays taken.
//   - In 3, all have claimed. Others may use the group, and wait for this one: it leaves a mark.

// Founding describes such a group to this member. Its ID is not used.
type Founding struct{ Config }

// Offer returns the ids that are free in this PE, a bit for each of them, and the highest sequence number that the PE has had.
func (f Founding) Offer() (free, top uint64) {
	return offerableIDs(f.Map.Control(f.Members[f.Me].Local), true)
}

// ChooseID returns the id for a try, of those that are free with all members, or -1 if there is none. Foundings with other seeds choose other ids after
// a try that failed. All members give the same.
func ChooseID(free, seed uint64, try int) int { return chooseID(free, int(seed&(1<<32-1)), try) }

// Claim makes the group with an id, for this PE. start is above the highest sequence number of all members. It fails if the id is not free any more.
func (f Founding) Claim(id int, start uint64) (*Team, bool) {
	f.ID = id
	return claim(f.Config, start)
}

// GiveUpFounding gives up a group that was claimed here. met says that this member knows that all others have claimed it.
func (t *Team) GiveUpFounding(met bool) {
	if met {
		t.abandonGroup(true, nil)
		return
	}
	t.abandonGroup(false, func(i int) bool { return atomic.LoadUint64(&t.members[i].Teams[t.id].Seq) >= t.held.start })
}
