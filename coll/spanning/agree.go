package spanning

import (
	"context"
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/coll/board"
	"github.com/goshmem/goshmem/coll/span"
	"github.com/goshmem/goshmem/symheap/layout"
)

// MostVoters is how many members a team may have that agrees: each tells the others by a bit for each member whom it knows to be
// dead.
const MostVoters = 8 * layout.UpperGiven

// Agree is coll.Agree: it returns the same Agreement at all members that live, whoever dies meanwhile, also on a strict team with
// dead members, and on one that is broken.
//
// An agreement is a step of the team's second line, which no fault of a collective stops. Between nodes it is an allreduce of
// ftco.Machine, as is agree.EarlyReturning.
func (t *Team) Agree(ctx context.Context, flags uint64) (coll.Agreement, error) {
	if !t.busy.CompareAndSwap(false, true) {
		return coll.Agreement{}, coll.ErrConcurrent
	}
	defer t.busy.Store(false)
	return t.vote(ctx, flags)
}

// vote is Agree for a caller that has set busy.
func (t *Team) vote(ctx context.Context, flags uint64) (coll.Agreement, error) {
	switch {
	case t.released.Load():
		return coll.Agreement{}, coll.ErrReleased
	case t.disagreed:
		return coll.Agreement{}, coll.ErrBroken
	case len(t.pes) > MostVoters:
		return coll.Agreement{}, fmt.Errorf("agreement of %d members on several nodes, want at most %d", len(t.pes), MostVoters)
	}
	t.postRefusal()
	var known []byte
	if who := t.knownDead(); who != nil {
		known = bitsOf(who, len(t.pes))
	}
	t.post(layout.UpperVotes, span.Record{And: flags}, known)
	d, err := t.await(ctx, layout.UpperVotes)
	switch {
	case err != nil:
	case d.left >= 0:
		err = &coll.LeftError{Member: d.left}
	case d.gaveUp || d.tooMuch:
		err = coll.ErrBroken
	}
	if err != nil {
		t.disagreed = true
		t.part.GiveUpVotes() // members of this node may be further on, in an agreement of the part: in Survivors
		t.mark(layout.UpperVotes, board.GaveUp)
		return coll.Agreement{}, err
	}
	return coll.Agreement{Flags: d.And, Failed: unite(d.failed, membersIn(d.gave, len(t.pes)))}, nil
}

// ErrNodes reports a team on more nodes than a team can be.
var ErrNodes = fmt.Errorf("team on too many nodes, want at most %d", layout.UpperNodes)

// Survivors makes a team of the members that live, in the same order, also of a team that has been given up. All of them
// call it and get the same team.
//
// Each part makes its new one by coll.Survivors, whose votes are those of the whole team. So all parts take as many tries.
func (t *Team) Survivors(ctx context.Context, tolerant bool) (Made, error) {
	if !t.busy.CompareAndSwap(false, true) {
		return Made{}, coll.ErrConcurrent
	}
	defer t.busy.Store(false)
	for {
		if made, again, err := t.trySurvivors(ctx, tolerant); !again {
			return made, err
		}
	}
}

// trySurvivors makes the team of those that live by the votes of one try. again says that one of them has died before it described
// the team. Then a node may not know the team, and nobody would enter its steps for the dead there.
func (t *Team) trySurvivors(ctx context.Context, tolerant bool) (made Made, again bool, err error) {
	var failed []int // by the latest vote
	part, err := coll.Survivors(ctx, t.part, t.votesOfPart(&failed), tolerant)
	if err != nil {
		return Made{}, false, err
	}
	var pes []layout.PE
	for i, pe := range t.pes {
		if !slices.Contains(failed, i) {
			pes = append(pes, pe)
		}
	}
	if len(pes) == part.Size() {
		return Made{Near: part}, false, nil
	}
	far, err := makeTeam(t, layout.UpperVotes, part, pes)
	flags := uint64(1)
	if err != nil {
		flags = 0
	}
	a, e := t.vote(ctx, flags) // all that live have described the team
	switch {
	case e != nil:
		err = e
	case a.Flags == 0 && err == nil:
		err = ErrNodes
	case err == nil && slices.Equal(a.Failed, failed):
		return Made{Far: far}, false, nil
	}
	if far != nil {
		Abandon(far)
	} else {
		abandonPart(part)
	}
	return Made{}, err == nil, err
}

// votesOfPart returns the votes of the whole team for coll.Survivors of its part, and keeps who has failed by the latest one.
func (t *Team) votesOfPart(failed *[]int) coll.Vote {
	claims := false // the votes go by turns: which ids are free, and whether the chosen one was claimed
	return func(ctx context.Context, flags uint64) (uint64, []int, error) {
		// Package coll looks at the votes of the part, if this fails.
		a, err := coll.Agree(ctx, t.part, flags)
		if err != nil {
			t.disagreed = true
			t.mark(layout.UpperVotes, board.GaveUp)
			return 0, nil, t.teamError(err)
		}
		free := a.Flags
		if !claims && free != 0 {
			a.Flags = 1 // ids are the node's own: others need to know only that there is one
		}
		if a, err = t.vote(ctx, a.Flags); err != nil {
			return 0, nil, err
		}
		if !claims && a.Flags != 0 {
			a.Flags = free
		}
		if claims && !slices.Equal(*failed, a.Failed) {
			a.Flags = 0 // all parts try again, also those that see none of the new dead
		}
		*failed, claims = a.Failed, !claims && a.Flags != 0 // without a free id the part claims none, and asks again
		var here []int
		for k, i := range t.local {
			if slices.Contains(a.Failed, i) {
				here = append(here, k)
			}
		}
		return a.Flags, here, nil
	}
}
