//go:build explore

package coll_test

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/coll"
)

var teamScenarios = []scenario{
	{name: "agree2", n: 2, budgets: []budget{two, late, fatal}, draws: 4000, most: kills, play: playAgree(3)},
	{name: "agree3", n: 3, budgets: []budget{{}}, draws: 20000, most: kill2, play: playAgree(3)},
	{name: "agreeCanceled", n: 3, draws: 8000, most: quits, play: playAgree(3)},
	{name: "groups2", n: 2, budgets: []budget{one, late}, draws: 4000, most: most, play: playGroups(false)},
	{name: "groups3", n: 3, draws: 6000, most: most, play: playGroups(true)},
	{name: "groupsDying", n: 3, draws: 8000, most: kill2, play: playGroups(false)},
	{name: "groupsTolerant", n: 3, draws: 8000, most: kill2, play: playGroupsTolerant},
	{name: "givenUp2", n: 2, budgets: []budget{{cancels: 1}}, draws: 8000, most: quits, play: playGivenUp(false)},
	{name: "givenUp3", n: 3, draws: 12000, most: quits, play: playGivenUp(false)},
	{name: "givenUpDying", n: 3, draws: 12000, most: budget{switches: 12, deaths: 1, cancels: 1, delays: 1}, play: playGivenUp(false)},
	{name: "survivors2", n: 2, budgets: []budget{fatal}, draws: 4000, most: kills, play: playSurvivors},
	{name: "survivors3", n: 3, draws: 12000, most: kill2, play: playSurvivors},
	{name: "survivorsGivenUp", n: 3, draws: 12000, most: budget{switches: 12, deaths: 1, cancels: 1, delays: 1}, play: playGivenUp(true)},
	{name: "slowClaim", n: 3, draws: 6000, most: quits, play: playSlowClaim(false)},
	{name: "slowClaimFreed", n: 3, draws: 5000, most: most, focus: []string{".freeReleasedIDs"}, play: playSlowClaim(true)},
	{name: "oneID", n: 3, draws: 2000, most: most, focus: []string{".Split", ".Release"}, play: playOneID},
	{name: "dissolving", n: 3, draws: 4000, most: quits, focus: []string{".Dissolve", ".giveUp"}, play: playDissolving},
	{name: "histories", n: 2, budgets: []budget{one}, draws: 2000, most: most, play: playHistories},
	{name: "leaving2", n: 2, budgets: []budget{two, late}, draws: 4000, most: kills, play: playLeaving(false)},
	{name: "leavingLocked", n: 2, locked: true, budgets: []budget{late}, draws: 4000, most: most, play: playLeaving(false)},
	{name: "leaving3", n: 3, draws: 8000, most: kills, play: playLeaving(false)},
	{name: "leavingVotes", n: 3, draws: 8000, most: kills, play: playLeaving(true)},
	{name: "rejoining", n: 3, draws: 6000, most: most, play: playRejoining},
	{name: "lending", n: 2, budgets: []budget{{cancels: 1}}, draws: 6000, most: quits, play: playLending},
	{name: "panicking", n: 2, budgets: []budget{one}, draws: 3000, most: most, play: playPanicking},
	{name: "panicking3", n: 3, draws: 4000, most: most, play: playPanicking},
}

// all returns the sides of all members of a team of all PEs.
func (r *run) all(id int, tolerant bool) []*coll.Team {
	teams := make([]*coll.Team, r.n)
	for me := range teams {
		teams[me] = r.team(me, id, tolerant)
	}
	return teams
}

// playAgree: every agreement has the same result on all members that return from it, and contains
// for each member either its flag or its death.
func playAgree(rounds int) func(r *run) {
	return func(r *run) {
		teams, notes := r.all(0, false), make([][]string, r.n)
		r.body = func(me int) error {
			for k := range rounds {
				known := r.published()
				a, err := coll.Agree(r.ctx(me), teams[me], ^uint64(1<<me|1<<(8+k)))
				if err != nil {
					if r.endedBy(err) {
						return nil
					}
					return fmt.Errorf("agreement %d: %w", k, err)
				}
				for i := range r.n {
					if in := a.Flags&(1<<i) == 0; !in && !slices.Contains(a.Failed, i) {
						return fmt.Errorf("agreement %d: neither the flag nor the death of member %d is in %#x %v", k, i, a.Flags, a.Failed)
					}
				}
				for _, i := range known {
					if !slices.Contains(a.Failed, i) {
						return fmt.Errorf("agreement %d: the death of member %d was known at the call, but is not in %v", k, i, a.Failed)
					}
				}
				if rest := ^a.Flags >> 8; rest != 1<<k {
					return fmt.Errorf("agreement %d has wrong flags: %#x", k, a.Flags)
				}
				for _, i := range a.Failed {
					if !r.members[i].killed {
						return fmt.Errorf("agreement %d: member %d is not dead", k, i)
					}
				}
				notes[me] = append(notes[me], fmt.Sprint(a))
			}
			return nil
		}
		r.check = func() error {
			if err := r.compareNotes(notes); err != nil {
				return err
			}
			return r.compareEnds(notes)
		}
	}
}

// published returns the members whose deaths are published.
func (r *run) published() (who []int) {
	for i, m := range r.members {
		if m.told != 0 {
			who = append(who, i)
		}
	}
	return who
}

// compareEnds compares the notes of all members, even if contexts end.
func (r *run) compareEnds(notes [][]string) error {
	for k := 0; ; k++ {
		first, found := "", false
		for i := range notes {
			if k >= len(notes[i]) {
				continue
			}
			if found && notes[i][k] != first {
				return fmt.Errorf("call %d: %q on some members, %q on member %d", k, first, notes[i][k], i)
			}
			first, found = notes[i][k], true
		}
		if !found {
			return nil
		}
	}
}

// endedBy reports whether a call failed because some member's context has ended.
func (r *run) endedBy(err error) bool {
	return r.canceledAny() && (errors.Is(err, context.Canceled) || errors.Is(err, coll.ErrBroken))
}

// diedOf reports whether a call may have failed because of a death.
func (r *run) diedOf(err error) bool {
	_, dead := errors.AsType[*coll.DeadError](err)
	return dead && slices.ContainsFunc(r.members, func(m *member) bool { return m.killed })
}

// useGroup makes a few collectives on a group.
func (r *run) useGroup(g *coll.Team, me, k int) error {
	for _, a := range []act{reducing(1), broadcasting(2, 0), reducing(3)} {
		if err := a(r, g, me, k); err != nil {
			return err
		}
		k++
	}
	return nil
}

// playGroups makes overlapping groups one after the other, which get the same ids.
func playGroups(release bool) func(r *run) {
	return func(r *run) {
		teams := r.all(0, false)
		r.body = func(me int) error {
			for k := range 3 {
				g, err := coll.Split(r.ctx(me), teams[me], firstPEs(r.n), false)
				if err == nil {
					if err = r.useGroup(g, me, 3*k); err == nil && release && k == 1 {
						g.Release()
					} else if err == nil {
						err = g.Dissolve(r.ctx(me))
					}
				}
				if err != nil {
					if !isWrong(err) && r.diedOf(err) {
						return nil
					}
					return fmt.Errorf("group %d: %w", k, err)
				}
			}
			return nil
		}
	}
}

// playGroupsTolerant: all survivors of a tolerant team get a group of all members, or learn that
// members have died. The team goes on.
func playGroupsTolerant(r *run) {
	teams, notes := r.all(0, true), make([][]string, r.n)
	r.body = func(me int) error {
		for k := range 2 {
			g, err := coll.Split(r.ctx(me), teams[me], firstPEs(r.n), false)
			if err != nil && !r.diedOf(err) {
				return fmt.Errorf("group %d: %w", k, err)
			}
			g.Release()
			notes[me] = append(notes[me], fmt.Sprint(err == nil))
			if err := teams[me].Sync(r.ctx(me)); err != nil {
				return fmt.Errorf("the team after group %d: %w", k, err)
			}
		}
		return nil
	}
	r.check = func() error { return r.compareEnds(notes) }
}

// playGivenUp makes a group by a call that may be given up, and then a group of another parent,
// which may get the same id. The second group is used while other members may still be in the
// first call.
func playGivenUp(survivors bool) func(r *run) {
	return func(r *run) {
		teams := [][]*coll.Team{r.all(0, false), r.all(1, false), r.all(2, false)}
		r.body = func(me int) error {
			for k, team := range teams {
				var g *coll.Team
				var err error
				ctx := r.ctx(me)
				if k > 0 {
					ctx = context.Background()
				}
				if tm := team[me]; survivors {
					g, err = coll.Survivors(ctx, tm, voteOn(tm), false)
				} else {
					g, err = coll.Split(ctx, tm, firstPEs(r.n), false)
				}
				if err == nil && g.Size() == r.n {
					err = r.useGroup(g, me, 3*k)
				}
				if g != nil {
					if me == 0 || err != nil {
						g.Leave()
						g.Release()
					} else {
						err = g.Dissolve(ctx)
					}
				}
				if err != nil && (isWrong(err) || !r.endedBy(err) && !r.diedOf(err) && !hasLeft(err) && !errors.Is(err, coll.ErrReleased)) {
					return fmt.Errorf("group %d: %w", k, err)
				}
			}
			return nil
		}
	}
}

func hasLeft(err error) bool {
	_, is := errors.AsType[*coll.LeftError](err)
	return is
}

func voteOn(tm *coll.Team) coll.Vote {
	return func(ctx context.Context, flags uint64) (uint64, []int, error) {
		a, err := coll.Agree(ctx, tm, flags)
		return a.Flags, a.Failed, err
	}
}

// playSurvivors: all survivors get the same group.
func playSurvivors(r *run) {
	teams, notes := r.all(0, false), make([][]string, r.n)
	r.body = func(me int) error {
		tm, alone := teams[me], r.teamOf(me, 1, []int{me}, false)
		for range 3 * me { // so that the members' numbers differ
			if err := alone.Sync(r.ctx(me)); err != nil {
				return err
			}
		}
		if err := tm.Sync(r.ctx(me)); err != nil && !r.diedOf(err) {
			return err
		}
		for k := range 2 {
			g, err := coll.Survivors(r.ctx(me), tm, voteOn(tm), false)
			if err != nil {
				return err
			}
			notes[me] = append(notes[me], fmt.Sprint(g.ID(), g.PEs()))
			for range 3 {
				if err := g.Sync(r.ctx(me)); err != nil && !r.diedOf(err) {
					return fmt.Errorf("group %d: %w", k, err)
				}
			}
			g.Release()
		}
		return nil
	}
	r.check = func() error { return r.compareEnds(notes) }
}

// playHistories: the members of a group have used its id before, in groups of their own whose
// numbers differ. In these they have agreed, and some members have left some of them.
func playHistories(r *run) {
	teams := r.all(0, false)
	r.body = func(me int) error {
		alone := r.teamOf(me, 1, []int{me}, false)
		for round := range 2 {
			for k := range (me+round)%2*4 + 1 {
				g, err := coll.Split(r.ctx(me), alone, []int{0}, false)
				if err == nil {
					err = g.Sync(r.ctx(me))
				}
				if err == nil {
					_, err = coll.Agree(r.ctx(me), g, 1)
				}
				if err == nil && k%2 == round {
					g.Leave()
					g.Release()
				} else if err == nil {
					err = g.Dissolve(r.ctx(me))
				}
				if err != nil {
					return fmt.Errorf("group of one: %w", err)
				}
			}
			g, err := coll.Split(r.ctx(me), teams[me], firstPEs(r.n), false)
			if err == nil {
				err = r.useGroup(g, me, round)
			}
			for range 2 {
				if err == nil {
					_, err = coll.Agree(r.ctx(me), g, 1)
				}
			}
			if err == nil && g.ID() != 3 {
				err = fmt.Errorf("got id %d, want 3", g.ID())
			}
			if err == nil {
				err = g.Dissolve(r.ctx(me))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// playLeaving: member i leaves after i collectives or agreements. A member that waits for it in a
// later one is told.
func playLeaving(agree bool) func(r *run) {
	return func(r *run) {
		teams := r.all(0, false)
		r.body = func(me int) error {
			tm := teams[me]
			defer func() {
				tm.Leave()
				tm.HasLeft(me) // others run before a process ends, whose end makes its last store visible
			}()
			for range me {
				call := tm.Sync
				if agree {
					call = func(ctx context.Context) error { _, err := coll.Agree(ctx, tm, 1); return err }
				}
				if err := call(r.ctx(me)); err != nil {
					if hasLeft(err) || r.diedOf(err) || errors.Is(err, coll.ErrBroken) {
						return nil
					}
					return err
				}
			}
			return nil
		}
	}
}

// playRejoining: successors use a team again that was left, and broken.
func playRejoining(r *run) {
	teams, others := r.all(0, false), r.all(1, false)
	r.body = func(me int) error {
		tm := teams[me]
		if err := reducing(1)(r, tm, me, 0); err != nil {
			return err
		}
		if me != 0 { // member 0 leaves while the others are in the call
			if err := tm.Sync(r.ctx(me)); err == nil || !hasLeft(err) && !errors.Is(err, coll.ErrBroken) {
				return fmt.Errorf("a collective that a member has left: %w", err)
			}
		}
		tm.Leave()
		again := r.team(me, 0, false)
		if err := coll.Rejoin(func() error { return others[me].Sync(r.ctx(me)) }, again); err != nil {
			return err
		}
		if again.HasLeft(me) {
			return errors.New("the mark of leaving is still set")
		}
		if err := r.useGroup(again, me, 1); err != nil {
			return err
		}
		_, err := coll.Agree(r.ctx(me), again, 1)
		return err
	}
}

// playLending: the area of a reduction that was given up is not lent to another reduction that
// members could mistake for it.
func playLending(r *run) {
	teams := [][]*coll.Team{r.all(0, false), r.all(1, false)}
	r.body = func(me int) error {
		for k, team := range teams {
			if k > 0 {
				r.members[me].keepsContext = true
			}
			err := privateReduces(1100, -1)(r, team[me], me, k)
			if err != nil && (isWrong(err) || k > 0 || !r.endedBy(err)) {
				return fmt.Errorf("reduction %d: %w", k, err)
			}
		}
		return nil
	}
}

// panicking64 is an operator that panics.
func panicking64(_, _ []uint64) { panic("of an operator") }

// playPanicking: an operator that panics on one member ends the collective on the others.
func playPanicking(r *run) {
	calls := []func(ctx context.Context, tm *coll.Team, op coll.Op[uint64]) error{
		func(ctx context.Context, tm *coll.Team, op coll.Op[uint64]) error {
			return coll.Reduce(ctx, tm, buffers(bigOf), op)
		},
		func(ctx context.Context, tm *coll.Team, op coll.Op[uint64]) error {
			return coll.Scan(ctx, tm, buffers(bigOf), op, false)
		},
		func(ctx context.Context, tm *coll.Team, op coll.Op[uint64]) error {
			return coll.ReducePrivate(ctx, tm, make([]uint64, 1100), make([]uint64, 1100), op, -1)
		},
		func(ctx context.Context, tm *coll.Team, op coll.Op[uint64]) error { // through slots, because an area is lent
			if tm.Me() == 0 && tm.TakeArea() {
				defer tm.ReturnArea()
			}
			return coll.ReducePrivate(ctx, tm, make([]uint64, 1100), make([]uint64, 1100), op, -1)
		},
		func(ctx context.Context, tm *coll.Team, op coll.Op[uint64]) error {
			return coll.ReduceValue(ctx, tm, new(wide64), func(acc, in []wide64) { op(acc[0][:], in[0][:]) })
		},
	}
	var teams [][]*coll.Team
	for id := range calls {
		teams = append(teams, r.all(id, false))
	}
	r.body = func(me int) error {
		for k, call := range calls {
			var op coll.Op[uint64] = add64
			if me == 0 {
				op = panicking64
			}
			err := r.caught(func() error { return call(r.ctx(me), teams[k][me], op) })
			if me == 0 && !errors.Is(err, errPanic) || me != 0 && !errors.Is(err, coll.ErrBroken) {
				return fmt.Errorf("call %d: %w", k, err)
			}
		}
		return nil
	}
}

var errPanic = errors.New("the operator panicked")

// caught turns the panic of an operator into an error.
func (r *run) caught(f func() error) (err error) {
	defer func() {
		switch e := recover(); e {
		case nil:
		case "of an operator":
			err = errPanic
		default:
			panic(e)
		}
	}()
	return f()
}
