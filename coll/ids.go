package coll

import (
	"context"
	"errors"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

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
// A group is a team that Split or Survivors makes. It has an id that is free with all its
// members when it is made. It begins at a sequence number, start, that is greater than any that
// the members have had with any id. Its arrival words are set to start, and its collectives
// count on from there. This is what makes reusing an id safe while a slow member still reads the
// old group's words.
//
// Where the words are: the arrival words lie in the first member's segment, the slots in each
// member's own. Each PE says in the word Used of its own layout.Team whether the id is free with
// it. Only the process of the PE writes Used, under the lock of ids.
//
// # When an id is free again
//
// A PE frees an id when no member looks at its slots any more, nor at the data beside its words,
// and no member that looks at the words can be misled. Two things show that:
//
//   - A meeting has ended well, and the team is not used after it (Dissolve). A member that has
//     entered the meeting has done with all slots and votes, and all members that live have entered
//     it. A slow member may still look whether all words are at that step or beyond. They are, and
//     stay so, as whatever comes into them later is greater.
//   - Otherwise, each other member has released the team or is dead. That is read in their Used
//     words: such a word names the group that is meant, or not, and once it does not, it never
//     does again. If this member has given up the making of the group, it looks first whether
//     the others are past the point where they claim the id, as they may still come to mark their
//     words.
//
// No member writes into the words of a group that it has released, or that the others may have
// freed. A group whose making fails is released like any other, as one of its members may still
// leave a mark in its word.
//
// # Who writes the words of a group that is being made
//
// Before a group is made, only its first member writes its arrival words: in its own segment, and
// after its own claim. Another member does not know whether the first one has claimed the id.
// The first one may have given up after its offer, or lost the id to another group.
//
// A member x that gives up in the step of the claims has entered that step. So others may find all
// claims there, and wait for x in the group. Therefore x leaves a mark in the parent's words or
// votes, and then looks whether the first member has claimed.
//
//   - The first member has claimed: x marks its word in the group.
//   - It has not: it claims after that look, and finds the mark in the parent, as does every member
//     that waits for its claim. The group is made for none of them.
//
// # Several Splits at once
//
// Splits of one PE may be under way at once, on different parents. None reserves anything while it
// waits for others: ids are offered, one is chosen from what was offered, and each member claims it.
// A claim fails in two cases. All members then release the id and choose once more, each parent
// another one.
//
//   - Another Split was faster and has the id.
//   - The PE has had a group with the id since its offer. That group's numbers may be greater than
//     all that were offered.

// ids guards the Used words of the PEs of this process.
var ids struct {
	sync.Mutex
	released map[*layout.Control][]*Team // teams that others may still use, by the PE
}

// heldID is a group's hold on its id. The zero value belongs to a team that Split has not made.
type heldID struct {
	start uint64 // the step at which the group began; 0 if the team is no group
	// pastClaim is set if this member has given up the making of the group. It says whether
	// member i will not claim the id any more. Nil: no member will.
	pastClaim func(i int) bool
}

// chooseID returns the id for a try, -1 if none is free: the lowest, and after a failed
// try another one for each parent.
func chooseID(free uint64, parent, try int) int {
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

// offerableIDs returns the ids that are free in this PE, and the highest sequence number that the
// PE has had. A member that is to be in no group offers all ids.
func (m groupMaker) offerableIDs(member bool) (free, top uint64) {
	return offerableIDs(m.parent.members[m.parent.me], member)
}

// offerableIDs returns the ids that are free in a PE of this process: see groupMaker.offerableIDs.
func offerableIDs(me *layout.Control, member bool) (free, top uint64) {
	ids.Lock()
	defer ids.Unlock()
	freeReleasedIDs(me)
	for id := range me.Teams {
		if top = max(top, me.Teams[id].Seq); id >= firstFree && (!member || me.Teams[id].Used == 0) {
			free |= 1 << id
		}
	}
	return free, top
}

// claimID makes a group with an id, for this PE. It fails if the id is no longer free, or was in
// use since it was offered. The group is good when all its members have claimed the id. Without
// members, this PE is to be in no group, and the group is nil.
func (m groupMaker) claimID(members []int, id int, start uint64) (*Team, bool) {
	if len(members) == 0 {
		return nil, true
	}
	p := m.parent
	c := Config{
		Map: p.segments, Waiter: p.waiter, Failures: p.failures, Incarnation: p.incarnation, Me: slices.Index(members, p.me), ID: id, Tolerant: m.tolerant,
	}
	for _, i := range members {
		c.Members = append(c.Members, p.where[i])
	}
	return claim(c, start)
}

// claim is claimID for a group with at least this member.
func claim(c Config, start uint64) (*Team, bool) {
	ids.Lock()
	defer ids.Unlock()
	state := &c.Map.Control(c.Members[c.Me].Local).Teams[c.ID]
	if state.Used != 0 || state.Seq >= start {
		return nil, false
	}
	atomic.StoreUint64(&state.Used, start) // before Seq: whoever finds that number there knows that this member has claimed the id (GiveUpFounding)
	atomic.StoreUint64(&state.Seq, start)
	g, err := New(c)
	if err != nil {
		atomic.StoreUint64(&state.Used, 0)
		return nil, false // it cannot be: all arguments are good
	}
	g.held.start = start
	if g.me == 0 {
		g.resetWords(start)
	}
	g.votes().reset(start)
	return g, true
}

// abandonGroup releases a group whose making has failed here. pastClaim says whether a member has
// claimed the id already, or never will. If the group may be made for others, they find that this
// member has left.
func (t *Team) abandonGroup(made bool, pastClaim func(i int) bool) {
	if t == nil {
		return
	}
	t.held.pastClaim = pastClaim
	if made {
		t.Leave()
	}
	t.Release()
}

// Dissolve is the last collective of a team that Split made: it meets the others, as
// Sync does, and releases the team, however that ends. A team that another collective
// is under way on stays as it is.
//
// A member whose context ends in the meeting leaves no mark in its word, unlike in other
// collectives. No member waits for a later step, and when all others have met, the word may
// already belong to another group.
func (t *Team) Dissolve(ctx context.Context) error {
	seq, err := t.beginCollective(1)
	if errors.Is(err, ErrConcurrent) {
		return err
	}
	if err == nil {
		if err = t.meet(ctx, seq); err == nil && t.held.start != 0 {
			t.freeID()
		}
		if err != nil {
			t.broken.Store(true)
		}
		rma.StoreRelease(&t.busy, 0) // not before the team is marked
	}
	if err != nil {
		t.Release()
	}
	return err
}

// freeID frees the id of a group whose members have all met in Dissolve.
func (t *Team) freeID() {
	ids.Lock()
	defer ids.Unlock()
	t.markReleased()
	atomic.StoreUint64(&t.state.Used, 0)
}

// Release says that this PE does not use the team any more, without meeting anybody.
// Its id can be given again when all other members have said so or are dead. It does
// nothing to a team that Split has not made.
func (t *Team) Release() {
	if t == nil || t.held.start == 0 {
		return
	}
	ids.Lock()
	defer ids.Unlock()
	if t.released.Load() {
		return
	}
	t.markReleased()
	atomic.StoreUint64(&t.state.Used, t.held.start|layout.TeamReleased)
	if ids.released == nil {
		ids.released = map[*layout.Control][]*Team{}
	}
	me := t.members[t.me]
	ids.released[me] = append(ids.released[me], t)
	freeReleasedIDs(me)
}

// freeReleasedIDs frees the ids of the teams that a PE has released and no other member uses. The
// caller holds the lock of ids.
func freeReleasedIDs(me *layout.Control) {
	kept := slices.DeleteFunc(ids.released[me], func(t *Team) bool {
		for i, m := range t.members {
			if i == t.me || t.knownDead(i) {
				continue
			}
			// In this order: a member that is past its claim has stored its Used word before.
			if t.held.pastClaim != nil && !t.held.pastClaim(i) || atomic.LoadUint64(&m.Teams[t.id].Used) == t.held.start {
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
