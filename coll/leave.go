package coll

import (
	"slices"
	"sync/atomic"

	"github.com/goshmem/goshmem/rma"
)

// Leave says that this member enters no further collective. A member that waits for it gets a
// *LeftError, or a *DeadError if a member is dead.
//
// A member that waits for a step which this one has not entered has entered that step itself.
// So Leave rings only members that are further on. Mostly there are none, and no page of
// another's bell or votes is touched for nothing: of many members, the first looks there take longer than
// all else that a short job ends with.
//
// No waiter is missed. The swap comes before the looks at the others' words. A member that goes to
// sleep arms its bell between its own word and its last look at this one. So either Leave
// sees its word, or it sees the mark.
//
// A member that has released the team has left it. Leave does nothing then, as the word may
// belong to another team by now.
func (t *Team) Leave() {
	if t.released.Load() {
		return
	}
	// The word and not state.Seq: a collective that failed has steps that this
	// member never entered.
	word := atomic.LoadUint64(t.word(t.me))
	entered := word &^ marks
	atomic.SwapUint64(t.word(t.me), left|word) // other marks matter to members that are in the last step still
	t.votes().mark(left)
	agreements, voted := atomic.LoadUint64(t.votes().voted()) != 0, t.votes().latest()
	for i, m := range t.members {
		if i != t.me && (atomic.LoadUint64(t.word(i))&^marks > entered || agreements && t.votes().latestOf(i) > voted) {
			rma.RingBell(&m.Bell)
		}
	}
}

// HasLeft says whether member i has left the team, or released one that Split made: it
// takes part in nothing any more. All that it stored before is visible then.
func (t *Team) HasLeft(i int) bool {
	if atomic.LoadUint64(t.word(i))&left != 0 {
		return true
	}
	return t.held.start != 0 && atomic.LoadUint64(&t.members[i].Teams[t.id].Used) != t.held.start
}

// Deserted says whether this member knows that no step will be entered by all members any
// more: a member, or itself, has given the team up, or has died.
func (t *Team) Deserted() bool {
	if t.broken.Load() {
		return true
	}
	for i := range t.members {
		if atomic.LoadUint64(t.word(i))&gaveUp != 0 || t.knownDead(i) {
			return true
		}
	}
	return false
}

// Rejoin takes Leave back, for successors of teams with the same members and ids. It does nothing
// for teams that no member has left yet. meet is a barrier among all their members by other means;
// Rejoin returns its error.
//
// Members of a team that was broken may have entered different numbers of steps and
// agreements. All go on from the greatest number. Between the two barriers these numbers stand
// still, but for those that become the greatest. The marks stay until then, for members that
// are still in an old collective.
func Rejoin(meet func() error, teams ...*Team) error {
	if !slices.ContainsFunc(teams, func(t *Team) bool { return t.HasLeft(t.me) }) {
		return nil
	}
	if err := meet(); err != nil {
		return err
	}
	for _, t := range teams {
		t.resumeAtLatest()
	}
	return meet()
}

// resumeAtLatest lets this member go on from the step and the agreement of the foremost member.
func (t *Team) resumeAtLatest() {
	seq, voted := uint64(0), uint64(0)
	for i, m := range t.members {
		seq, voted = max(seq, atomic.LoadUint64(&m.Teams[t.id].Seq)), max(voted, t.votes().latestOf(i))
	}
	atomic.StoreUint64(&t.state.Seq, seq)
	atomic.StoreUint64(t.word(t.me), seq)
	t.votes().reset(voted)
}

// Broken reports whether this member has given the team up.
func (t *Team) Broken() bool { return t.broken.Load() }

// GiveUp says that this member enters no further step of the team: members that wait for it, or would, get ErrBroken.
func (t *Team) GiveUp() { t.breakTeam() }

// GiveUpVotes says that this member enters no further agreement of the team: members that wait for it, or would, get
// ErrBroken.
func (t *Team) GiveUpVotes() {
	t.agreeBroken = true
	t.votes().mark(gaveUp)
	t.ringOthers()
}
