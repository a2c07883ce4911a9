//go:build linux && !race

// The race detector makes atomic accesses in C, where a fault is no panic.

package coll_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/goshmem/goshmem/coll"
)

// impatient is a context that ends in the middle of some wait, before the sleep.
type impatient struct {
	context.Context
	left *int // waits until the end
}

func (i impatient) Err() error {
	if *i.left--; *i.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestBrokenAndKilledAnywhere has members leave random collectives by the end of their contexts,
// while others are killed at any instruction. No member hangs. Members that complete a collective
// have the same result, and the survivors agree and go on in a team of their own.
func TestBrokenAndKilledAnywhere(t *testing.T) {
	forEachSeed(t, 300, 100, testBrokenAndKilled)
}

func testBrokenAndKilled(t *testing.T, seed uint64) {
	t.Helper()
	rng, all, victims := newDoomed(t, seed, 12, 6, 0)
	n := len(all)
	saw, then := make([][]string, n), make([][]string, n)
	for pe, p := range all {
		a := &actor{
			nd: p.node, tm: p.team(t, 5, firstPEs(n), true), me: pe, pe: pe, from: plays, acts: acts, end: acts,
			rng: rand.New(rand.NewPCG(seed, 13)),
		}
		ctx, left := t.Context(), rng.IntN(40)
		if rng.IntN(2) == 0 {
			ctx = impatient{ctx, &left}
		}
		p.run(t, func() error {
			defer func() { saw[pe] = a.saw }()
			if err := a.act(ctx); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, coll.ErrBroken) {
				return err
			}
			return continueAsTeam(t.Context(), a.tm, a, &then[pe])
		})
	}
	killVictims(t, rng, all, victims)
	waitForProcesses(t, fmt.Sprint("seed ", seed), all)
	wantSameSeen(t, then, firstPEs(n), victims)
	wantSameSuccesses(t, saw)
	unmapProcesses(t, all)
}

// wantSameSuccesses checks that all members whose step was not ended by a context saw the same.
func wantSameSuccesses(t *testing.T, saw [][]string) {
	t.Helper()
	for step := range acts {
		well := map[string][]int{}
		for pe, s := range saw {
			if step < len(s) && !strings.Contains(s[step], coll.ErrBroken.Error()) && !strings.Contains(s[step], context.Canceled.Error()) {
				well[s[step]] = append(well[s[step]], pe)
			}
		}
		if len(well) > 1 {
			t.Errorf("step %d: members saw different results: %v", step, well)
		}
	}
}

// continueAsTeam has the survivors of a team agree and make a team of their own.
func continueAsTeam(ctx context.Context, tm *coll.Team, a *actor, saw *[]string) error {
	vote := func(ctx context.Context, flags uint64) (uint64, []int, error) {
		v, err := coll.Agree(ctx, tm, flags)
		return v.Flags, v.Failed, err
	}
	s, err := coll.Survivors(ctx, tm, vote, true)
	if err != nil {
		return fmt.Errorf("Survivors: %w", err)
	}
	*saw = append(*saw, fmt.Sprint(s.PEs()))
	b := &actor{nd: a.nd, tm: s, me: s.Me(), pe: a.pe, from: plays, acts: 5, end: 5, rng: rand.New(rand.NewPCG(uint64(len(s.PEs())), 14))}
	err = b.act(ctx)
	*saw = append(*saw, b.saw...)
	return err
}

// TestPrivateKilledAnywhere is TestBrokenAndKilledAnywhere for collectives of private memory, on
// two teams in parallel that want the same areas.
func TestPrivateKilledAnywhere(t *testing.T) {
	forEachSeed(t, 150, 50, testPrivateKilled)
}

func testPrivateKilled(t *testing.T, seed uint64) {
	t.Helper()
	rng, all, victims := newDoomed(t, seed, 15, 5, 0)
	n := len(all)
	teams := [][]int{firstPEs(n), rng.Perm(n)[:1+rng.IntN(n)]}
	slices.Sort(teams[1])
	saw := make([][][]string, len(teams)) // by team and PE
	for k, members := range teams {
		saw[k] = make([][]string, n)
		for me, pe := range members {
			p, ctx, left := all[pe], t.Context(), rng.IntN(60)
			if rng.IntN(4) == 0 {
				ctx = impatient{ctx, &left}
			}
			tm, rng := p.team(t, 5+k, members, true), rand.New(rand.NewPCG(seed, uint64(16+k)))
			p.run(t, func() error {
				for step := range 12 {
					what, err := randomPrivate(ctx, tm, me, step, rng)
					saw[k][pe] = append(saw[k][pe], what)
					if errors.Is(err, context.Canceled) || errors.Is(err, coll.ErrBroken) {
						return nil
					} else if err != nil {
						return fmt.Errorf("step %d of %s: %w", step, what, err)
					}
				}
				return nil
			})
		}
	}
	killVictims(t, rng, all, victims)
	waitForProcesses(t, fmt.Sprint("seed ", seed), all)
	for k := range teams {
		wantSameSuccesses(t, saw[k])
	}
	unmapProcesses(t, all)
}

// randomPrivate makes one collective of private memory and returns how it ended.
func randomPrivate(ctx context.Context, tm *coll.Team, me, step int, rng *rand.Rand) (what string, err error) {
	g, root := given{step: step, n: []int{5, 2000, 2041, 16_385, 40_000}[rng.IntN(5)]}, rng.IntN(tm.Size())
	src, dst, want := make([]uint32, g.n), make([]uint32, g.n), make([]uint32, g.n)
	g.put(src, me, 0)
	isSum := rng.IntN(3) > 0
	if isSum {
		err = coll.ReducePrivate(ctx, tm, dst, src, sum, -1)
	} else {
		if me == root {
			copy(dst, src)
		}
		err = coll.BroadcastPrivate(ctx, tm, unsafe.Slice((*byte)(unsafe.Pointer(&dst[0])), 4*g.n), root)
	}
	what = fmt.Sprint(g.n, isSum, tm.Outcome(), err)
	if _, dead := errors.AsType[*coll.DeadError](err); dead {
		return what, nil
	} else if err != nil {
		return what, err
	}
	if g.who = tm.Outcome().Contributors; isSum {
		g.add(want, g.who)
	} else {
		g.put(want, root, 0)
	}
	if !slices.Equal(dst, want) {
		err = errors.New("wrong result")
	}
	return what, err
}
