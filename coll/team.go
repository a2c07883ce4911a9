package coll

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Team is one PE's side of a group. Collectives on it are called by all
// members in the same order, by one goroutine at a time.
type Team struct {
	slots                 // and in it steps, arrivals, roster: see the package documentation
	crowded  bool         // members take turns on the processors
	segments *symheap.Map // segments of all PEs of the node
	held     heldID       // the hold on its id, if Split or Survivors made the team
	scratch  scratch      // of ReduceValue
	peer     peer         // of a team of two members: see direct.go
	lending  lending      // of large exchanges
	folding  []uint64     // where a root combines what it may not combine in its destination
	homes    homes        // of exchanges by turns
	// agreeBroken says that an agreement of this member has failed. Agree returns ErrBroken from
	// then on.
	agreeBroken bool
}

// Member is a PE that is a member of a group. It lies on this node: the words of a group and its slots are
// in its members' segments.
type Member struct {
	Local layout.Local // index of its segment in the Map
	PE    layout.PE    // number in the job, by which the failure page names it
}

// MembersFrom returns the PEs of a sequence as members, in the same order.
func MembersFrom(pes iter.Seq2[layout.Local, layout.PE]) (members []Member) {
	for i, pe := range pes {
		members = append(members, Member{i, pe})
	}
	return members
}

// Config describes a group to New.
type Config struct {
	Map     *symheap.Map
	Waiter  *wait.Waiter
	Members []Member // PEs of this node, in the order of the group
	// Failures says which PEs have died; nil if no death is ever reported. The Waiter watches it.
	Failures *failure.View
	// Incarnation returns the incarnation of a member. Nil: the headers of the members' segments are read.
	// Steps do not call it before the first death of the job.
	Incarnation func(pe layout.PE) uint32
	Me          int // index in Members
	ID          int // of the team, the same for all members: 0 to MaxTeams-1
	// Tolerant makes collectives those of the members that live, the same for all
	// members; otherwise they fail when a member has died.
	Tolerant bool
}

// New returns the group. It does not communicate.
func New(c Config) (*Team, error) {
	if c.ID < 0 || c.ID >= layout.MaxTeams {
		return nil, fmt.Errorf("team id %d, want 0 to %d", c.ID, layout.MaxTeams-1)
	}
	if n := len(c.Members); n < 1 || n > layout.MaxLocal || c.Me < 0 || c.Me >= n {
		return nil, fmt.Errorf("team of %d members with this one at index %d, want 1 to %d", n, c.Me, layout.MaxLocal)
	}
	t := &Team{}
	t.me, t.id, t.tolerant, t.onlyContributor = c.Me, c.ID, c.Tolerant, -1
	t.waiter, t.failures, t.segments = c.Waiter, c.Failures, c.Map
	t.incarnation, t.where = c.Incarnation, slices.Clone(c.Members)
	for i, m := range c.Members {
		t.members = append(t.members, c.Map.Control(m.Local))
		t.everyone = append(t.everyone, i)
	}
	if c.Failures == nil {
		t.deadEpoch = math.MaxUint64 // nor do deaths end waits that the Waiter learns of
	}
	t.wordBase, t.wordStride = t.members[0].ArriveWords(c.ID, len(c.Members))
	if t.lineBytes = layout.EntrySize; len(c.Members) > layout.MaxEntries {
		t.lineBytes = -1
	}
	t.homes.of = make([]uint32, len(c.Members))
	t.state = &t.members[c.Me].Teams[c.ID]
	t.slotBytes = layout.SlotSize
	if t.crowded = c.Waiter.Crowded; !t.crowded {
		t.slotBytes = smallIdle
	}
	for seq := t.state.Seq; seq > 0 && seq+2 > t.state.Seq; seq-- {
		t.occupyCells(seq, layout.SlotSize) // an earlier Team of this id may have used any cell: take all for just written
		t.occupyCells(seq, 0)
	}
	return t, nil
}

// Size returns the number of members.
func (t *Team) Size() int { return len(t.members) }

// PEs returns the numbers of the members in the job, in the order of the group.
func (t *Team) PEs() []layout.PE {
	pes := make([]layout.PE, len(t.where))
	for i, m := range t.where {
		pes[i] = m.PE
	}
	return pes
}

// ID returns the team's id.
func (t *Team) ID() int { return t.id }

// Me returns this member's index.
func (t *Team) Me() int { return t.me }

// Tolerant says whether collectives are those of the members that live.
func (t *Team) Tolerant() bool { return t.tolerant }

// Sync returns when all members have called it. It completes no memory
// operation.
func (t *Team) Sync(ctx context.Context) error {
	seq, err := t.beginCollective(1)
	if err != nil {
		return err
	}
	err = t.meet(ctx, seq)
	t.endCollective(&err) // not deferred, as in exchange
	return err
}

// Outcome says which members a collective was made of.
type Outcome struct {
	// Contributors are the members whose data are in it, ascending: those that have
	// entered it, of a broadcast the root alone.
	Contributors []int
	// Failed are the members that died short of it, ascending.
	Failed []int
}

// Outcome returns that of the latest collective of this member that has returned
// without an error, or with the death of a broadcast's root. It is the same for all members
// that returned from it.
//
//   - Cost: none for the collective; here two slices.
func (t *Team) Outcome() (o Outcome) {
	for i := range t.members {
		switch {
		case t.onlyContributor >= 0 && t.onlyContributor != i:
		case t.hasEntered(i, t.firstStep):
			o.Contributors = append(o.Contributors, i)
		default:
			o.Failed = append(o.Failed, i)
		}
	}
	return o
}

// Whole returns a *DeadError if members died short of the latest collective. It is for callers
// that need every member.
func (t *Team) Whole() error {
	if t.dead == nil {
		return nil
	}
	if failed := t.Outcome().Failed; failed != nil {
		return &DeadError{Members: failed}
	}
	return nil
}
