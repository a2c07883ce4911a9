//go:build explore

package coll_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/coll"
)

func TestExploreData(t *testing.T) { exploreAll(t, dataScenarios) }

func TestExploreDirect(t *testing.T) { exploreAll(t, directScenarios) }

func TestExploreTeams(t *testing.T) { exploreAll(t, teamScenarios) }

func exploreAll(t *testing.T, list []scenario) {
	for i := range list {
		t.Run(list[i].name, func(t *testing.T) { explore(t, &list[i]) })
	}
}

// The teams of these scenarios do not have all PEs as members.

// playWakes: a member has the data of a large broadcast as soon as the root has called it,
// although another member waits for that member before it calls.
func playWakes(r *run) {
	r.body = func(me int) error {
		all := r.team(me, 0, false)
		meet := func() error { return r.teamOf(me, 1, []int{1, 2}, false).Sync(r.ctx(me)) }
		if me == 2 {
			if err := meet(); err != nil {
				return err
			}
		}
		err := broadcasting(bigOf, 0)(r, all, me, 0)
		if err == nil && me == 1 {
			err = meet()
		}
		return err
	}
}

// playAreas: a PE lends its area to another team once no member reads it for the first team any
// more.
func playAreas(r *run) {
	teams := [][]int{{0, 1}, {0, 2}}
	r.body = func(me int) error {
		for k, members := range teams {
			if i := slices.Index(members, me); i >= 0 {
				if err := privateReduces(1100, -1)(r, r.teamOf(me, k, members, false), i, k); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// playAreasByTurns: PE 0 lends its area to two teams by turns, and each other PE knows only one of
// them. If one survivor has the result of a reduction, it succeeds on all survivors, whichever
// member dies in the last steps of the larger team's second reduction, for which PE 0 has its area
// back.
func playAreasByTurns(r *run) {
	sets, notes := [][]int{{0, 1, 2}, {0, 3}}, make([][]string, r.n)
	r.body = func(me int) error {
		teams := make([]*coll.Team, len(sets))
		for id, members := range sets {
			if slices.Contains(members, me) {
				teams[id] = r.teamOf(me, id, members, false)
			}
		}
		for k := range 4 {
			tm := teams[k%2]
			if tm == nil {
				notes[me] = append(notes[me], "")
				continue
			}
			op := folding(func() {
				if k == 2 && me == 1 {
					r.left.deaths = r.dying
				}
			})
			err := privateReducesBy(op, 1100, -1)(r, tm, slices.Index(sets[k%2], me), k)
			if err != nil && (isWrong(err) || !hasLeft(err) && !r.mayFail(tm, err)) {
				return fmt.Errorf("reduction %d: %w", k, err)
			}
			notes[me] = append(notes[me], fmt.Sprint(err == nil))
			if err == nil {
				continue
			}
			for _, tm := range teams {
				if tm != nil {
					tm.Leave()
				}
			}
			return nil
		}
		return nil
	}
	r.check = func() error { return r.compareNotes(notes) }
}

// folding is add64 that also calls a function.
func folding(also func()) coll.Op[uint64] {
	return func(acc, in []uint64) {
		add64(acc, in)
		also()
	}
}

// playOutside: a step that all members have entered succeeds, although a PE outside the team dies,
// and then a member.
func playOutside(r *run) {
	r.body = func(me int) error {
		if me == 2 {
			tm := r.teamOf(me, 1, []int{2}, false)
			for range 4 {
				_ = tm.Sync(r.ctx(me)) // the PE dies somewhere in it
			}
			return nil
		}
		tm := r.teamOf(me, 0, []int{0, 1}, false)
		err := tm.Sync(r.ctx(me))
		if err != nil && !r.diedOf(err) {
			return err
		}
		words := r.nd.m.Control(0).Entries[0]
		if err != nil && words[0].Seq&1 == 1 && words[1].Seq&1 == 1 {
			return fmt.Errorf("all have entered the step, but member %d fails: %w", me, err)
		}
		return nil
	}
}

// keepContexts keeps the contexts of all members from ending, except where a scenario uses
// withEndingContext.
func (r *run) keepContexts() {
	for _, m := range r.members {
		m.keepsContext = true
	}
}

// withEndingContext calls f with a context that may end.
func (r *run) withEndingContext(me int, f func(ctx context.Context) error) error {
	r.members[me].keepsContext = false
	err := f(r.ctx(me))
	r.members[me].keepsContext = true
	return err
}

// useNewGroup makes a group, uses it and dissolves it.
func (r *run) useNewGroup(me int, parent *coll.Team) error {
	g, err := coll.Split(r.ctx(me), parent, firstPEs(parent.Size()), false)
	for range 3 {
		if err == nil {
			err = g.Sync(r.ctx(me))
		}
	}
	if err == nil {
		err = g.Dissolve(r.ctx(me))
	}
	return err
}

// playSlowClaim: PE 0 gives up a group with PE 1, which may still come to claim its id, and makes
// one with PE 2. Only members of the new group may write its words. PE 0 gives up as soon as it
// has to wait for claims, or when the schedule says so.
func playSlowClaim(atClaims bool) func(r *run) {
	return func(r *run) {
		r.keepContexts()
		r.body = func(me int) error {
			if me != 2 {
				if err := r.splitGivenUp(me, atClaims); err != nil {
					return fmt.Errorf("the first group: %w", err)
				}
			}
			if me == 1 {
				return nil
			}
			if err := r.useNewGroup(me, r.teamOf(me, 1, []int{0, 2}, false)); err != nil {
				return fmt.Errorf("the second group: %w", err)
			}
			return nil
		}
	}
}

// splitGivenUp makes a group of PEs 0 and 1, unless PE 0 gives it up, and leaves it.
func (r *run) splitGivenUp(me int, atClaims bool) error {
	parent := r.teamOf(me, 0, []int{0, 1}, false)
	split := func(ctx context.Context) error {
		g, err := coll.Split(ctx, parent, firstPEs(2), false)
		if err == nil {
			err = g.Sync(r.ctx(me))
			g.Leave()
			g.Release()
		}
		return err
	}
	var err error
	switch {
	case me == 1:
		err = split(r.ctx(me))
	case atClaims:
		err = split(watchedCtx{r.ctx(me), func() error {
			if r.nd.m.Control(0).Teams[0].Seq == 2 {
				return context.Canceled
			}
			return nil
		}})
	default:
		err = r.withEndingContext(me, split)
	}
	if hasLeft(err) || errors.Is(err, context.Canceled) || errors.Is(err, coll.ErrBroken) {
		return nil
	}
	return err
}

// playDissolving: PE 0 gives up the last meeting of a group with PE 1. PE 1 makes a group with PE
// 2 as soon as it has passed that meeting. PE 0 leaves no mark in the words of the new group.
func playDissolving(r *run) {
	r.keepContexts()
	first, second := []int{1, 0}, []int{1, 2}
	r.body = func(me int) error {
		if me != 2 {
			g, err := coll.Split(r.ctx(me), r.teamOf(me, 0, first, false), firstPEs(2), false)
			if err == nil && me == 0 {
				err = r.withEndingContext(me, g.Dissolve)
			} else if err == nil {
				err = g.Dissolve(r.ctx(me))
			}
			if err != nil && (me == 1 || !errors.Is(err, context.Canceled)) {
				return fmt.Errorf("the first group: %w", err)
			}
			if me == 0 {
				return nil
			}
		}
		if err := r.useNewGroup(me, r.teamOf(me, 1, second, false)); err != nil {
			return fmt.Errorf("the second group: %w", err)
		}
		return nil
	}
}

// playOneID: there is only one id. A claim fails on PE 1 alone, where the id is free again before
// the next try. The group waits for PEs that still hold it then.
func playOneID(r *run) {
	const id, other = 3, 1 << 40
	teams := r.all(0, false)
	for pe := range r.n {
		for k := range r.nd.m.Control(pe).Teams {
			if k > id {
				r.nd.m.Control(pe).Teams[k].Used = other
			}
		}
	}
	mine := &r.nd.m.Control(1).Teams
	r.body = func(me int) error {
		ctx := r.ctx(me)
		if me == 1 {
			ctx = meddling{ctx, func() error {
				switch {
				case mine[0].Seq == 1: // PE 1 waits for the others' offers
					mine[id].Used = other
				case mine[0].Seq == 2 && mine[id].Used == other: // PE 1 waits for the others' claims
					mine[id].Used = 0
				}
				return nil
			}}
		}
		g, err := coll.Split(ctx, teams[me], firstPEs(r.n), false)
		if errors.Is(err, coll.ErrNoID) && mine[id].Used == other {
			return nil
		}
		if err == nil {
			err = g.Sync(r.ctx(me))
		}
		return err
	}
}

// Processor returns where the member is.
func (r *run) Processor() uint32 {
	switch m := r.mine(); {
	case r.roams:
		return uint32(r.choices.choose(3, false))
	case r.on != nil:
		return r.on[r.index(m)]
	}
	return 0
}

// waiting lists the members that wait, and the errors of those that do not.
func (r *run) waiting() string {
	var who []string
	for i, m := range r.members {
		if m.asleep && !m.killed {
			who = append(who, strconv.Itoa(i))
		} else if m.err != nil {
			who = append(who, fmt.Sprintf("(%d ended: %v)", i, m.err))
		}
	}
	return strings.Join(who, ", ")
}
