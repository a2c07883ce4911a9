package spanning

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/internal/fold"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// A death ends the step, and all later ones, with an error that names the dead, whichever PE it is.
func TestDeath(t *testing.T) {
	for victim := range 6 {
		t.Run(fmt.Sprint(victim), func(t *testing.T) {
			c := newCluster(t, 2, 2, 2)
			alive := c.but(victim)
			go func() { // the death comes when all others wait
				c.asleep(alive...)
				c.bury(victim)
			}()
			step := func(ctx context.Context, x *process) error { return meet(ctx, x.world) }
			wantAll[*coll.DeadError](t, alive, c.each(alive, step))
			wantAll[*coll.DeadError](t, alive, c.each(alive, step)) // also those whose page does not tell the death yet
		})
	}
}

// Members know of different deaths when they enter a step. All get the same list: what all know together.
func TestDifferentDeaths(t *testing.T) {
	for _, tc := range []struct {
		name string
		call func(ctx context.Context, x *process) error
	}{
		{"Same", func(ctx context.Context, x *process) error { return meet(ctx, x.world) }},
		{"Split", func(ctx context.Context, x *process) error {
			_, err := x.world.Split(ctx, 7, allOf(8), false)
			return err
		}},
		{"Gather", func(ctx context.Context, x *process) error {
			_, err := x.world.Gather(ctx, coll.Words{}, 8, []byte{1}, func(int, []byte) {})
			return err
		}},
		{"Gather by reading", func(ctx context.Context, x *process) error {
			_, err := x.world.Gather(ctx, coll.Words{}, 1000, make([]byte, 500), func(int, []byte) {})
			return err
		}},
		{"Dissolve", func(ctx context.Context, x *process) error { return x.world.Dissolve(ctx, coll.Words{}) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCluster(t, 2, 2, 2, 2)
			gone := []int{3, 6, 7} // PE 3 on a node where another one lives
			c.nodes[0].page.PublishAll([]int{6}, 1, 0, 0)
			c.nodes[1].page.PublishAll([]int{3, 7}, 1, 0, 0)
			c.nodes[1].post(len(c.nodes), func() {
				c.nodes[1].dead[1] = true
				c.nodes[1].teams.Dies(1, 0)
			})
			for _, nd := range c.nodes[:3] { // the agents know of the loss, and the page of node 2 of nothing
				nd.post(len(c.nodes), func() {
					nd.lost[3] = true
					nd.teams.DropNode(3)
				})
			}
			alive := c.but(gone...)
			errs := c.each(alive, tc.call)
			wantAll[*coll.DeadError](t, alive, errs)
			if e, _ := errors.AsType[*coll.DeadError](errs[0]); !slices.Equal(e.Members, gone) {
				t.Errorf("members %v have died, want %v", e.Members, gone)
			}
		})
	}
}

// A death of which one member alone knows is reported by all, and by the agents of none.
func TestRumor(t *testing.T) {
	for knows := range 5 {
		c := newCluster(t, 2, 2, 2)
		c.pes[knows].of.page.PublishAll([]int{5}, 1, 0, 0)
		errs := c.each(c.but(), func(ctx context.Context, x *process) error { // PE 5 lives, so that no agent lists it
			return meet(ctx, x.world)
		})
		wantAll[*coll.DeadError](t, c.but(), errs)
		if e, _ := errors.AsType[*coll.DeadError](errs[0]); !slices.Equal(e.Members, []int{5}) {
			t.Errorf("members %v have died, want 5", e.Members)
		}
	}
}

// A member that knows of a death agrees on what to do while all others are in a collective, and know nothing. They do not wait for it
// for ever, and it gets the same error later.
func TestAgreeDuringCollective(t *testing.T) {
	for first := range 5 {
		c := newCluster(t, 2, 2, 2)
		others := c.but(first, 5)
		alive := c.but(5)
		errs := c.each(alive, func(ctx context.Context, x *process) error {
			if int(x.pe) == first {
				c.asleep(others...)
				x.of.page.PublishAll([]int{5}, 1, 0, 0)
				c.nodes[2].post(len(c.nodes), func() { // PE 4 has entered, if it is not this one
					c.nodes[2].dead[1] = true
					c.nodes[2].teams.Dies(1, 0)
				})
				a, err := x.world.Agree(ctx, 2)
				if err != nil || !slices.Equal(a.Failed, []int{5}) {
					return fmt.Errorf("%+v, error %w, want member 5 to have failed", a, err)
				}
				return meet(ctx, x.world)
			}
			err := meet(ctx, x.world)
			if _, e := x.world.Agree(ctx, 2); e != nil {
				return e
			}
			return err
		})
		wantAll[*coll.DeadError](t, alive, errs)
	}
}

// All survivors of a node learn of its loss in the same step.
func TestNodeDeath(t *testing.T) {
	for victim := range 3 {
		t.Run(fmt.Sprint(victim), func(t *testing.T) {
			c := newCluster(t, 2, 2, 2)
			gone := []int{2 * victim, 2*victim + 1}
			alive := c.but(gone...)
			go func() {
				c.asleep(alive...)
				c.killNode(victim)
			}()
			wantAll[*coll.DeadError](t, alive, c.each(alive, func(ctx context.Context, x *process) error { return meet(ctx, x.world) }))
			fatal(t, errors.Join(c.each(alive, func(ctx context.Context, x *process) error {
				a, err := x.world.Agree(ctx, 1<<x.pe|1<<60)
				if err != nil || !slices.Equal(a.Failed, gone) || a.Flags != 1<<60 {
					return fmt.Errorf("%+v, error %w, want %v failed", a, err, gone)
				}
				made, err := x.world.Survivors(ctx, false)
				if err != nil {
					return err
				}
				if made.Far.Size() != 4 {
					return fmt.Errorf("survivors %v", made.Far.PEs())
				}
				return errors.Join(meet(ctx, made.Far), made.Far.Dissolve(ctx, coll.Words{}))
			})...))
		})
	}
}

// All members agree on a death of which only one knows.
func TestAgreeOnRumor(t *testing.T) {
	c := newCluster(t, 1, 2, 1)
	fatal(t, errors.Join(c.each([]int{0, 1, 3}, func(ctx context.Context, x *process) error {
		if x.pe == 3 {
			x.of.page.Publish(2, 1, 0, 0) // the others learn it by the agreement alone, but for the agent that waits for PE 2
			c.asleep(1)                   // else PE 1 would have to learn of the death, too
			c.nodes[1].post(len(c.nodes), func() {
				c.nodes[1].dead[1] = true
				c.nodes[1].teams.Dies(1, 0)
			})
		}
		a, err := x.world.Agree(ctx, 6)
		if err != nil || !slices.Equal(a.Failed, []int{2}) || a.Flags != 6 {
			return fmt.Errorf("PE %d: %+v, error %w, want member 2 to have failed", x.pe, a, err)
		}
		return nil
	})...))
}

// All members of a node die before they have described a team of survivors, one after the other at every moment. The others come to
// a team that works.
func TestDeathsInSurvivors(t *testing.T) {
	for breaths := range int64(60) {
		c := newCluster(t, 2, 1, 1)
		c.pes[3].breaths.Store(1)
		c.pes[2].breaths.Store(breaths + 1)
		errs := c.each(c.but(), func(ctx context.Context, x *process) error {
			made, err := x.world.Survivors(ctx, true)
			if err != nil || made.Near != nil {
				return err
			}
			if err := meet(ctx, made.Far); err != nil {
				return fmt.Errorf("team %v: %w", made.Far.PEs(), err)
			}
			return nil
		})
		fatal(t, errors.Join(errs[0], errs[1]))
	}
}

// Each node has an id for a team of survivors, though no id is free on both. If one has none, all members are told so.
func TestSurvivorsByOwnIDs(t *testing.T) {
	c := newCluster(t, 2, 2)
	fatal(t, errors.Join(c.each(c.but(), func(ctx context.Context, x *process) error {
		var made []*coll.Team
		for {
			m, err := coll.Split(ctx, x.parts, []int{0, 1}, false)
			if errors.Is(err, coll.ErrNoID) {
				break
			}
			if err != nil {
				return err
			}
			made = append(made, m)
		}
		if err := meet(ctx, x.world); err != nil {
			return err
		}
		half := made[:len(made)/2]
		if x.of.index == 1 {
			if _, err := x.world.Survivors(ctx, false); !errors.Is(err, coll.ErrNoID) {
				return fmt.Errorf("survivors without ids: %w, want ErrNoID", err)
			}
			half = made[len(made)/2:]
		}
		for _, m := range half {
			if err := m.Dissolve(ctx); err != nil {
				return err
			}
		}
		if x.of.index == 0 {
			if _, err := x.world.Survivors(ctx, false); !errors.Is(err, coll.ErrNoID) {
				return fmt.Errorf("survivors without ids on node 1: %w, want ErrNoID", err)
			}
		}
		m, err := x.world.Survivors(ctx, false)
		if err != nil {
			return err
		}
		return errors.Join(meet(ctx, m.Far), m.Far.Dissolve(ctx, coll.Words{}))
	})...))
}

// A tolerant team goes on without the dead.
func TestTolerant(t *testing.T) {
	c := newCluster(t, 2, 2, 2)
	fatal(t, errors.Join(c.each(c.but(), func(ctx context.Context, x *process) error {
		made, err := x.world.Survivors(ctx, true)
		x.world = made.Far
		return err
	})...))
	for _, victim := range []int{3, 0, 2} {
		c.killPE(victim)
		c.bury(victim)
	}
	alive := c.but(3, 0, 2)
	fatal(t, errors.Join(c.each(alive, func(ctx context.Context, x *process) error {
		for range 20 {
			d, err := x.world.Same(ctx, coll.Words{4})
			if err != nil || !slices.Equal(d.Failed, []int{0, 2, 3}) || d.First != 1 {
				return fmt.Errorf("%+v, error %w", d, err)
			}
			n := 0
			if _, err = x.world.Gather(ctx, coll.Words{}, 6, []byte{byte(x.pe)}, func(i int, data []byte) { n += int(data[0]) }); err != nil || n != 1+4+5 {
				return fmt.Errorf("gathered %d, error %w", n, err)
			}
		}
		mine := []byte{1 << x.pe, 1}
		d, err := x.world.Fold(ctx, coll.Words{}, fold.KindSum, fold.Uint8, mine, func(folded []byte) { copy(mine, folded) })
		if err != nil || !slices.Equal(d.Failed, []int{0, 2, 3}) || mine[0] != 1<<1|1<<4|1<<5 || mine[1] != 3 {
			return fmt.Errorf("folded %v, %+v, error %w", mine, d, err)
		}
		_, err = x.world.Split(ctx, 7, []int{1, 4, 5}, true)
		if e, is := errors.AsType[*coll.DeadError](err); !is || !slices.Equal(e.Members, []int{0, 2, 3}) {
			return fmt.Errorf("split of a team with dead members: %w", err)
		}
		// A member could not do its part for a death: all do it again.
		var failed error
		if x.pe == 4 {
			failed = &coll.DeadError{Members: []int{2}}
		}
		if _, err := x.world.Conclude(ctx, coll.Words{}, failed); !errors.Is(err, ErrAgain) {
			return fmt.Errorf("conclusion with a death: %w, want ErrAgain", err)
		}
		return meet(ctx, x.world)
	})...))
}

// If a member's context ends while it waits, that member is told so, and all others get ErrBroken, in this step or in
// the next one.
func TestContextEnds(t *testing.T) {
	for late := range 6 {
		t.Run(fmt.Sprint(late), func(t *testing.T) {
			c := newCluster(t, 2, 2, 2)
			missing := (late + 3) % 6 // comes only when the other has given up
			own, cancel := context.WithCancel(t.Context())
			gone := make(chan struct{})
			go func() {
				c.asleep(late)
				cancel()
				rma.Rouse(&c.pes[late].of.m.Control(c.pes[late].local).Bell)
			}()
			errs := c.each(c.but(), func(ctx context.Context, x *process) error {
				switch int(x.pe) {
				case late:
					defer close(gone)
					ctx = own
				case missing:
					<-gone
				}
				err := meet(ctx, x.world)
				if err == nil {
					err = meet(ctx, x.world)
				}
				return err
			})
			for pe, err := range errs {
				want := coll.ErrBroken
				if pe == late {
					want = context.Canceled
				}
				if !errors.Is(err, want) {
					t.Errorf("PE %d: %v, want %v", pe, err, want)
				}
			}
		})
	}
}

// A member that leaves ends the step that it does not enter with an error that names it, whichever member it is and whether
// the others wait already. It does not disturb the steps before.
func TestLeave(t *testing.T) {
	for leaver := range 6 {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprint(leaver, late), func(t *testing.T) {
				c := newCluster(t, 2, 2, 2)
				others := c.but(leaver)
				errs := c.each(c.but(), func(ctx context.Context, x *process) error {
					for range 5 {
						if err := meet(ctx, x.world); err != nil {
							return fmt.Errorf("before PE %d leaves: %w", leaver, err)
						}
					}
					if int(x.pe) != leaver {
						return meet(ctx, x.world)
					}
					if late {
						c.asleep(others...)
					}
					x.world.Leave()
					x.world.Leave() // which does nothing
					return nil
				})
				fatal(t, errs[leaver])
				wantAll[*coll.LeftError](t, others, errs)
				if e, _ := errors.AsType[*coll.LeftError](errs[others[0]]); e.Member != leaver {
					t.Errorf("member %d has left, want %d", e.Member, leaver)
				}
			})
		}
	}
}

// A death is reported rather than that another member has left.
func TestLeaveAfterDeath(t *testing.T) {
	c := newCluster(t, 2, 2, 2)
	c.bury(3)
	c.pes[4].world.Leave()
	alive := c.but(3, 4)
	for _, pe := range alive { // all know
		for c.pes[pe].of.view.Epoch() == 0 {
			c.pes[pe].of.order(func() {})
		}
	}
	wantAll[*coll.DeadError](t, alive, c.each(alive, func(ctx context.Context, x *process) error { return meet(ctx, x.world) }))
}

// A member that could not do its part of a collective makes it fail for all, whichever member it is. The team is broken.
func TestConclude(t *testing.T) {
	for failing := range 6 {
		for _, dies := range []bool{false, true} {
			c := newCluster(t, 2, 2, 2)
			failed := errors.New("out of paper")
			if dies {
				failed = &coll.DeadError{Members: []int{(failing + 1) % 6}} // which the pages do not tell yet
			}
			var before atomic.Int32
			errs := c.each(c.but(), func(ctx context.Context, x *process) error {
				if _, err := x.world.Conclude(ctx, coll.Words{}, nil); err == nil {
					before.Add(1)
				}
				var mine error
				if int(x.pe) == failing {
					mine = failed
				}
				_, err := x.world.Conclude(ctx, coll.Words{}, mine)
				return err
			})
			for pe, err := range errs {
				dead, isDeath := errors.AsType[*coll.DeadError](err)
				switch {
				case dies && (!isDeath || dead.Members[0] != (failing+1)%6):
					t.Errorf("member %d: %v, want the death of member %d", pe, err, (failing+1)%6)
				case !dies && !errors.Is(err, coll.ErrBroken):
					t.Errorf("member %d: %v, want that of a broken team", pe, err)
				}
			}
			if before.Load() != 6 {
				t.Errorf("%d members concluded before a failure, want 6", before.Load())
			}
			for pe, err := range c.each(c.but(), func(ctx context.Context, x *process) error { return meet(ctx, x.world) }) {
				if want := errs[pe]; err == nil || err.Error() != want.Error() {
					t.Errorf("member %d: %v in the next step, want %v", pe, err, want)
				}
			}
		}
	}
}

// The compiler refuses a team that cannot agree on all PEs that a part may have.
const _ = uint(MostVoters - layout.MaxLocal)

// A member whose context ends when it has entered the last step of a Split has no team, and others may have it. They find that it has
// given the team up, and do not wait for it.
func TestContextEndsInSplit(t *testing.T) {
	for round := range 150 {
		c := newCluster(t, 1, 1, 1)
		late := round % 3
		own, cancel := context.WithCancel(t.Context())
		go func() {
			for range round * 20 {
				runtime.Gosched()
			}
			cancel()
			rma.Rouse(&c.pes[late].of.m.Control(c.pes[late].local).Bell)
		}()
		errs := c.each(c.but(), func(ctx context.Context, x *process) error {
			of := ctx
			if int(x.pe) == late {
				of = own
			}
			m, err := x.world.Split(of, 7, []int{0, 1, 2}, false)
			if err == nil {
				err = meet(ctx, m.Far)
			}
			return err
		})
		for pe, err := range errs {
			if err != nil && !errors.Is(err, coll.ErrBroken) && (pe != late || !errors.Is(err, context.Canceled)) {
				t.Fatalf("round %d, PE %d: %v, want nothing or a broken team", round, pe, err)
			}
		}
	}
}

// A member whose context has ended in a step does not come to what follows. Members of its node that have the result of that step
// wait for it in their part there, and get an error.
func TestContextEndsBefore(t *testing.T) {
	split := func(ctx context.Context, t *Team) error {
		_, err := t.Split(ctx, 7, []int{0, 1, 2}, false)
		return err
	}
	survivors := func(ctx context.Context, t *Team) error {
		_, err := t.Survivors(ctx, false)
		return err
	}
	vote := func(ctx context.Context, t *Team) error {
		_, err := t.Agree(ctx, 1)
		return err
	}
	dissolve := func(ctx context.Context, t *Team) error { return t.Dissolve(ctx, coll.Words{5}) }
	for name, c := range map[string]struct {
		step, then func(context.Context, *Team) error
	}{
		"Split": {meet, split}, "Survivors": {vote, survivors}, "Dissolve": {meet, dissolve}, "the end of Dissolve": {step: dissolve},
	} {
		for _, missing := range []int{1, 2} { // of the node of the one whose context ends, and of the other one
			t.Run(fmt.Sprintf("%s, member %d is late", name, missing), func(t *testing.T) { endContextBefore(t, missing, c.step, c.then) })
		}
	}
}

// endContextBefore ends the context of member 0 in a step, in which it waits for the one that is missing.
func endContextBefore(t *testing.T, missing int, step, then func(context.Context, *Team) error) {
	c := newCluster(t, 2, 1)
	own, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		c.asleep(0)
		cancel()
		rma.Rouse(&c.pes[0].of.m.Control(c.pes[0].local).Bell)
	}()
	errs := c.each(c.but(), func(ctx context.Context, x *process) error {
		switch int(x.pe) {
		case 0:
			defer close(gone)
			ctx = own
		case missing:
			<-gone
		}
		err := step(ctx, x.world)
		if err == nil && then != nil {
			err = then(ctx, x.world)
		}
		return err
	})
	for pe, err := range errs {
		want := coll.ErrBroken
		switch {
		case pe == 0:
			want = context.Canceled
		case pe == 2 && then == nil:
			want = nil // its node knows nothing of what is missing on the other one
		}
		if !errors.Is(err, want) {
			t.Errorf("PE %d: %v, want %v", pe, err, want)
		}
	}
}
