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

// All PEs get the same error from an impossible split, and no team is made.
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
			wantError(t, err, shmem.ErrArgument, append(x.words, "shmem.Team.SplitStrided")...)
			if got != nil {
				t.Errorf("SplitStrided%+v made a team", x)
			}
		}
		for _, xrange := range []int{0, -1} {
			x, y, err := team.Split2D(xrange, nil, nil)
			wantError(t, err, shmem.ErrArgument, "Split2D", fmt.Sprint("rows of ", xrange))
			if x != nil || y != nil {
				t.Error("a refused split made a team")
			}
		}
		_, err := team.SplitStrided(0, 1, 2, &shmem.TeamConfig{Mode: 9})
		wantError(t, err, shmem.ErrArgument, "mode 9")
		_, _, err = team.Split2D(2, nil, &shmem.TeamConfig{Mode: 9})
		wantError(t, err, shmem.ErrArgument, "mode 9")
		_, err = team.SplitStrided(0, 1, 2, &shmem.TeamConfig{NumContexts: -1})
		wantError(t, err, shmem.ErrArgument, "NumContexts -1", "want 0 or more")
		for range 70 { // more than there can be teams: the rows that were made are given up again
			_, _, err = team.Split2D(2, nil, &shmem.TeamConfig{NumContexts: -1})
			wantError(t, err, shmem.ErrArgument, "NumContexts -1")
		}
		_, err = team.SplitStrided(0, 1, 2, &shmem.TeamConfig{NumContexts: 2 - w.MyPE()})
		wantError(t, err, shmem.ErrMismatch, "PE 3", "negative NumContexts")

		_, err = team.SplitStrided(w.MyPE()/3, 1, 2, nil)
		wantError(t, err, shmem.ErrMismatch, "PE 0 of the team called Team.SplitStrided(0, 1, 2)", "PE 3 called Team.SplitStrided(1, 1, 2)")
		_, _, err = team.Split2D(2+w.MyPE()/2, nil, nil)
		wantError(t, err, shmem.ErrMismatch, "Split2D(2)", "PE 2 called Team.Split2D(3)")
		_, err = team.SplitStrided(0, 1, 2, &shmem.TeamConfig{Mode: shmem.ModeTolerant + shmem.Mode(w.MyPE()/3)})
		wantError(t, err, shmem.ErrMismatch, "with ModeTolerant", "with ModeStrict")
		if w.MyPE() == 1 {
			err = errOf(shmem.Alloc[byte](w, 24))
		} else {
			_, err = team.SplitStrided(0, 1, 2, nil)
		}
		wantError(t, err, shmem.ErrMismatch, "PE 0", "SplitStrided(0, 1, 2)", "PE 1 called Alloc of 24 bytes")

		for _, none := range []*shmem.Team{nil, {}} {
			_, err = none.SplitStrided(0, 1, 1, nil)
			wantError(t, err, shmem.ErrArgument, "team is nil")
			_, _, err = none.Split2D(1, nil, nil)
			wantError(t, err, shmem.ErrArgument, "team is nil")
			_, err = none.Config()
			wantError(t, err, shmem.ErrArgument, "team is nil")
		}
		wantError(t, (&shmem.Team{}).Destroy(), shmem.ErrArgument, "team is nil")
		ok(t, w.Barrier())
	})
}

// Every call on a destroyed team says that it was destroyed, whichever handle it uses.
func TestDestroyedTeam(t *testing.T) {
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		x, y := must(shmem.Calloc[int64](w, 6))(t), must(shmem.Calloc[int64](w, 6))(t)
		team := reversedTeam(t, w, nil)
		with := team.With(t.Context())
		ok(t, team.Destroy())
		for _, dead := range []*shmem.Team{team, with, team.With(t.Context())} {
			wantError(t, dead.Sync(), shmem.ErrDestroyed, "Team.Sync", "destroyed")
			wantError(t, dead.Destroy(), shmem.ErrDestroyed)
			wantError(t, shmem.Broadcast(dead, x, y, 0), shmem.ErrDestroyed, "Broadcast")
			wantError(t, shmem.Reduce(dead, x, y, shmem.Sum), shmem.ErrDestroyed)
			wantError(t, shmem.Alltoall(dead, x, y), shmem.ErrDestroyed)
			wantError(t, shmem.FCollect(dead, x, y.Slice(0, 2)), shmem.ErrDestroyed)
			_, err := dead.SplitStrided(0, 1, 1, nil)
			wantError(t, err, shmem.ErrDestroyed)
			_, _, err = dead.Split2D(1, nil, nil)
			wantError(t, err, shmem.ErrDestroyed)
			_, err = dead.Config()
			wantError(t, err, shmem.ErrDestroyed)
			if _, reaches := shmem.PeerIn(dead, x, 0); reaches {
				t.Error("an object is reachable through a destroyed team")
			}
		}
		ok(t, w.Barrier())
	})
}

// Teams and contexts that are not destroyed end with the world. The next world has all ids again.
func TestTeamsEndWithWorld(t *testing.T) {
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		for range 3 {
			var last *shmem.Team
			for k := range 61 {
				last = must(w.Team().SplitStrided(2, -1, 3, nil))(t)
				if k == 60 {
					_, err := w.Team().SplitStrided(0, 1, 1, nil)
					wantError(t, err, shmem.ErrTooMany)
				}
			}
			c := must(last.NewCtx())(t)
			node := w.Shared()
			ok(t, node.Sync())
			ok(t, w.Finalize())
			wantError(t, last.Sync(), shmem.ErrFinalized)
			wantError(t, last.Destroy(), shmem.ErrFinalized)
			wantError(t, node.Sync(), shmem.ErrFinalized)
			wantError(t, c.Quiet(), shmem.ErrFinalized)
			wantError(t, c.Destroy(), shmem.ErrFinalized)
			w = must(shmem.Init())(t)
			ok(t, w.Shared().Sync())
		}
		ok(t, w.Finalize())
	})
}

// Teams and contexts can be made and destroyed any number of times.
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
			t.Errorf("%d bytes are in use after %d cycles, but %d after half of them", after.HeapAlloc, cycles, before.HeapAlloc)
		}
		ok(t, w.Barrier())
		if got, want := x.Local()[0], int64(cycles/3*6+[]int{0, 3, 5}[cycles%3]); w.MyPE() == 2 && got != want {
			t.Errorf("%d operations arrived, want %d", got, want)
		}
	})
}

// All operations reach the members of a team in any order of PEs, as they do in an arithmetic
// sequence.
func TestIrregularTeam(t *testing.T) {
	shmemtest.Run(t, 5, func(t *testing.T, w *shmem.World) {
		x := must(shmem.Calloc[uint64](w, 64))(t)
		for _, members := range [][]int{{3, 0, 4}, {4, 1, 2, 0, 3}, {0, 3, 1}, {2, 1}, {1}} {
			team := must(shmem.TeamOf(w.Team(), members))(t)
			if team != nil {
				c := must(team.NewCtx())(t)
				pe := (team.MyPE() + 1) % team.NPEs()
				checkTeamOperations(t, c, x, pe)
				if there := must(shmem.G(w.Ctx(), x.At(20), members[pe]))(t); there != 77 {
					t.Errorf("%v: operations on number %d did not reach PE %d", members, pe, members[pe])
				}
				wantError(t, shmem.P(c, x, 1, team.NPEs()), shmem.ErrPERange)
				wantError(t, shmem.P(c, x.At(64), 1, 0), shmem.ErrBounds)
				wantError(t, c.QuietPE(-1), shmem.ErrPERange)
				if n := testing.AllocsPerRun(100, func() { _ = shmem.P(c, x, 1, pe) }); n != 0 {
					t.Errorf("%v: P makes %v allocations, want none", members, n)
				}
				ok(t, team.Destroy())
				wantError(t, shmem.P(c, x, 1, 0), shmem.ErrDestroyed)
			}
			ok(t, w.Barrier())
			clear(x.Local())
			ok(t, w.Barrier())
		}
	})
}

// teamPEs is a team and its PEs.
type teamPEs struct {
	team *shmem.Team
	pes  []int
}

// overlappingTeams makes overlapping teams of a team, the same on all its PEs.
func overlappingTeams(t *testing.T, w *shmem.World, parent teamPEs, rng *rand.Rand, n int) (all []teamPEs) {
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
		for _, i := range stridedPEs(start, stride, count) {
			pes = append(pes, parent.pes[i])
		}
		if (team != nil) != slices.Contains(pes, w.MyPE()) {
			t.Fatalf("split (%d, %d, %d) of %v made team %v", start, stride, count, parent.pes, team)
		}
		if team != nil {
			all = append(all, teamPEs{team, pes})
		}
	}
	return all
}

// checkCollectives makes one collective of each kind on a team, back to back, and checks the
// results.
func checkCollectives(t *testing.T, w *shmem.World, c teamPEs, x, y shmem.Sym[int64], salt int64) {
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

// Collectives run on overlapping teams, teams of teams and teams of one, in any order and back to
// back, with many more PEs than processors.
func TestAnyTeamAnyOrder(t *testing.T) {
	rounds := map[int]int{3: 30, 8: 10, 64: 2}
	if testing.Short() {
		rounds = map[int]int{3: 10, 8: 3, 64: 1}
	}
	for _, n := range []int{3, 8, 64} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			shmemtest.Run(t, n, func(t *testing.T, w *shmem.World) {
				x, y := must(shmem.Calloc[int64](w, n))(t), must(shmem.Calloc[int64](w, n))(t)
				rng := rand.New(rand.NewPCG(uint64(n), 7)) // the same on all PEs
				for round := range rounds[n] {
					world := teamPEs{w.Team(), stridedPEs(0, 1, n)}
					node := teamPEs{w.Shared(), slices.DeleteFunc(stridedPEs(0, 1, n), func(pe int) bool { return !isNear(w, pe) })}
					all := append([]teamPEs{node, world}, overlappingTeams(t, w, world, rng, 3)...)
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
					for _, c := range all[2:] { // teams of teams, of which only some PEs are members
						all = append(all, overlappingTeams(t, w, c, rand.New(rand.NewPCG(seed, uint64(len(c.pes)))), 1)...)
					}
					for k := range 2 {
						for _, c := range all {
							checkCollectives(t, w, c, x, y, int64(10_000*round+k))
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

// A PE is killed while the others make or destroy a team. Each of them gets an error that names it
// by its number in the world, and teams without it go on.
func TestDeathInTeamCalls(t *testing.T) {
	const npes, victim = 4, 1
	type env struct {
		w          *shmem.World
		team, rest *shmem.Team // team is reversed and strict; rest are the PEs except the victim: 0 and 2, and 3
	}
	for op, call := range map[string]func(e env) error{
		"Team.SplitStrided": func(e env) error { return errOf(e.team.SplitStrided(0, 1, 2, nil)) },
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
				e := env{w, reversedTeam(t, w, &shmem.TeamConfig{Mode: shmem.ModeStrict}), must(shmem.TeamOf(w.Team(), []int{3, 0, 2}))(t)}
				soft := reversedTeam(t, w, &shmem.TeamConfig{Mode: shmem.ModeTolerant})
				c := must(e.team.NewCtx())(t)
				if w.MyPE() == victim {
					dieWhenAsleep(w, 0, 2, 3)
				}
				wantDeathError(t, op, call(e), victim)
				for !shmem.Noticed(w) {
					runtime.Gosched()
				}
				if op == "Team.Destroy" {
					wantError(t, e.team.Sync(), shmem.ErrDestroyed)
					wantError(t, shmem.P(c, x, 1, 0), shmem.ErrDestroyed)
				} else {
					wantDeathError(t, "Team.Sync", e.team.Sync(), victim)
					wantDeathError(t, "P", shmem.P(c, x, 1, npes-1-victim), victim)
					wantDeathError(t, "Ctx.QuietPE", c.QuietPE(0, npes-1-victim), victim)
					checkTeamOperations(t, c, x, e.team.MyPE())
					wantDeathError(t, "Team.Destroy", e.team.Destroy(), victim)
				}
				ok(t, soft.Sync())
				wantDeathError(t, "Team.SplitStrided", errOf(soft.SplitStrided(0, 1, 1, nil)), victim) // strict in any mode
				_, _, err := soft.Split2D(2, nil, nil)
				wantDeathError(t, "Team.Split2D", err, victim)
				ok(t, soft.Sync())
				ok(t, soft.Destroy())
				d := must(e.rest.NewCtx())(t)
				checkTeamOperations(t, d, x, (e.rest.MyPE()+1)%3)
				for range 70 { // ids are free again
					sub := must(e.rest.SplitStrided(2, -1, 3, nil))(t)
					ok(t, sub.Sync())
					ok(t, sub.Destroy())
				}
				ok(t, e.rest.Destroy())
			}, shmemtest.Recover(victim))
		})
	}
}

// PEs are killed at random moments while they make, use and destroy teams. No PE hangs, and all
// survivors fail alike.
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
					wantDeathError(t, "Team.Split2D", err, victim)
					break
				}
				for _, team := range []*shmem.Team{row, column} {
					_ = team.Sync() // learns of the victim only if it is a member
					_ = team.Destroy()
				}
			}
			survivors := slices.DeleteFunc(stridedPEs(0, 1, npes), func(pe int) bool { return pe == victim })
			if got := w.Failed(); !slices.Equal(got, []int{victim}) {
				t.Errorf("Failed() = %v, survivors %v", got, survivors)
			}
		}, shmemtest.Recover(victim))
	}
}

// A collective that is canceled on a team breaks only that team.
func TestTeamWith(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		x := must(shmem.Calloc[int64](w, 1))(t)
		team := reversedTeam(t, w, nil)
		if w.MyPE() == 1 { // PE 1 must not arrive before PE 0 has given up
			ok(t, shmem.WaitUntil(w.Ctx(), x, shmem.EQ, 1))
		} else {
			ctx, cancel := context.WithCancelCause(t.Context())
			cause := errors.New("enough")
			cancel(cause)
			wantError(t, team.With(ctx).Sync(), cause, "Team.Sync: waiting for PE 1")
			wantError(t, team.Sync(), shmem.ErrTeamBroken, "hint: Team.Shrink")
			ok(t, shmem.P(w.Ctx(), x, 1, 1))
		}
		again := must(team.Shrink())(t) // as the hint says
		ok(t, again.Sync())
		ok(t, again.Destroy())
		if w.MyPE() == 0 {
			wantError(t, team.Destroy(), shmem.ErrTeamBroken)
			wantError(t, team.Sync(), shmem.ErrDestroyed)
		}
		ok(t, w.Barrier())
		ok(t, w.Shared().Sync())
	})
}
