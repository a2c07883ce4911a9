package shmem_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// Calls on teams that cannot be get the same error on all PEs, and nothing is made.
func TestBadTeams(t *testing.T) {
	shmemtest.Run(t, 4, func(t *testing.T, w *shmem.World) {
		team := w.Team()
		for _, x := range []struct {
			start, stride, size int
			words               []string
		}{
			{0, 1, 5, []string{"5 PEs of a team of 4"}},
			{0, 1, 0, []string{"0 PEs", "1 to 4"}},
			{0, 1, -3, []string{"-3 PEs"}},
			{-1, 1, 1, []string{"first PE -1"}},
			{4, -1, 2, []string{"first PE 4"}},
			{0, 0, 2, []string{"stride 0 of 2 PEs"}},
			{1, 1, 4, []string{"4 PEs from PE 1 on with stride 1"}},
			{2, -1, 4, []string{"4 PEs from PE 2 on with stride -1"}},
			{0, 1 << 62, 3, []string{"stride 4611686018427387904"}},
			{0, -1 << 63, 2, []string{"stride -9223372036854775808"}},
		} {
			got, err := team.SplitStrided(x.start, x.stride, x.size, nil)
			refused(t, err, shmem.ErrArgument, append(x.words, "shmem.Team.SplitStrided")...)
			if got != nil {
				t.Errorf("%+v is a team", x)
			}
		}
		for _, xrange := range []int{0, -1} {
			x, y, err := team.Split2D(xrange, nil, nil)
			refused(t, err, shmem.ErrArgument, "Split2D", fmt.Sprint("rows of ", xrange))
			if x != nil || y != nil {
				t.Error("a team was made")
			}
		}
		_, err := team.SplitStrided(0, 1, 2, &shmem.TeamConfig{Mode: 9})
		refused(t, err, shmem.ErrArgument, "mode 9")
		_, _, err = team.Split2D(2, nil, &shmem.TeamConfig{Mode: 9})
		refused(t, err, shmem.ErrArgument, "mode 9")
		_, err = team.SplitStrided(0, 1, 2, &shmem.TeamConfig{NumContexts: -1})
		refused(t, err, shmem.ErrArgument, "NumContexts -1", "want 0 or more")
		for range 70 { // more than there can be teams: the rows that were made go again
			_, _, err = team.Split2D(2, nil, &shmem.TeamConfig{NumContexts: -1})
			refused(t, err, shmem.ErrArgument, "NumContexts -1")
		}
		_, err = team.SplitStrided(0, 1, 2, &shmem.TeamConfig{NumContexts: 2 - w.MyPE()})
		refused(t, err, shmem.ErrMismatch, "PE 3", "negative NumContexts")

		_, err = team.SplitStrided(w.MyPE()/3, 1, 2, nil)
		refused(t, err, shmem.ErrMismatch, "PE 0 of the team called Team.SplitStrided(0, 1, 2)", "PE 3 called Team.SplitStrided(1, 1, 2)")
		_, _, err = team.Split2D(2+w.MyPE()/2, nil, nil)
		refused(t, err, shmem.ErrMismatch, "Split2D(2)", "PE 2 called Team.Split2D(3)")
		_, err = team.SplitStrided(0, 1, 2, &shmem.TeamConfig{Mode: shmem.ModeTolerant + shmem.Mode(w.MyPE()/3)})
		refused(t, err, shmem.ErrMismatch, "with ModeTolerant", "with ModeStrict")
		if w.MyPE() == 1 {
			err = fails(shmem.Alloc[byte](w, 24))
		} else {
			_, err = team.SplitStrided(0, 1, 2, nil)
		}
		refused(t, err, shmem.ErrMismatch, "PE 0", "SplitStrided(0, 1, 2)", "PE 1 called Alloc of 24 bytes")

		for _, none := range []*shmem.Team{nil, {}} {
			_, err = none.SplitStrided(0, 1, 1, nil)
			refused(t, err, shmem.ErrArgument, "team is nil")
			_, _, err = none.Split2D(1, nil, nil)
			refused(t, err, shmem.ErrArgument, "team is nil")
			_, err = none.Config()
			refused(t, err, shmem.ErrArgument, "team is nil")
		}
		refused(t, (&shmem.Team{}).Destroy(), shmem.ErrArgument, "team is nil")
		ok(t, w.Barrier())
	})
}

// A team that was destroyed says so, whoever has a handle of it.
func TestDestroyedTeam(t *testing.T) {
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		x, y := must(shmem.Calloc[int64](w, 6))(t), must(shmem.Calloc[int64](w, 6))(t)
		team := reversed(t, w, nil)
		with := team.With(t.Context())
		ok(t, team.Destroy())
		for _, dead := range []*shmem.Team{team, with, team.With(t.Context())} {
			refused(t, dead.Sync(), shmem.ErrDestroyed, "Team.Sync", "destroyed")
			refused(t, dead.Destroy(), shmem.ErrDestroyed)
			refused(t, shmem.Broadcast(dead, x, y, 0), shmem.ErrDestroyed, "Broadcast")
			refused(t, shmem.Reduce(dead, x, y, shmem.Sum), shmem.ErrDestroyed)
			refused(t, shmem.Alltoall(dead, x, y), shmem.ErrDestroyed)
			refused(t, shmem.FCollect(dead, x, y.Slice(0, 2)), shmem.ErrDestroyed)
			_, err := dead.SplitStrided(0, 1, 1, nil)
			refused(t, err, shmem.ErrDestroyed)
			_, _, err = dead.Split2D(1, nil, nil)
			refused(t, err, shmem.ErrDestroyed)
			_, err = dead.Config()
			refused(t, err, shmem.ErrDestroyed)
			if _, reaches := shmem.PeerIn(dead, x, 0); reaches {
				t.Error("an object of a destroyed team is reached")
			}
		}
		ok(t, w.Barrier())
	})
}

// Teams and contexts that are left end with the world, and the next one has all ids.
func TestTeamsEndWithWorld(t *testing.T) {
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		for range 3 {
			var last *shmem.Team
			for k := range 61 {
				last = must(w.Team().SplitStrided(2, -1, 3, nil))(t)
				if k == 60 {
					_, err := w.Team().SplitStrided(0, 1, 1, nil)
					refused(t, err, shmem.ErrTooMany)
				}
			}
			c := must(last.NewCtx())(t)
			node := w.Shared()
			ok(t, node.Sync())
			ok(t, w.Finalize())
			refused(t, last.Sync(), shmem.ErrFinalized)
			refused(t, last.Destroy(), shmem.ErrFinalized)
			refused(t, node.Sync(), shmem.ErrFinalized)
			refused(t, c.Quiet(), shmem.ErrFinalized)
			refused(t, c.Destroy(), shmem.ErrFinalized)
			w = must(shmem.Init())(t)
			ok(t, w.Shared().Sync())
		}
		ok(t, w.Finalize())
	})
}

// Teams come and go without end; so do contexts.
func TestTeamCycles(t *testing.T) {
	cycles := 10_000
	if testing.Short() {
		cycles = 500
	}
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		x := must(shmem.Calloc[int64](w, 1))(t)
		var before, after runtime.MemStats
		for cycle := range cycles {
			team := must(w.Team().SplitStrided(cycle%3, 1, 3-cycle%3, nil))(t)
			if team != nil {
				c := must(team.NewCtx())(t)
				ok(t, shmem.AtomicInc(c, x, team.NPEs()-1))
				if cycle%2 == 0 {
					ok(t, c.Destroy())
				}
				ok(t, team.Destroy())
			}
			if cycle == cycles/2 {
				runtime.GC()
				runtime.ReadMemStats(&before)
			}
		}
		runtime.GC()
		if runtime.ReadMemStats(&after); after.HeapAlloc > before.HeapAlloc+256<<10 {
			t.Errorf("%d bytes are in use after %d cycles, %d after half of them", after.HeapAlloc, cycles, before.HeapAlloc)
		}
		ok(t, w.Barrier())
		if got, want := x.Local()[0], int64(cycles/3*6+[]int{0, 3, 5}[cycles%3]); w.MyPE() == 2 && got != want {
			t.Errorf("%d operations came, want %d", got, want)
		}
	})
}

// A team in any order of PEs is reached by all operations, as are those in an
// arithmetic sequence.
func TestIrregularTeam(t *testing.T) {
	shmemtest.Run(t, 5, func(t *testing.T, w *shmem.World) {
		x := must(shmem.Calloc[uint64](w, 64))(t)
		for _, members := range [][]int{{3, 0, 4}, {4, 1, 2, 0, 3}, {0, 3, 1}, {2, 1}, {1}} {
			team := must(shmem.TeamOf(w.Team(), members))(t)
			if team != nil {
				c := must(team.NewCtx())(t)
				pe := (team.MyPE() + 1) % team.NPEs()
				teamOperations(t, c, x, pe)
				if there, _ := x.Peer(members[pe]); there[20] != 77 {
					t.Errorf("%v: operations on %d have not come to PE %d", members, pe, members[pe])
				}
				refused(t, shmem.P(c, x, 1, team.NPEs()), shmem.ErrPERange)
				refused(t, shmem.P(c, x.At(64), 1, 0), shmem.ErrBounds)
				refused(t, c.QuietPE(-1), shmem.ErrPERange)
				if n := testing.AllocsPerRun(100, func() { _ = shmem.P(c, x, 1, pe) }); n != 0 {
					t.Errorf("%v: P allocates %v times", members, n)
				}
				ok(t, team.Destroy())
				refused(t, shmem.P(c, x, 1, 0), shmem.ErrDestroyed)
			}
			ok(t, w.Barrier())
			clear(x.Local())
			ok(t, w.Barrier())
		}
	})
}

// gathering is a team and which PEs are in it.
type gathering struct {
	team *shmem.Team
	pes  []int
}

// crowds makes overlapping teams of a team, the same on all its PEs.
func crowds(t *testing.T, w *shmem.World, parent gathering, rng *rand.Rand, n int) (all []gathering) {
	t.Helper()
	for range n {
		size := len(parent.pes)
		stride := 1 + rng.IntN(2)
		count := 1 + rng.IntN((size-1)/stride+1)
		start := rng.IntN(size - (count-1)*stride)
		if rng.IntN(2) == 0 {
			start, stride = start+(count-1)*stride, -stride
		}
		team := must(parent.team.SplitStrided(start, stride, count, nil))(t)
		var pes []int
		for _, i := range strided(start, stride, count) {
			pes = append(pes, parent.pes[i])
		}
		if (team != nil) != slices.Contains(pes, w.MyPE()) {
			t.Fatalf("%d, %d, %d of %v: team %v", start, stride, count, parent.pes, team)
		}
		if team != nil {
			all = append(all, gathering{team, pes})
		}
	}
	return all
}

// collectives makes one of each kind on a team, back to back, and checks what comes.
func collectives(t *testing.T, w *shmem.World, c gathering, x, y shmem.Sym[int64], salt int64) {
	t.Helper()
	n := len(c.pes)
	src, dst := x.Slice(0, n), y.Slice(0, n)
	fill := func() {
		for i := range src.Local() {
			src.Local()[i] = salt + int64(100*w.MyPE()+i)
		}
	}
	same := func(what string, got []int64, want func(i int) int64) {
		t.Helper()
		for i, v := range got {
			if v != want(i) {
				t.Fatalf("%s on %v, salt %d: element %d is %d, want %d", what, c.pes, salt, i, v, want(i))
			}
		}
	}
	fill()
	root := int(salt) % n
	ok(t, shmem.Broadcast(c.team, dst, src, root))
	same("Broadcast", dst.Local(), func(i int) int64 { return salt + int64(100*c.pes[root]+i) })
	ok(t, shmem.Reduce(c.team, dst, src, shmem.Max))
	same("Reduce", dst.Local(), func(i int) int64 { return salt + int64(100*slices.Max(c.pes)+i) })
	ok(t, shmem.Alltoall(c.team, dst, src))
	same("Alltoall", dst.Local(), func(i int) int64 { return salt + int64(100*c.pes[i]+c.team.MyPE()) })
	ok(t, shmem.FCollect(c.team, dst, src.At(0)))
	same("FCollect", dst.Local(), func(i int) int64 { return salt + int64(100*c.pes[i]) })
	ok(t, c.team.Sync())
}

// Collectives on overlapping teams, teams of teams and teams of one, in any order and
// back to back, with many more PEs than processors.
func TestAnyTeamAnyOrder(t *testing.T) {
	rounds := map[int]int{3: 30, 8: 10, 64: 2}
	for _, n := range []int{3, 8, 64} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			shmemtest.Run(t, n, func(t *testing.T, w *shmem.World) {
				x, y := must(shmem.Calloc[int64](w, n))(t), must(shmem.Calloc[int64](w, n))(t)
				rng := rand.New(rand.NewPCG(uint64(n), 7)) // the same on all PEs
				for round := range rounds[n] {
					world := gathering{w.Team(), strided(0, 1, n)}
					node := gathering{w.Shared(), world.pes}
					all := append([]gathering{node, world}, crowds(t, w, world, rng, 3)...)
					if row, column, err := w.Team().Split2D(1+rng.IntN(n), nil, nil); err == nil {
						_, _ = row, column
						ok(t, row.Sync())
						ok(t, column.Sync())
						ok(t, column.Destroy())
						ok(t, row.Destroy())
					} else {
						t.Fatal(err)
					}
					seed := rng.Uint64()
					for _, c := range all[2:] { // teams of teams, which only some PEs make
						all = append(all, crowds(t, w, c, rand.New(rand.NewPCG(seed, uint64(len(c.pes)))), 1)...)
					}
					for k := range 2 {
						for _, c := range all {
							collectives(t, w, c, x, y, int64(10_000*round+k))
						}
					}
					slices.Reverse(all[2:])
					for _, c := range all[2:] {
						ok(t, c.team.Destroy())
					}
				}
			}, shmemtest.Timeout(2*time.Minute))
		})
	}
}

// A PE is killed while the others make or destroy a team: each of them gets an error
// that names it by its number in the world, and teams without it go on.
func TestDeathInTeamCalls(t *testing.T) {
	const npes, victim = 4, 1
	type env struct {
		w          *shmem.World
		team, rest *shmem.Team // reversed and strict; the PEs but the victim: 0 and 2, and 3
	}
	for op, call := range map[string]func(e env) error{
		"Team.SplitStrided": func(e env) error { return fails(e.team.SplitStrided(0, 1, 2, nil)) },
		"Team.Split2D": func(e env) error {
			_, _, err := e.team.Split2D(2, nil, nil)
			return err
		},
		"Team.Destroy": func(e env) error { return e.team.Destroy() },
		"Team.Sync":    func(e env) error { return e.team.Sync() },
	} {
		t.Run(op, func(t *testing.T) {
			shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
				x := must(shmem.Calloc[uint64](w, 64))(t)
				e := env{w, reversed(t, w, &shmem.TeamConfig{Mode: shmem.ModeStrict}), must(shmem.TeamOf(w.Team(), []int{3, 0, 2}))(t)}
				soft := reversed(t, w, &shmem.TeamConfig{Mode: shmem.ModeTolerant})
				c := must(e.team.NewCtx())(t)
				if w.MyPE() == victim {
					dieWhen(w, 0, 2, 3)
				}
				lost(t, op, call(e), victim)
				for !shmem.Noticed(w) {
					runtime.Gosched()
				}
				if op == "Team.Destroy" {
					refused(t, e.team.Sync(), shmem.ErrDestroyed)
					refused(t, shmem.P(c, x, 1, 0), shmem.ErrDestroyed)
				} else {
					lost(t, "Team.Sync", e.team.Sync(), victim)
					lost(t, "P", shmem.P(c, x, 1, npes-1-victim), victim)
					lost(t, "Ctx.QuietPE", c.QuietPE(0, npes-1-victim), victim)
					teamOperations(t, c, x, e.team.MyPE())
					lost(t, "Team.Destroy", e.team.Destroy(), victim)
				}
				ok(t, soft.Sync())
				lost(t, "Team.SplitStrided", fails(soft.SplitStrided(0, 1, 1, nil)), victim) // strict in any mode
				_, _, err := soft.Split2D(2, nil, nil)
				lost(t, "Team.Split2D", err, victim)
				ok(t, soft.Sync())
				ok(t, soft.Destroy())
				d := must(e.rest.NewCtx())(t)
				teamOperations(t, d, x, (e.rest.MyPE()+1)%3)
				for range 70 { // ids come back
					sub := must(e.rest.SplitStrided(2, -1, 3, nil))(t)
					ok(t, sub.Sync())
					ok(t, sub.Destroy())
				}
				ok(t, e.rest.Destroy())
			}, shmemtest.Recover(victim))
		})
	}
}

// PEs are killed at random moments of making, using and destroying teams: nobody hangs,
// and all survivors fail alike.
func TestDeathsAmongTeams(t *testing.T) {
	jobs := 6
	if testing.Short() {
		jobs = 2
	}
	for seed := range uint64(jobs) {
		const npes = 4
		rng := rand.New(rand.NewPCG(seed, 11))
		victim, after := rng.IntN(npes), rng.IntN(2000)
		shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
			if w.MyPE() == victim {
				go func() {
					for range after {
						runtime.Gosched()
					}
					die()
				}()
			}
			var err error
			for err == nil {
				var row, column *shmem.Team
				if row, column, err = w.Team().Split2D(2, nil, nil); err != nil {
					lost(t, "Team.Split2D", err, victim)
					break
				}
				for _, team := range []*shmem.Team{row, column} {
					_ = team.Sync() // which knows of the victim only if it is in the team
					_ = team.Destroy()
				}
			}
			survivors := slices.DeleteFunc(strided(0, 1, npes), func(pe int) bool { return pe == victim })
			if got := w.Failed(); !slices.Equal(got, []int{victim}) {
				t.Errorf("Failed() = %v, survivors %v", got, survivors)
			}
		}, shmemtest.Recover(victim))
	}
}

// A collective on a team that is canceled breaks that team alone.
func TestTeamWith(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		x := must(shmem.Calloc[int64](w, 1))(t)
		team := reversed(t, w, nil)
		if w.MyPE() == 1 { // not to arrive before PE 0 has given up
			ok(t, shmem.WaitUntil(w.Ctx(), x, shmem.EQ, 1))
		} else {
			ctx, cancel := context.WithCancelCause(t.Context())
			cause := errors.New("enough")
			cancel(cause)
			refused(t, team.With(ctx).Sync(), cause, "Team.Sync: waiting for PE 1")
			refused(t, team.Sync(), shmem.ErrTeamBroken, "hint: Team.Shrink")
			ok(t, shmem.P(w.Ctx(), x, 1, 1))
		}
		again := must(team.Shrink())(t) // as the hint says
		ok(t, again.Sync())
		ok(t, again.Destroy())
		if w.MyPE() == 0 {
			refused(t, team.Destroy(), shmem.ErrTeamBroken)
			refused(t, team.Sync(), shmem.ErrDestroyed)
		}
		ok(t, w.Barrier())
		ok(t, w.Shared().Sync())
	})
}
