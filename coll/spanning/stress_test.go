package spanning

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/internal/fold"
)

// history is what a PE has been told, step by step.
type history struct {
	steps []string
	alive bool
}

func (h *history) add(format string, args ...any) {
	h.steps = append(h.steps, fmt.Sprintf(format, args...))
}

// compare fails the test unless all PEs that live to the end have been told the same.
func compare(t *testing.T, all []*history) (steps int) {
	t.Helper()
	var first *history
	for pe, h := range all {
		switch {
		case !h.alive:
		case first == nil:
			first = h
		case !slices.Equal(first.steps, h.steps):
			at := 0
			for at < min(len(first.steps), len(h.steps)) && first.steps[at] == h.steps[at] {
				at++
			}
			t.Fatalf("PE %d differs from the first one that lives in step %d of %d and %d:\n%v\n%v", pe, at, len(h.steps), len(first.steps),
				strings.Join(h.steps[at:min(at+3, len(h.steps))], "\n"), strings.Join(first.steps[at:min(at+3, len(first.steps))], "\n"))
		}
	}
	if first == nil {
		return 0
	}
	return len(first.steps)
}

// A hundred histories of random collectives, in which PEs and nodes die at random moments. All survivors are told the same by each
// collective, and each of them contributes.
func TestStress(t *testing.T) {
	runs, steps, long := 120, 0, 60
	if testing.Short() {
		runs = 20
	}
	for seed := range uint64(runs) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { steps += stress(t, seed, long) })
	}
	t.Logf("%d steps", steps)
}

var stressShapes = [][]int{{2, 2, 2}, {1, 1, 1}, {3, 1, 2}, {2, 2}, {1, 2, 1, 2, 1}, {4, 3}}

// stress runs a history and returns its length.
func stress(t *testing.T, seed uint64, long int) int {
	rng := rand.New(rand.NewPCG(seed, 77))
	c := newSeededCluster(t, seed, seed%2 == 1, stressShapes[seed%uint64(len(stressShapes))]...)
	all := make([]*history, len(c.pes))
	for pe := range all {
		all[pe] = &history{}
	}
	for pe := range c.pes {
		if rng.IntN(3) == 0 {
			c.pes[pe].breaths.Store(int64(1 + rng.IntN(1500)))
		}
	}
	for _, nd := range c.nodes {
		if rng.IntN(4) == 0 {
			sends := 1 + rng.IntN(300)
			nd.order(func() { nd.sends = sends })
		}
	}
	keep := rng.IntN(len(c.pes)) // somebody lives, and its node
	c.pes[keep].breaths.Store(0)
	keeper := c.pes[keep].of
	keeper.order(func() { keeper.sends = 0 })
	errs := c.each(c.but(), func(ctx context.Context, x *process) error {
		h := all[x.pe]
		err := wander(ctx, x, h, seed, long)
		h.alive = err == nil
		return err
	})
	for pe, err := range errs {
		if err != nil && !errors.Is(err, errGone) {
			t.Errorf("PE %d: %v after %d steps, the last one %q", pe, err, len(all[pe].steps), all[pe].steps[max(0, len(all[pe].steps)-2):])
		}
	}
	if t.Failed() {
		return 0
	}
	return compare(t, all)
}

// wander calls collectives, on a team that is tolerant or not.
func wander(ctx context.Context, x *process, h *history, seed uint64, long int) error {
	rng := rand.New(rand.NewPCG(seed, 99)) // the same for all
	team := x.world
	for step := range long {
		ok, err := oneStep(ctx, x, team, rng, h)
		if err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		if ok && rng.IntN(10) > 0 {
			continue
		}
		a, err := team.Agree(ctx, ^uint64(0))
		if err != nil {
			return fmt.Errorf("agreement after step %d: %w", step, err)
		}
		if slices.Contains(a.Failed, team.me) || a.Flags != ^uint64(0) {
			return fmt.Errorf("agreement %+v, want one with member %d", a, team.me)
		}
		h.add("failed %v of %v", a.Failed, team.pes)
		made, err := team.Survivors(ctx, rng.IntN(3) > 0)
		if err != nil {
			return fmt.Errorf("survivors after step %d: %w", step, err)
		}
		if team != x.world {
			team.Release()
		}
		if made.Near != nil {
			h.add("near %v", made.Near.PEs())
			return nil
		}
		if team = made.Far; team.me < 0 || team.pes[team.me] != x.pe {
			return fmt.Errorf("survivors %v, want this PE %d among them", team.pes, x.pe)
		}
		h.add("team %v", team.pes)
	}
	return nil
}

// oneStep calls one collective of a kind by chance. ok is false if the team is of no more use.
func oneStep(ctx context.Context, x *process, team *Team, rng *rand.Rand, h *history) (ok bool, err error) {
	kind, word, size := rng.IntN(7), rng.Uint64(), 1+rng.IntN(200)
	var failed []int
	switch kind {
	case 0, 1:
		var d Difference
		if d, err = team.Same(ctx, coll.Words{word}); err == nil {
			failed = d.Failed
			h.add("same %v first %d failed %v", d.FirstWords, d.First, d.Failed)
		}
	case 2:
		var d Difference
		var got []string
		mine := make([]byte, size)
		mine[0], mine[size-1] = byte(x.pe), byte(x.pe)
		d, err = team.Gather(ctx, coll.Words{word}, []int{len(team.pes), 1000}[rng.IntN(2)], mine, func(i int, data []byte) {
			got = append(got, fmt.Sprint(i, len(data), data[0], data[len(data)-1]))
		})
		if err == nil {
			failed = d.Failed
			h.add("gather %v failed %v", got, d.Failed)
			if want := fmt.Sprint(team.me, size, byte(x.pe), mine[size-1]); !slices.Contains(got, want) {
				return false, fmt.Errorf("gathered %q, want %q among them", got, want)
			}
			if len(got)+len(d.Failed) > len(team.pes) {
				return false, fmt.Errorf("gathered %q, failed %v", got, d.Failed)
			}
		}
	case 3:
		a, e := team.Agree(ctx, word|1<<team.me)
		if e != nil {
			return false, fmt.Errorf("agreement: %w", e)
		}
		failed = a.Failed
		h.add("agree %x failed %v", a.Flags, a.Failed)
	case 4:
		members := rng.Perm(len(team.pes))[:1+rng.IntN(len(team.pes))]
		list := members
		if !slices.Contains(members, team.me) {
			list = nil
		}
		made, e := team.Split(ctx, word, list, rng.IntN(2) == 0)
		if err = e; e == nil {
			h.add("split %v", members)
			err = useSplit(ctx, made)
			if dead, is := errors.AsType[*coll.DeadError](err); err == nil || is || errors.Is(err, coll.ErrBroken) {
				_ = dead // members of the new team alone know
				err = nil
			}
		} else if _, is := errors.AsType[*coll.DeadError](e); is && team.tolerant && !team.broken.Load() {
			h.add("split fails: %v", e)
			return true, nil
		}
	case 5:
		var d Difference
		d, err = team.Conclude(ctx, coll.Words{word}, nil)
		if errors.Is(err, ErrAgain) {
			err = nil
		}
		failed = d.Failed
		if err == nil {
			h.add("conclude failed %v", failed)
		}
	case 6:
		mine := make([]byte, size) // a count at the member's own place: what is folded twice is seen, and who is left out
		if at := team.me; at < size {
			mine[at] = 1
		}
		var d Difference
		if d, err = team.Fold(ctx, coll.Words{word}, fold.KindSum, fold.Uint8, mine, func(folded []byte) { copy(mine, folded) }); err == nil {
			failed = d.Failed
			h.add("fold %v failed %v", mine, d.Failed)
			for at := range min(size, len(team.pes)) {
				if want := slices.Contains(d.Failed, at); want != (mine[at] == 0) || mine[at] > 1 {
					return false, fmt.Errorf("folded %v, failed %v", mine, d.Failed)
				}
			}
		}
	}
	if slices.Contains(failed, team.me) {
		return false, fmt.Errorf("failed %v, and this is member %d", failed, team.me)
	}
	if err == nil {
		return true, nil
	}
	if _, is := errors.AsType[*coll.DeadError](err); is || errors.Is(err, coll.ErrBroken) {
		h.add("kind %d: the team is of no more use: %v", kind, err)
		return false, nil
	}
	return false, err
}

// useSplit uses what Split has made, and ends it.
func useSplit(ctx context.Context, made Made) error {
	switch {
	case made.Near != nil:
		return made.Near.Dissolve(ctx)
	case made.Far != nil:
		err := meet(ctx, made.Far)
		return errors.Join(err, made.Far.Dissolve(ctx, coll.Words{}))
	}
	return nil
}
