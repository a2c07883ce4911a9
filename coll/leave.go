package coll

import (
	"slices"
	"sync/atomic"

	"github.com/goshmem/goshmem/rma"
)

// Leave says that this member will enter no further collective: whoever waits
// for it there gets a *LeftError, or a *DeadError if a member is dead.
//
// Who waits for a step that this member has not entered has entered that step
// itself, so only members that are further on are rung: mostly none, and the
// page of another's bell is not touched for nothing. The swap comes before the
// looks at their words, and a member that goes to sleep arms its bell between its
// own word and its last look at this one: either it is seen here, or it sees the
// mark.
//
// Who has released the team has left it: its word may be another one's by now.
func (t *Team) Leave() {
	if t.released.Load() {
		return
	}
	// The word and not state.Seq: a collective that failed has steps that this
	// member never entered.
	word := atomic.LoadUint64(t.word(t.me))
	entered := word &^ marks
	atomic.SwapUint64(t.word(t.me), left|word) // other marks matter to who is in the last step still
	t.markVotes(left)
	voted := t.voted()
	for i, m := range t.members {
		if i != t.me && (atomic.LoadUint64(t.word(i))&^marks > entered || t.votedOf(i) > voted) {
			rma.RingBell(&m.Bell)
		}
	}
}

// HasLeft says whether member i has left the team, or released one that Split made: it
// will take part in nothing any more. All that it had stored before is seen behind that.
func (t *Team) HasLeft(i int) bool {
	if atomic.LoadUint64(t.word(i))&left != 0 {
		return true
	}
	return t.began != 0 && atomic.LoadUint64(&t.members[i].Teams[t.id].Used) != t.began
}

// Deserted says whether no step of all members can be entered by all any more, as far as this
// member knows: it, or another one, has given the team up, or has died.
func (t *Team) Deserted() bool {
	if t.broken.Load() {
		return true
	}
	for i := range t.members {
		if atomic.LoadUint64(t.word(i))&gaveUp != 0 || t.dead(i) {
			return true
		}
	}
	return false
}

// Rejoin takes Leave back, for successors of teams with the same members and ids; for teams
// that nobody has left yet it does nothing. meet is a barrier among all their members by
// other means; Rejoin returns its error.
//
// Members of a team that was broken may have entered different numbers of steps and
// agreements. All go on from the greatest: between the two barriers these numbers stand
// still, but for those that become the greatest. The marks stay up to there, for those who
// are in an old collective still.
func Rejoin(meet func() error, teams ...*Team) error {
	if !slices.ContainsFunc(teams, func(t *Team) bool { return t.HasLeft(t.me) }) {
		return nil
	}
	if err := meet(); err != nil {
		return err
	}
	for _, t := range teams {
		t.resume()
	}
	return meet()
}

// resume lets a team count on from where the foremost member is.
func (t *Team) resume() {
	seq, voted := uint64(0), uint64(0)
	for i, m := range t.members {
		seq, voted = max(seq, atomic.LoadUint64(&m.Teams[t.id].Seq)), max(voted, t.votedOf(i))
	}
	atomic.StoreUint64(&t.state.Seq, seq)
	atomic.StoreUint64(t.word(t.me), seq)
	t.resetVotes(voted)
}
