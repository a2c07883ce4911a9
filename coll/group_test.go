package coll_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/symheap/layout"
)

// idsInUse counts the ids that are not free on the PEs of a node.
func (nd *node) idsInUse() (n int) {
	for pe := range nd.m.Len() {
		for _, tm := range nd.m.Control(pe).Teams {
			if tm.Used != 0 {
				n++
			}
		}
	}
	return n
}

// checkGroup checks that a group has these members in this order and works. It makes random
// collectives, whose results depend on both.
func (nd *node) checkGroup(ctx context.Context, tm *coll.Team, members []int, me, rounds int, seed uint64) error {
	if tm.Size() != len(members) {
		return fmt.Errorf("group of %d, want %d", tm.Size(), len(members))
	}
	rng := rand.New(rand.NewPCG(seed, 3)) // the same on all members
	for range rounds {
		if err := randomCollective(ctx, nd, tm, members, me, rng); err != nil {
			return err
		}
	}
	return nil
}

// Groups of random members in random order, several made by one call, are made on top of each
// other, work, and leave nothing behind.
func TestSplit(t *testing.T) {
	for n := 1; n <= 6; n++ {
		nd := newNode(t, n)
		nd.each(t, 0, firstPEs(n), func(pe int, world *coll.Team) error {
			rng := rand.New(rand.NewPCG(uint64(n), 4)) // the same on all PEs
			for round := range uint64(150) {
				if err := nd.splitRandomly(t.Context(), world, pe, round, rng); err != nil {
					return fmt.Errorf("round %d, PE %d: %w", round, pe, err)
				}
			}
			return nil
		})
		if used := nd.idsInUse(); used != 0 {
			t.Errorf("%d PEs: %d ids are in use at the end", n, used)
		}
	}
}

// splitRandomly splits the world twice at random, then one of the groups again, and uses all of
// them by turns.
func (nd *node) splitRandomly(ctx context.Context, world *coll.Team, pe int, round uint64, rng *rand.Rand) error {
	type group struct {
		tm      *coll.Team
		members []int // PEs
	}
	var mine []group
	split := func(parent group, key uint64) error {
		order, cut, none := rng.Perm(world.Size()), rng.Perm(world.Size()+1), rng.IntN(6)
		slices.Sort(cut[:min(2, len(cut))])
		if parent.tm == nil {
			return nil
		}
		lo, hi := cut[0], cut[min(1, len(cut)-1)]
		for k, part := range [][]int{order[:lo], order[lo:hi], order[hi:]} {
			var members, indices []int
			for _, m := range part {
				if i := slices.Index(parent.members, m); i >= 0 && k != none {
					members, indices = append(members, m), append(indices, i)
				}
			}
			if slices.Contains(members, pe) {
				tm, err := coll.Split(ctx, parent.tm, indices, key%2 == 0)
				if err != nil || tm == nil {
					return fmt.Errorf("split of %v into %v: got %v, %w", parent.members, members, tm, err)
				}
				mine = append(mine, group{tm, members})
				return nil
			}
		}
		tm, err := coll.Split(ctx, parent.tm, nil, false)
		if err != nil || tm != nil {
			return fmt.Errorf("split on a PE that is in no group: got %v, %w", tm, err)
		}
		return nil
	}
	all := group{world, firstPEs(world.Size())}
	err := split(all, 1)
	var child group
	if len(mine) > 0 {
		child = mine[0]
	}
	if err = errors.Join(err, split(all, 2), split(child, 3)); err != nil {
		return err
	}
	for pass := range uint64(2) {
		for i, g := range mine {
			if err := nd.checkGroup(ctx, g.tm, g.members, slices.Index(g.members, pe), 2, round+pass); err != nil {
				return fmt.Errorf("group %d, %v: %w", i, g.members, err)
			}
		}
	}
	for _, g := range mine {
		if err := g.tm.Dissolve(ctx); err != nil {
			return err
		}
		if err := g.tm.Sync(ctx); !errors.Is(err, coll.ErrReleased) {
			return fmt.Errorf("after Dissolve: %w", err)
		}
	}
	return nil
}

// All members alike refuse lists that are not valid groups, and no id is used up.
func TestSplitRefuses(t *testing.T) {
	for name, x := range map[string]struct {
		lists  [][]int
		member int
		fault  coll.Fault
	}{
		"outside":     {[][]int{{0, 1, 2}, {0, 1, 3}, {0, 1, 2}}, 1, coll.OutOfRange},
		"negative":    {[][]int{{0, 1, 2}, {0, 1, 2}, {2, -1}}, 2, coll.OutOfRange},
		"twice":       {[][]int{{0, 1, 0}, {0, 1}, {2}}, 0, coll.Twice},
		"without me":  {[][]int{{0}, {0}, {2}}, 1, coll.WithoutItself},
		"other order": {[][]int{{0, 1, 2}, {0, 2, 1}, {0, 1, 2}}, 0, coll.Differs},
		"one absent":  {[][]int{{0, 1}, nil, {2}}, 0, coll.Differs},
		"overlap":     {[][]int{{0}, {1, 2}, {0, 2}}, 1, coll.Differs},
		"elsewhere":   {[][]int{{0, 1}, {0, 1}, {-9}}, 2, coll.Elsewhere},
	} {
		t.Run(name, func(t *testing.T) {
			nd := newNode(t, 3)
			nd.each(t, 1, firstPEs(3), func(me int, tm *coll.Team) error {
				if x.lists[me] != nil && x.lists[me][0] == -9 {
					return tm.Sync(t.Context())
				}
				g, err := coll.Split(t.Context(), tm, x.lists[me], false)
				if bad, is := errors.AsType[*coll.MembersError](err); !is || g != nil || bad.Member != x.member || bad.Fault != x.fault || !errors.Is(err, coll.ErrMembers) {
					return fmt.Errorf("member %d: got %v, %w, want fault %d of member %d", me, g, err, x.fault, x.member)
				}
				return nil
			})
			nd.each(t, 1, firstPEs(3), func(me int, tm *coll.Team) error {
				g, err := coll.Split(t.Context(), tm, []int{2, 1, 0}, false)
				if err != nil {
					return err
				}
				return errors.Join(nd.checkGroup(t.Context(), g, []int{2, 1, 0}, 2-me, 5, 1), g.Dissolve(t.Context()))
			})
			if used := nd.idsInUse(); used != 0 {
				t.Errorf("%d ids are in use", used)
			}
		})
	}
	nd := newNode(t, 2)
	nd.each(t, 1, firstPEs(2), func(me int, tm *coll.Team) error { // different modes
		g, err := coll.Split(t.Context(), tm, firstPEs(2), me == 0)
		if bad, is := errors.AsType[*coll.MembersError](err); !is || g != nil || bad.Fault != coll.Differs {
			return fmt.Errorf("different modes: got %v, %w", g, err)
		}
		return nil
	})
}

// Teams can be made and dissolved any number of times, while another one exists for longer.
func TestSplitCycles(t *testing.T) {
	cycles := 10_000
	if testing.Short() {
		cycles = 1000
	}
	nd := newNode(t, 3)
	nd.each(t, 0, firstPEs(3), func(me int, world *coll.Team) error {
		ctx := t.Context()
		var kept *coll.Team
		for cycle := range cycles {
			members := [][]int{{2, 0}, {1}}[me%2]
			g, err := coll.Split(ctx, world, members, false)
			if err == nil && cycle%64 == 0 {
				err = nd.checkGroup(ctx, g, members, slices.Index(members, me), 3, uint64(cycle))
			}
			if err == nil {
				if kept != nil {
					err = kept.Dissolve(ctx)
				}
				kept = g
			}
			if err != nil {
				return fmt.Errorf("cycle %d: %w", cycle, err)
			}
		}
		return kept.Dissolve(ctx)
	})
	if used := nd.idsInUse(); used != 0 {
		t.Errorf("%d ids are in use", used)
	}
}

// If all ids are in use, even on one PE only, all members get an error. An id that is given back
// can be used at once.
func TestSplitExhausted(t *testing.T) {
	nd := newNode(t, 3)
	nd.each(t, 0, firstPEs(3), func(me int, world *coll.Team) error {
		ctx := t.Context()
		var teams []*coll.Team
		for {
			members := [][]int{{0}, {1, 2}, {1, 2}}[me]
			if len(teams)%3 == 0 && me == 0 {
				members = nil
			}
			g, err := coll.Split(ctx, world, members, false)
			if errors.Is(err, coll.ErrNoID) {
				break
			}
			if err != nil {
				return err
			}
			teams = append(teams, g)
		}
		if len(teams) != layout.MaxTeams-3 {
			return fmt.Errorf("%d teams, want %d", len(teams), layout.MaxTeams-3)
		}
		for range 100 {
			if me > 0 {
				if err := teams[6].Dissolve(ctx); err != nil {
					return err
				}
			}
			g, err := coll.Split(ctx, world, firstPEs(3)[min(me, 1):][:max(1, 2*min(me, 1))], false)
			if me == 0 && err == nil { // it had 20 more
				err = g.Dissolve(ctx)
			}
			if teams[6] = g; err != nil {
				return err
			}
		}
		return nil
	})
}

// Goroutines of the PEs split different teams at the same time, in different order. They get
// different ids, whichever wins the races for them.
func TestSplitsAtOnce(t *testing.T) {
	const n, side = 3, 3
	nd := newNode(t, n)
	var wg sync.WaitGroup
	for pe := range n {
		world := nd.member(t, pe, nd.failures)
		wg.Go(func() {
			var parents []*coll.Team
			for range side {
				g, err := coll.Split(t.Context(), world, firstPEs(n), false)
				if err != nil {
					t.Error(err)
					return
				}
				parents = append(parents, g)
			}
			for k, parent := range parents {
				wg.Go(func() {
					members := [][]int{{0, 1, 2}, {2, 0, 1}, {1, 2, 0}}[k]
					for range 300 {
						g, err := coll.Split(t.Context(), parent, members, false)
						if err == nil {
							err = errors.Join(g.Sync(t.Context()), g.Dissolve(t.Context()))
						}
						if err != nil {
							t.Errorf("parent %d, PE %d: %v", k, pe, err)
							return
						}
					}
				})
			}
		})
	}
	mustFinish(t, "Split", wg.Wait)
}

// A team that is released without a meeting keeps its id until all members have released it.
func TestRelease(t *testing.T) {
	nd := newNode(t, 3)
	nd.each(t, 0, firstPEs(3), func(me int, world *coll.Team) error {
		ctx := t.Context()
		world.Release() // no effect: Split did not make this team
		for range 100 {
			g, err := coll.Split(ctx, world, firstPEs(3), false)
			if err != nil {
				return err
			}
			if me != 1 {
				g.Release()
				g.Release()
			}
			if err := world.Sync(ctx); err != nil {
				return err
			}
			if used := nd.idsInUse(); used != 3 {
				return fmt.Errorf("%d PEs use ids, want 3: PE 1 has not released it", used)
			}
			if err := world.Sync(ctx); err != nil {
				return err
			}
			g.Release()
			if err := g.Sync(ctx); !errors.Is(err, coll.ErrReleased) {
				return fmt.Errorf("after Release: %w", err)
			}
		}
		return nil
	})
	nd.each(t, 0, firstPEs(3), func(_ int, world *coll.Team) error {
		g, err := coll.Split(t.Context(), world, firstPEs(3), false) // Split looks for released teams
		if err != nil {
			return err
		}
		return g.Dissolve(t.Context())
	})
	if used := nd.idsInUse(); used != 0 {
		t.Errorf("%d ids are in use", used)
	}
}

// A member that does not wait in Dissolve does not block the others.
func TestDissolveCanceled(t *testing.T) {
	nd := newNode(t, 3)
	nd.each(t, 0, firstPEs(3), func(me int, world *coll.Team) error {
		for round := range 100 {
			g, err := coll.Split(t.Context(), world, []int{2, 0, 1}, round%2 == 0)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if me == round%3 {
				cancel()
			} else if err := world.Sync(t.Context()); err != nil { // this member has given up
				return err
			}
			err = g.Dissolve(ctx)
			if me == round%3 {
				if !errors.Is(err, context.Canceled) {
					return fmt.Errorf("canceled: %w", err)
				}
				err = world.Sync(t.Context())
			}
			if err != nil {
				return err
			}
			if err := world.Sync(t.Context()); err != nil {
				return err
			}
		}
		return nil
	})
	if used := nd.idsInUse(); used > 1 {
		t.Errorf("%d ids are in use", used)
	}
}

// Members die while teams are made, used and dissolved. All survivors fail from the same call on,
// and they lose no id.
func TestDeathsInSplit(t *testing.T) {
	rounds := 300
	if testing.Short() {
		rounds = 50
	}
	for seed := range uint64(rounds) {
		rng := rand.New(rand.NewPCG(seed, 5))
		n := 2 + rng.IntN(4)
		nd := newNode(t, n)
		victim, after := rng.IntN(n), rng.IntN(12)
		made := make([]int, n)
		var wg sync.WaitGroup
		for pe := range n {
			world := nd.member(t, pe, nd.failures)
			wg.Go(func() {
				var g *coll.Team
				for calls := 0; ; calls++ {
					if pe == victim && calls == after {
						for range rng.IntN(100) {
							runtime.Gosched()
						}
						nd.kill(pe)
						return
					}
					var err error
					switch calls % 3 {
					case 0:
						if g, err = coll.Split(t.Context(), world, firstPEs(n), seed%2 == 0); err == nil {
							made[pe]++
						}
					case 1:
						err = g.Sync(t.Context())
					default:
						err = g.Dissolve(t.Context())
					}
					if err == nil {
						continue
					}
					if wantDeadError(t, fmt.Sprint("PE ", pe), err, victim); g != nil {
						g.Release()
					}
					return
				}
			})
		}
		mustFinish(t, fmt.Sprint("seed ", seed), wg.Wait)
		for pe := range n {
			if pe != victim && made[pe] != after/3+min(after%3, 1) {
				t.Errorf("seed %d: PE %d made %d teams before PE %d died at call %d", seed, pe, made[pe], victim, after)
			}
		}
		nd.checkSurvivorsTeam(t, victim)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// checkSurvivorsTeam makes a team of the survivors of the world and uses it. Afterwards ids are in
// use only on dead PEs.
func (nd *node) checkSurvivorsTeam(t *testing.T, dead int) {
	t.Helper()
	n := nd.m.Len()
	members := slices.DeleteFunc(firstPEs(n), func(pe int) bool { return pe == dead })
	if len(members) == 0 {
		return
	}
	b := &ballot{n: len(members), failed: []int{dead}}
	var wg sync.WaitGroup
	for me, pe := range members {
		world := nd.member(t, pe, nd.failures)
		wg.Go(func() {
			g, err := coll.Survivors(t.Context(), world, b.vote, false)
			if err == nil {
				err = errors.Join(nd.checkGroup(t.Context(), g, members, me, 5, 9), g.Dissolve(t.Context()))
			}
			if err != nil {
				t.Errorf("PE %d of %v: %v", pe, members, err)
			}
		})
	}
	mustFinish(t, "Survivors", wg.Wait)
	for _, pe := range members {
		for id, tm := range nd.m.Control(pe).Teams {
			if tm.Used != 0 {
				t.Errorf("PE %d uses id %d at the end", pe, id)
			}
		}
	}
}

// ballot is an agreement among goroutines.
type ballot struct {
	sync.Mutex
	n      int
	failed []int
	came   int
	all    uint64
	done   chan struct{}
	result uint64
}

func (b *ballot) vote(_ context.Context, flags uint64) (uint64, []int, error) {
	b.Lock()
	if b.came == 0 {
		b.all, b.done = ^uint64(0), make(chan struct{})
	}
	b.all &= flags
	done := b.done
	if b.came++; b.came == b.n {
		b.came, b.result = 0, b.all
		close(done)
	}
	b.Unlock()
	<-done
	return b.result, b.failed, nil
}
