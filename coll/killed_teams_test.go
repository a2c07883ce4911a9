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

// citizen is a process that makes teams, uses and dissolves them.
type citizen struct {
	t     *testing.T
	p     *process
	world *coll.Team
	rng   *rand.Rand // the same for all
	saw   []string   // what all have alike
	of    map[string][]string
}

const citizenRounds = 12

func (c *citizen) live(ctx context.Context) error {
	for round := range citizenRounds {
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

func (c *citizen) note(words ...any) { c.saw = append(c.saw, fmt.Sprintln(words...)) }

// strict notes of a team whether a call went well that fails for deaths alone, and on all alike.
func (c *citizen) strict(what string, tm *coll.Team, err error) error {
	var dead *coll.DeadError
	if err != nil && !errors.As(err, &dead) {
		return fmt.Errorf("%s: %w", what, err)
	}
	who := fmt.Sprint(tm.PEs())
	c.of[who] = append(c.of[who], fmt.Sprint(what, err == nil))
	return nil
}

// split makes two groups of some of a team.
func (c *citizen) split(ctx context.Context, parent *coll.Team, rng *rand.Rand) (*coll.Team, error) {
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

// use makes some collectives of a team and ends it.
func (c *citizen) use(ctx context.Context, tm *coll.Team, round int, rng *rand.Rand) error {
	who := fmt.Sprint(tm.PEs())
	if tm.Tolerant() {
		a := &actor{nd: c.p.node, tm: tm, me: tm.Me(), pe: c.p.pe, from: plays, acts: 3, end: 3, rng: rng}
		err := a.act(ctx)
		if c.of[who] = append(c.of[who], a.saw...); err != nil {
			return err
		}
	}
	for k := 0; k < 3 && !tm.Tolerant(); k++ {
		kind, root := choose(rng, tm.Size())
		if err := every[kind](ctx, tm, root); err != nil {
			isDead(c.t, err)
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

func isDead(t *testing.T, err error) {
	t.Helper()
	if _, is := errors.AsType[*coll.DeadError](err); !is {
		t.Errorf("%v, want a DeadError", err)
	}
}

// TestTeamsKilledAnywhere kills processes at any instruction while they make teams, use
// and dissolve them, and agree: survivors have the same teams and see the same on
// each, and no id is lost.
func TestTeamsKilledAnywhere(t *testing.T) {
	seeds(t, 300, 60, teamsKilled)
}

func teamsKilled(t *testing.T, seed uint64) {
	t.Helper()
	rng, all, victims := doomed(t, seed, 8, 5, 1)
	n := len(all)
	tolerant := rng.IntN(2) == 0
	saw, of := make([][]string, n), make([]map[string][]string, n)
	for pe, p := range all {
		c := &citizen{t: t, p: p, world: p.team(t, 0, upTo(n), tolerant), rng: rand.New(rand.NewPCG(seed, 9)), of: map[string][]string{}}
		of[pe] = c.of
		p.run(t, func() error {
			defer func() { saw[pe] = c.saw }()
			return c.live(t.Context())
		})
	}
	killSome(t, rng, all, victims)
	ended(t, fmt.Sprint("seed ", seed), all)
	if t.Failed() {
		return
	}
	alike(t, saw, upTo(n), victims)
	for pe := range n {
		for who := range of[pe] {
			team := make([][]string, n)
			var members []int
			for i := range n {
				if strings.Contains(who, fmt.Sprint(i)) { // numbers have one digit
					team[i], members = of[i][who], append(members, i)
				}
			}
			alike(t, team, members, victims)
		}
	}
	idsAreFree(t, all, victims)
	end(t, all)
}

// idsAreFree checks that the survivors can make as many teams as ever.
func idsAreFree(t *testing.T, all []*process, victims []int) {
	t.Helper()
	members := slices.DeleteFunc(upTo(len(all)), func(pe int) bool { return slices.Contains(victims, pe) })
	for range 2 { // what the first Split makes of what was released, the second one finds free
		for _, pe := range members {
			p := all[pe]
			tm := p.team(t, 1, members, false)
			p.run(t, func() error {
				g, err := coll.Split(t.Context(), tm, upTo(len(members)), false)
				if err != nil {
					return err
				}
				return g.Dissolve(t.Context())
			})
		}
		ended(t, "the last Split", all)
	}
	for _, pe := range members {
		for id := range layout.MaxTeams {
			if all[pe].m.Control(pe).Teams[id].Used != 0 {
				t.Errorf("PE %d uses id %d at the end", pe, id)
			}
		}
	}
}
