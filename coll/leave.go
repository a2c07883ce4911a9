package coll

import (
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
func (t *Team) Leave() {
	// The word and not state.Seq: a collective that failed has steps that this
	// member never entered.
	entered := atomic.LoadUint64(t.word(t.me)) &^ marks
	atomic.SwapUint64(t.word(t.me), left|entered)
	t.markVotes(left)
	voted := t.voted()
	for i, m := range t.members {
		if i != t.me && (atomic.LoadUint64(t.word(i))&^marks > entered || t.votedOf(i) > voted) {
			rma.RingBell(&m.Bell)
		}
	}
}

// Rejoin takes Leave back, for a successor of the team with the same members
// and id, and says whether there was anything to take back. If so, the members
// must meet by other means before they use the team.
func (t *Team) Rejoin() bool {
	if atomic.LoadUint64(t.word(t.me))&left == 0 {
		return false
	}
	atomic.StoreUint64(t.word(t.me), t.state.Seq)
	t.unmarkVotes()
	return true
}
