package coll

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Agreement is what the members of a team have agreed upon.
type Agreement struct {
	Flags  uint64 // the AND of all contributors' flags
	Failed []int  // members that are dead, ascending
}

// Agree returns the same Agreement at all members that live, whoever dies meanwhile. It works
// on any team: also on a strict one with dead members, and on one that is broken.
//
// Failed has the members that died before they called it, and those whose deaths a caller
// knew of at its call.
//
// A vote is one cache line with the number of the agreement, the flags and the epoch of the
// failure page. The numbers stand for arrival words, so what package board says of steps and
// contributors holds for them. All members read one failure page, so the latest epoch in the votes
// tells all of them the same deaths: no lists are exchanged.
//
//   - Cost: less than a reduction of 8 bytes; a list when somebody is dead.
//   - Collective: over the members that live.
//   - Errors: ErrBroken when an agreement of some member ended by its context, LeftError,
//     ErrConcurrent, the end of ctx.
func Agree(ctx context.Context, t *Team, flags uint64) (a Agreement, err error) {
	if !atomic.CompareAndSwapUint64(&t.busy, 0, 1) {
		return a, ErrConcurrent
	}
	votes := t.votes()
	defer func() {
		if err != nil && !errors.Is(err, ErrReleased) {
			t.agreeBroken = true
			votes.mark(gaveUp)
			t.ringOthers()
		}
		rma.StoreRelease(&t.busy, 0)
	}()
	switch {
	case t.released.Load():
		return a, ErrReleased
	case t.agreeBroken:
		return a, ErrBroken
	}
	t.waiter.Beat()
	t.noteDeaths()
	votes.announce()
	seq := votes.latest() + 1
	mine := votes.of(t.me, seq)
	mine.Flags, mine.Epoch = flags, t.failures.Epoch()
	atomic.SwapUint64(&mine.Seq, seq) // and not Store: see enterStep
	if votes.allCast(seq) {
		t.ringOthers()
	}
	a.Flags = flags
	var epoch uint64
	for i := range t.members {
		v := votes.of(i, seq)
		in := atomic.LoadUint64(&v.Seq)
		if in&^marks < seq {
			if in, err = t.awaitWordOrDeath(ctx, i, &v.Seq, seq); err != nil {
				return Agreement{}, err
			}
		}
		if in == 0 {
			a.Failed = append(a.Failed, i)
			continue
		}
		a.Flags &= v.Flags
		epoch = max(epoch, v.Epoch)
	}
	if epoch > 0 {
		a.Failed = t.diedBy(epoch, a.Failed)
	}
	return a, nil
}

// votes is the words of a team's agreements: two votes of each member, used by turns.
//
//   - Owns: nothing; it is a view of a roster.
//   - Writes: this member's own votes. Agree writes flags and epoch before the number, which
//     publishes them. Voted, once.
//   - Reads: all votes, and Voted.
type votes struct{ *roster }

// votes returns the view of the team's votes.
func (t *Team) votes() votes { return votes{&t.roster} }

// of returns where member i votes in agreement seq.
func (v votes) of(i int, seq uint64) *layout.Vote { return &v.members[i].Votes[v.id][seq&1] }

// announce says that a member votes, before its first vote.
func (v votes) announce() {
	if voted := v.voted(); atomic.LoadUint64(voted) == 0 {
		atomic.SwapUint64(voted, 1)
	}
}

// voted returns the word that says whether a member of the team, or of an earlier one with its id, has voted.
func (v votes) voted() *uint64 { return &v.members[0].Voted[v.id] }

// latestOf returns the latest agreement that member i has entered.
func (v votes) latestOf(i int) uint64 {
	two := &v.members[i].Votes[v.id]
	return max(atomic.LoadUint64(&two[0].Seq)&^marks, atomic.LoadUint64(&two[1].Seq)&^marks)
}

// latest returns the latest agreement that this member has entered.
func (v votes) latest() uint64 { return v.latestOf(v.me) }

// allCast says whether all members have voted that are not known to be dead. The look at the
// failure page comes after this member's own vote, as in enterStep.
func (v votes) allCast(seq uint64) bool {
	for i := range v.members {
		if atomic.LoadUint64(&v.of(i, seq).Seq) >= seq {
			continue
		}
		if v.noteDeaths(); v.dead == nil || !v.dead[i] {
			return false
		}
	}
	return true
}

// mark leaves a mark in this member's votes, which ends every wait for them.
func (v votes) mark(mark uint64) {
	for k := range uint64(2) {
		atomic.OrUint64(&v.of(v.me, k).Seq, mark)
	}
}

// reset lets agreements count on from seq, before any other member looks.
func (v votes) reset(seq uint64) {
	for k := range uint64(2) {
		atomic.StoreUint64(&v.of(v.me, k).Seq, seq)
	}
}

// givenUpIn says whether a member that has voted in an agreement, its latest one, has given it
// up.
func (v votes) givenUpIn(seq uint64) bool {
	for i := range v.members {
		if word := atomic.LoadUint64(&v.of(i, seq).Seq); word&gaveUp != 0 && word&^marks == seq && v.latestOf(i) == seq {
			return true
		}
	}
	return false
}
