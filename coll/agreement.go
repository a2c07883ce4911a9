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

// Agree returns the same Agreement at all members that live, whoever dies meanwhile,
// on any team: also on a strict one with dead members, and on one that is broken.
//
// Failed has those that died before they called it, and those whose deaths any of those
// that called it knew of at the call.
//
// A vote is one cache line with the number of the agreement, the flags and the epoch
// of the failure page; the numbers stand for arrival words, and what package board
// says of steps and contributors holds for them. The latest epoch in the votes tells
// everybody the same deaths, as all read one page: no lists are exchanged.
//
//   - Cost: less than a reduction of 8 bytes; a list when somebody is dead.
//   - Collective: over the members that live.
//   - Errors: ErrBroken when an agreement of some member ended by its context, LeftError,
//     ErrConcurrent, the end of ctx.
func Agree(ctx context.Context, t *Team, flags uint64) (a Agreement, err error) {
	if !atomic.CompareAndSwapUint64(&t.busy, 0, 1) {
		return a, ErrConcurrent
	}
	defer func() {
		if err != nil && !errors.Is(err, ErrReleased) {
			t.split = true
			t.markVotes(gaveUp)
			t.ringAll()
		}
		rma.StoreRelease(&t.busy, 0)
	}()
	switch {
	case t.released.Load():
		return a, ErrReleased
	case t.split:
		return a, ErrBroken
	}
	t.w.Beat()
	t.look()
	seq := t.voted() + 1
	mine := t.vote(t.me, seq)
	mine.Flags, mine.Epoch = flags, t.failures.Epoch()
	atomic.SwapUint64(&mine.Seq, seq) // and not Store: see enter
	if t.votedAll(seq) {
		t.ringAll()
	}
	a.Flags = flags
	var epoch uint64
	for i := range t.members {
		v := t.vote(i, seq)
		in := atomic.LoadUint64(&v.Seq)
		if in&^marks < seq {
			if in, err = t.settle(ctx, i, &v.Seq, seq); err != nil {
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
		a.Failed = t.failedBy(epoch, a.Failed)
	}
	return a, nil
}

// failedBy adds to a list of dead members those that have died up to an epoch.
func (t *Team) failedBy(epoch uint64, others []int) (failed []int) {
	for i, pe := range t.pes {
		f, ok := t.failures.Failure(pe)
		dead := ok && f.Epoch <= epoch && f.Incarnation >= t.members[i].Header.Incarnation
		if len(others) > 0 && others[0] == i {
			dead, others = true, others[1:]
		}
		if dead {
			failed = append(failed, i)
		}
	}
	return failed
}

// vote returns where member i votes in agreement seq.
func (t *Team) vote(i int, seq uint64) *layout.Vote { return &t.members[i].Votes[t.id][seq&1] }

// votedOf returns the latest agreement that member i has entered.
func (t *Team) votedOf(i int) uint64 {
	v := &t.members[i].Votes[t.id]
	return max(atomic.LoadUint64(&v[0].Seq)&^marks, atomic.LoadUint64(&v[1].Seq)&^marks)
}

func (t *Team) voted() uint64 { return t.votedOf(t.me) }

// votedAll says whether all have voted that are not known to be dead. The look at the
// failure page comes behind this member's own vote, as in enter.
func (t *Team) votedAll(seq uint64) bool {
	for i := range t.members {
		if atomic.LoadUint64(&t.vote(i, seq).Seq) >= seq {
			continue
		}
		if t.look(); t.gone == nil || !t.gone[i] {
			return false
		}
	}
	return true
}

// markVotes leaves a mark in this member's votes, which ends waits for it.
func (t *Team) markVotes(mark uint64) {
	for k := range uint64(2) {
		atomic.OrUint64(&t.vote(t.me, k).Seq, mark)
	}
}

// resetVotes lets agreements count on from seq, before anybody else looks.
func (t *Team) resetVotes(seq uint64) {
	for k := range uint64(2) {
		atomic.StoreUint64(&t.vote(t.me, k).Seq, seq)
	}
}
