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

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/symheap/layout"
)

// teamMaker is a process that makes teams, uses them and dissolves them.
type teamMaker struct {
	t     *testing.T
	p     *process
	world *coll.Team
	rng   *rand.Rand // the same on all PEs
	saw   []string   // what all PEs must see alike
	of    map[string][]string
}

const teamMakerRounds = 12

func (c *teamMaker) live(ctx context.Context) error {
	for round := range teamMakerRounds {
		mode, kind, seed := c.rng.IntN(2) == 0, c.rng.IntN(4), c.rng.Uint64()
		a, err := coll.Agree(ctx, c.world, ^(uint64(1) << c.p.pe))
		if err != nil {
			return fmt.Errorf("round %d: Agree: %w", round, err)
		}
		c.note("agreed", round, a)
		parent := c.world
		if kind > 0 {
			vote := func(ctx context.Context, flags uint64) (uint64, []int, error) {
				a, err := coll.Agree(ctx, c.world, flags)
				return a.Flags, a.Failed, err
			}
			if parent, err = coll.Survivors(ctx, c.world, vote, mode); err != nil {
				return fmt.Errorf("round %d: Survivors: %w", round, err)
			}
			c.note("live", round, parent.PEs())
		}
		group, err := c.split(ctx, parent, rand.New(rand.NewPCG(seed, 0)))
		if err = c.strict(fmt.Sprint("split ", round), parent, err); err != nil {
			return err
		}
		for _, tm := range []*coll.Team{group, parent} {
			if tm != nil && (tm != c.world || kind == 0) {
				if err := c.use(ctx, tm, round, rand.New(rand.NewPCG(seed, 1))); err != nil {
					return fmt.Errorf("round %d, team of %v: %w", round, tm.PEs(), err)
				}
			}
		}
	}
	return nil
}

func (c *teamMaker) note(words ...any) { c.saw = append(c.saw, fmt.Sprintln(words...)) }

// strict records whether a call of a team succeeded that may fail only because of a death, and
// then on all members.
func (c *teamMaker) strict(what string, tm *coll.Team, err error) error {
	var dead *coll.DeadError
	if err != nil && !errors.As(err, &dead) {
		return fmt.Errorf("%s: %w", what, err)
	}
	who := fmt.Sprint(tm.PEs())
	c.of[who] = append(c.of[who], fmt.Sprint(what, err == nil))
	return nil
}

// split makes two groups of some members of a team.
func (c *teamMaker) split(ctx context.Context, parent *coll.Team, rng *rand.Rand) (*coll.Team, error) {
	order := rng.Perm(parent.Size())
	cut := rng.IntN(len(order) + 1)
	parts := [][]int{order[:cut], order[cut:]}
	none, tolerant := rng.IntN(4), rng.IntN(2) == 0
	for i, members := range parts {
		if i != none && slices.Contains(members, parent.Me()) {
			return coll.Split(ctx, parent, members, tolerant)
		}
	}
	return coll.Split(ctx, parent, nil, tolerant)
}

// use makes some collectives of a team and dissolves it.
func (c *teamMaker) use(ctx context.Context, tm *coll.Team, round int, rng *rand.Rand) error {
	who := fmt.Sprint(tm.PEs())
	if tm.Tolerant() {
		a := &actor{nd: c.p.node, tm: tm, me: tm.Me(), pe: c.p.pe, from: plays, acts: 3, end: 3, rng: rng}
		err := a.act(ctx)
		if c.of[who] = append(c.of[who], a.saw...); err != nil {
			return err
		}
	}
	for k := 0; k < 3 && !tm.Tolerant(); k++ {
		kind, root := chooseCollective(rng, tm.Size())
		if err := everyCollective[kind](ctx, tm, root); err != nil {
			wantAnyDeadError(c.t, err)
		}
	}
	a, err := coll.Agree(ctx, tm, ^uint64(0))
	if err != nil {
		return err
	}
	if c.of[who] = append(c.of[who], fmt.Sprint(a)); tm == c.world {
		return nil
	}
	if rng.IntN(3) == 0 {
		tm.Release()
		return nil
	}
	return c.strict(fmt.Sprint("dissolve ", round), tm, tm.Dissolve(ctx))
}

func wantAnyDeadError(t *testing.T, err error) {
	t.Helper()
	if _, is := errors.AsType[*coll.DeadError](err); !is {
		t.Errorf("error %v, want a DeadError", err)
	}
}

// TestTeamsKilledAnywhere kills processes at any instruction while they make, use and dissolve
// teams and agree. The survivors have the same teams, see the same on each, and lose no id.
func TestTeamsKilledAnywhere(t *testing.T) {
	forEachSeed(t, 300, 60, testTeamsKilled)
}

func testTeamsKilled(t *testing.T, seed uint64) {
	t.Helper()
	rng, all, victims := newDoomed(t, seed, 8, 5, 1)
	n := len(all)
	tolerant := rng.IntN(2) == 0
	saw, of := make([][]string, n), make([]map[string][]string, n)
	for pe, p := range all {
		c := &teamMaker{t: t, p: p, world: p.team(t, 0, firstPEs(n), tolerant), rng: rand.New(rand.NewPCG(seed, 9)), of: map[string][]string{}}
		of[pe] = c.of
		p.run(t, func() error {
			defer func() { saw[pe] = c.saw }()
			return c.live(t.Context())
		})
	}
	killVictims(t, rng, all, victims)
	waitForProcesses(t, fmt.Sprint("seed ", seed), all)
	if t.Failed() {
		return
	}
	wantSameSeen(t, saw, firstPEs(n), victims)
	for pe := range n {
		for who := range of[pe] {
			team := make([][]string, n)
			var members []int
			for i := range n {
				if strings.Contains(who, fmt.Sprint(i)) { // the numbers have one digit
					team[i], members = of[i][who], append(members, i)
				}
			}
			wantSameSeen(t, team, members, victims)
		}
	}
	wantIDsFree(t, all, victims)
	unmapProcesses(t, all)
}

// wantIDsFree checks that the survivors can make as many teams as before.
func wantIDsFree(t *testing.T, all []*process, victims []int) {
	t.Helper()
	members := slices.DeleteFunc(firstPEs(len(all)), func(pe int) bool { return slices.Contains(victims, pe) })
	for range 2 { // the first Split frees what was released, and the second one finds it free
		for _, pe := range members {
			p := all[pe]
			tm := p.team(t, 1, members, false)
			p.run(t, func() error {
				g, err := coll.Split(t.Context(), tm, firstPEs(len(members)), false)
				if err != nil {
					return err
				}
				return g.Dissolve(t.Context())
			})
		}
		waitForProcesses(t, "the last Split", all)
	}
	for _, pe := range members {
		for id := range layout.MaxTeams {
			if all[pe].m.Control(pe).Teams[id].Used != 0 {
				t.Errorf("PE %d uses id %d at the end", pe, id)
			}
		}
	}
}
