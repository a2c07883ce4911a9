package spanning

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/internal/fold"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// A step ends on all members when all have entered it, with the same decision. Nobody is ahead of a step that another
// member has not entered.
func TestSame(t *testing.T) {
	for _, near := range shapes(t, []int{1, 1}, []int{2, 1}, []int{1, 2}, []int{3, 2, 1}, []int{1, 1, 1, 1}) {
		t.Run(fmt.Sprint(near), func(t *testing.T) {
			c := newCluster(t, near...)
			var entered atomic.Int64
			fatal(t, errors.Join(c.each(c.but(), func(ctx context.Context, x *process) error {
				for round := range int64(200) {
					entered.Add(1)
					w := coll.Words{uint64(round), 1, 2, 3}
					odd := int(round) % (2 * len(c.pes))
					if odd == int(x.pe) && odd > 0 {
						w[1] = 9
					}
					d, err := x.world.Same(ctx, w)
					if err != nil {
						return err
					}
					if n := entered.Load(); n < (round+1)*int64(len(c.pes)) {
						return fmt.Errorf("round %d ended when %d had entered", round, n)
					}
					want := Difference{First: 0, Differs: odd, FirstWords: coll.Words{uint64(round), 1, 2, 3}, DifWords: coll.Words{uint64(round), 9, 2, 3}}
					if odd == 0 || odd >= len(c.pes) {
						want.Differs, want.DifWords = -1, coll.Words{}
					}
					if fmt.Sprint(d) != fmt.Sprint(want) {
						return fmt.Errorf("round %d: %+v, want %+v", round, d, want)
					}
				}
				return nil
			})...))
		})
	}
}

// Of several members that differ, the lowest is named.
func TestLowestDiffers(t *testing.T) {
	c := newCluster(t, 2, 3, 2)
	for _, odd := range [][]int{{1}, {2, 3}, {4, 6}, {1, 5}, {6}, {3}} {
		fatal(t, errors.Join(c.each(c.but(), func(ctx context.Context, x *process) error {
			w := coll.Words{5}
			if slices.Contains(odd, int(x.pe)) {
				w[0] = uint64(x.pe)
			}
			d, err := x.world.Same(ctx, w)
			if err == nil && (d.Differs != odd[0] || d.FirstWords[0] != 5 || d.DifWords[0] != uint64(odd[0])) {
				err = fmt.Errorf("%+v, want member %d", d, odd[0])
			}
			return err
		})...))
	}
}

// Gather passes what each giver gives, in the order of the team, and what it gives next does not disturb members that still read.
// The team's ids differ from node to node.
func TestGather(t *testing.T) {
	c := newCluster(t, 2, 1, 2)
	fatal(t, errors.Join(c.each(c.but(), func(ctx context.Context, x *process) error {
		if x.pe < 2 { // takes an id on node 0
			if _, err := coll.Split(ctx, x.parts, []int{0, 1}, false); err != nil {
				return err
			}
		}
		order := []int{3, 0, 4, 2, 1}
		made, err := x.world.Split(ctx, 7, order, false)
		if err != nil {
			return err
		}
		team := made.Far
		for round := range 150 {
			givers := []int{5, 3, 1000}[round%3] // the last one: so many that members read
			size := min(1+round*9, MostGathered(givers))
			mine := make([]byte, size)
			for i := range mine {
				mine[i] = byte(team.me + round + i)
			}
			if givers < 5 && team.me >= givers {
				mine = nil
			}
			next := 0
			d, err := team.Gather(ctx, coll.Words{uint64(round)}, givers, mine, func(i int, data []byte) {
				if i != next || len(data) != size || data[0] != byte(i+round) || data[size-1] != byte(i+round+size-1) {
					next = -1000
				}
				next++
			})
			if want := min(givers, 5); err != nil || d.Differs >= 0 || next != want {
				return fmt.Errorf("round %d: %d members, %+v, error %w, want %d", round, next, d, err, want)
			}
		}
		for _, givers := range []int{5, 1000} {
			d, err := team.Gather(ctx, coll.Words{uint64(team.me)/3 + 1}, givers, nil, func(int, []byte) { t.Error("take is called though words differ") })
			if err != nil || d.Differs != 3 || d.FirstWords != (coll.Words{1}) {
				return fmt.Errorf("%+v, error %w, want member 3 to differ from 1", d, err)
			}
		}
		return nil
	})...))
}

// Fold passes the fold of what all members give, to members that fold their own in place, too. Members that differ in anything are
// told so, and members whose words hide it get ErrBroken.
func TestFold(t *testing.T) {
	c := newCluster(t, 2, 1, 2)
	fatal(t, errors.Join(c.each(c.but(), func(ctx context.Context, x *process) error {
		made, err := x.world.Split(ctx, 7, []int{3, 0, 4, 2, 1}, false)
		if err != nil {
			return err
		}
		team := made.Far
		for round := range 150 {
			mine, want := make([]byte, 1+round*(MostFolded-1)/149), make([]byte, 1+round*(MostFolded-1)/149)
			for i := range mine {
				mine[i], want[i] = byte(team.me*(round+i)), byte(10*(round+i))
			}
			w := coll.Words{uint64(round)}
			d, err := team.Fold(ctx, w, fold.KindSum, fold.Uint8, mine, func(folded []byte) { copy(mine, folded) })
			if err != nil || d.Differs >= 0 || d.Failed != nil || !slices.Equal(mine, want) {
				return fmt.Errorf("round %d: %v, %+v, error %w, want %v", round, mine, d, err, want)
			}
		}
		never := func([]byte) { t.Error("take is called though members differ") }
		d, err := team.Fold(ctx, coll.Words{uint64(team.me)/3 + 1}, fold.KindMin+fold.Kind(team.me/3), fold.Int8, []byte{1}, never)
		if err != nil || d.Differs != 3 || d.FirstWords != (coll.Words{1}) {
			return fmt.Errorf("%+v, error %w, want member 3 to differ from 1", d, err)
		}
		if _, err = team.Fold(ctx, coll.Words{}, fold.KindSum, fold.Int8+fold.Elem(team.me/3), []byte{1, 2}, never); !errors.Is(err, coll.ErrBroken) {
			return fmt.Errorf("members that hide what they give: %w, want ErrBroken", err)
		}
		if err := meet(ctx, team); !errors.Is(err, coll.ErrBroken) {
			return fmt.Errorf("a step of a broken team: %w, want ErrBroken", err)
		}
		return nil
	})...))
}

// What all givers give at most fits into a result, whatever their number.
func TestMostGathered(t *testing.T) {
	c := newCluster(t, 4, 4)
	fatal(t, errors.Join(c.each(c.but(), func(ctx context.Context, x *process) error {
		for givers := 1; givers <= 8; givers++ {
			mine, n := make([]byte, MostGathered(givers)), 0
			if int(x.pe) >= givers {
				mine = nil
			}
			_, err := x.world.Gather(ctx, coll.Words{}, givers, mine, func(i int, data []byte) { n += len(data) })
			if err != nil || n != givers*MostGathered(givers) {
				return fmt.Errorf("%d givers: %d bytes, error %w", givers, n, err)
			}
		}
		return nil
	})...))
}

// Split makes teams on one node and teams that span nodes, in any order of members. They work, and end, and their ids are used
// again more often than there are ids. The agents keep nothing of them.
func TestSplit(t *testing.T) {
	c := newCluster(t, 2, 3, 1)
	lists := [][][]int{ // the teams of each Split
		{{0, 1, 2, 3, 4, 5}},
		{{5, 4, 3, 2, 1, 0}},
		{{0, 1}, {2, 3, 4}, {5}},
		{{0, 2, 4}, {1, 3, 5}},
		{{4, 1}, {5, 2}},
		{{3, 5, 0}},
		{{1}},
	}
	fatal(t, errors.Join(c.each(c.but(), func(ctx context.Context, x *process) error {
		for round := range 300 {
			var mine []int
			for _, l := range lists[round%len(lists)] {
				if slices.Contains(l, int(x.pe)) {
					mine = l
				}
			}
			made, err := x.world.Split(ctx, 7, mine, round%2 == 0)
			if err == nil {
				err = x.check(ctx, made, mine)
			}
			if err != nil {
				return fmt.Errorf("PE %d, round %d: %w", x.pe, round, err)
			}
		}
		return nil
	})...))
	c.wantTeams(1)
}

// wantTeams fails the test unless the agents come to know as many teams, and to keep nothing for teams that they do not know. What
// other agents have said of teams that are gone may still come.
func (c *cluster) wantTeams(want int) {
	c.t.Helper()
	for _, nd := range c.nodes {
		for known, early, tries := -1, -1, 0; known != want || early != 0; tries++ {
			runtime.Gosched()
			nd.order(func() {
				inside := reflect.ValueOf(nd.teams).Elem()
				known, early = inside.FieldByName("named").Len(), inside.FieldByName("early").Len()
			})
			if known < want || tries > 100000 {
				c.t.Fatalf("agent of node %d knows %d teams, and has %d messages for others, want %d and 0", nd.index, known, early, want)
			}
		}
	}
}

// check uses a team that Split has made of some members of the world, and dissolves it.
func (x *process) check(ctx context.Context, made Made, members []int) error {
	switch {
	case len(members) == 0:
		if made != (Made{}) {
			return fmt.Errorf("no list, and a team %+v", made)
		}
		return nil
	case made.Near != nil:
		if made.Far != nil || made.Near.Size() != len(members) {
			return fmt.Errorf("list %v, and a team of %d", members, made.Near.Size())
		}
		if err := made.Near.Sync(ctx); err != nil {
			return err
		}
		return made.Near.Dissolve(ctx)
	case made.Far.Size() != len(members):
		return fmt.Errorf("list %v, and a team of %d", members, made.Far.Size())
	}
	for range 3 {
		if err := meet(ctx, made.Far); err != nil {
			return err
		}
	}
	d, err := made.Far.Same(ctx, coll.Words{uint64(x.pe)})
	if err != nil || d.Differs != 1 {
		return fmt.Errorf("%+v, error %w, want member 1", d, err)
	}
	again, err := made.Far.Split(ctx, 8, allOf(len(members)), false)
	if err != nil {
		return err
	}
	if err := meet(ctx, again.Far); err != nil {
		return err
	}
	if err := again.Far.Dissolve(ctx, coll.Words{}); err != nil {
		return err
	}
	if err := made.Far.Dissolve(ctx, coll.Words{}); err != nil {
		return err
	}
	if err := meet(ctx, made.Far); !errors.Is(err, coll.ErrReleased) {
		return fmt.Errorf("a dissolved team: %w, want ErrReleased", err)
	}
	made.Far.Leave() // which writes nothing: the words may be another team's
	return nil
}

// Bad lists, other calls and too many teams are errors on all members alike, and the team goes on.
func TestSplitRefused(t *testing.T) {
	c := newCluster(t, 2, 2)
	split := func(list func(pe int) []int, kind func(pe int) uint64) []error {
		return c.each(c.but(), func(ctx context.Context, x *process) error {
			made, err := x.world.Split(ctx, kind(int(x.pe)), list(int(x.pe)), false)
			if err == nil {
				return x.check(ctx, made, list(int(x.pe)))
			}
			return err
		})
	}
	same := func(int) uint64 { return 3 }
	all := func(int) []int { return allOf(4) }
	wantAll[*coll.MembersError](t, c.but(), split(func(int) []int { return []int{0, 9} }, same))
	wantAll[*coll.MembersError](t, c.but(), split(func(int) []int { return []int{0, 1, 2, 1} }, same))
	wantAll[*DifferError](t, c.but(), split(all, func(pe int) uint64 { return uint64(pe / 2) }))
	fatal(t, errors.Join(split(all, same)...))

	var made [4][]Made
	fatal(t, errors.Join(c.each(c.but(), func(ctx context.Context, x *process) error {
		for {
			m, err := x.world.Split(ctx, 3, allOf(4), false)
			if errors.Is(err, coll.ErrNoID) {
				return nil
			}
			if err != nil {
				return err
			}
			made[x.pe] = append(made[x.pe], m)
		}
	})...))
	fatal(t, errors.Join(c.each(c.but(), func(ctx context.Context, x *process) error {
		for _, m := range made[x.pe] {
			if err := errors.Join(meet(ctx, m.Far), m.Far.Dissolve(ctx, coll.Words{})); err != nil {
				return err
			}
		}
		return nil
	})...))
	if len(made[0]) < 50 {
		t.Errorf("%d teams at once, want some 60", len(made[0]))
	}
	fatal(t, errors.Join(split(all, same)...))
}

// A team that only some nodes have described, as the others could not make it, leaves nothing with the agents once its words are used again.
func TestSplitOnSomeNodes(t *testing.T) {
	c := newCluster(t, 2, 1, 2)
	fatal(t, errors.Join(c.each(c.but(), func(ctx context.Context, x *process) error {
		for round := range 200 {
			list := allOf(5)
			if x.of.index == round%3 {
				list = []int{3, 9}
			}
			_, err := x.world.Split(ctx, 3, list, false)
			if _, is := errors.AsType[*coll.MembersError](err); !is {
				return fmt.Errorf("round %d: %w, want a MembersError", round, err)
			}
		}
		var all []*Team // as many at once as use all words of those before
		for range 8 {
			made, err := x.world.Split(ctx, 3, allOf(5), false)
			if err != nil {
				return err
			}
			all = append(all, made.Far)
		}
		for _, team := range all {
			if err := errors.Join(meet(ctx, team), team.Dissolve(ctx, coll.Words{})); err != nil {
				return err
			}
		}
		return nil
	})...))
	c.wantTeams(1)
}

// Lists that are no groups are found by the part that they are none on.
func TestSplitOverlaps(t *testing.T) {
	c := newCluster(t, 2, 2)
	wantAll[*coll.MembersError](t, c.but(), c.each(c.but(), func(ctx context.Context, x *process) error {
		list := allOf(4)
		if x.pe == 3 {
			list = []int{0, 1, 2}
		}
		_, err := x.world.Split(ctx, 3, list, false)
		return err
	}))
	fatal(t, errors.Join(c.each(c.but(), func(ctx context.Context, x *process) error { return meet(ctx, x.world) })...))
}

// One collective at a time is under way on a team in a PE.
func TestConcurrent(t *testing.T) {
	c := newCluster(t, 1, 1)
	first := make(chan error)
	go func() { first <- meet(t.Context(), c.pes[1].world) }()
	c.asleep(1)
	x := c.pes[1]
	if err := meet(t.Context(), x.world); !errors.Is(err, coll.ErrConcurrent) {
		t.Errorf("second collective at once: %v, want ErrConcurrent", err)
	}
	if err := x.world.Dissolve(t.Context(), coll.Words{}); !errors.Is(err, coll.ErrConcurrent) {
		t.Errorf("Dissolve during a collective: %v, want ErrConcurrent", err)
	}
	if _, err := x.world.Agree(t.Context(), 1); !errors.Is(err, coll.ErrConcurrent) {
		t.Errorf("Agree during a collective: %v, want ErrConcurrent", err)
	}
	fatal(t, meet(t.Context(), c.pes[0].world))
	fatal(t, <-first)
	fatal(t, errors.Join(c.each(c.but(), func(ctx context.Context, x *process) error { return meet(ctx, x.world) })...))
}

// In a further world, steps of the world before mean nothing.
func TestSecondWorld(t *testing.T) {
	c := newCluster(t, 2, 1, 2)
	for world := range 4 {
		fatal(t, errors.Join(c.each(c.but(), func(ctx context.Context, x *process) error {
			for range 20 {
				if err := meet(ctx, x.world); err != nil {
					return err
				}
			}
			made, err := x.world.Split(ctx, 7, allOf(5), true)
			if err != nil {
				return err
			}
			if world%2 == 0 {
				made.Far.Release() // it ends with its world
				return meet(ctx, x.world)
			}
			return errors.Join(meet(ctx, made.Far), made.Far.Dissolve(ctx, coll.Words{}))
		})...))
		for _, x := range c.pes {
			x.p.Clear()
		}
		for _, x := range c.pes {
			var err error
			x.world, err = New(x.p, x.part(false), c.all)
			fatal(t, err)
		}
	}
}

// The words of a team that its members have released belong to the next team with the id, also while the old one's step is open.
func TestReleaseInStep(t *testing.T) {
	c := newCluster(t, 1, 1)
	made := make([]*Team, 2)
	fatal(t, errors.Join(c.each(c.but(), func(ctx context.Context, x *process) error {
		m, err := x.world.Split(ctx, 7, []int{0, 1}, false)
		made[x.pe] = m.Far
		return err
	})...))
	late := make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { late <- meet(ctx, made[1]) }()
	c.asleep(1)
	made[0].Release() // without a mark: member 1 waits until its context ends
	cancel()
	rma.Rouse(&c.nodes[1].m.Control(0).Bell)
	if err := <-late; !errors.Is(err, context.Canceled) {
		t.Fatalf("step without member 0: %v, want the end of its context", err)
	}
	made[1].Release()
	fatal(t, errors.Join(c.each(c.but(), func(ctx context.Context, x *process) error {
		for range 3 * layout.UpperTeams {
			m, err := x.world.Split(ctx, 7, []int{1, 0}, false)
			if err != nil {
				return err
			}
			if err := errors.Join(meet(ctx, m.Far), m.Far.Dissolve(ctx, coll.Words{})); err != nil {
				return err
			}
		}
		return nil
	})...))
}
