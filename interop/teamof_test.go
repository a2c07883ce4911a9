package interop_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/interop"
	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// everywhere runs jobs on one, two and four nodes.
var everywhere = shmemtest.Nodes(1, 2, 4)

// teamComms makes communicators of all kinds: of all ranks, of ranks of several nodes, of those of one node, with a team in shared memory and without.
// It returns those that this rank is in, in the order in which all make them.
func teamComms(t *testing.T, c *mpi.Comm) (comms []*mpi.Comm) {
	t.Helper()
	me, n := c.Rank(), c.Size()
	comms = append(comms, c,
		must(c.Split(me%2, -me))(t), // in descending order
		must(c.SplitType(mpi.Shared, me))(t),
		must(c.CreateGroup(c.Group(), 1))(t))
	last := must(c.Group().Incl(n-1, 0, n/2))(t)
	if slices.Contains(last.IDs(), me) {
		comms = append(comms, must(c.CreateGroup(last, 2))(t))
	}
	return comms
}

// checkTeam uses a team that was made of a communicator: it has its ranks in their order.
func checkTeam(t *testing.T, w *shmem.World, team *shmem.Team, c *mpi.Comm) {
	t.Helper()
	if team.MyPE() != c.Rank() || team.NPEs() != c.Size() {
		t.Fatalf("number %d of %d, want %d of %d", team.MyPE(), team.NPEs(), c.Rank(), c.Size())
	}
	for rank, pe := range c.Group().IDs() {
		if got, is := team.Translate(rank, w.Team()); !is || got != pe {
			t.Fatalf("number %d is PE %d, want %d", rank, got, pe)
		}
	}
	ok(t, team.Sync())
	if got, want := must(shmem.ReduceValue(team, w.MyPE(), shmem.Sum))(t), sumOf(c.Group().IDs()); got != want {
		t.Fatalf("sum %d, want %d", got, want)
	}
	half := must(team.SplitStrided(0, 1, (team.NPEs()+1)/2, nil))(t)
	if half != nil {
		ok(t, half.Sync())
	}
	ok(t, half.Destroy())
}

func sumOf(all []int) (sum int) {
	for _, v := range all {
		sum += v
	}
	return sum
}

// Communicators of every kind convert to teams and back, on any nodes, and a twin is found again as long as it lives.
func TestTeamOfComms(t *testing.T) {
	shmemtest.Run(t, 6, func(t *testing.T, w *shmem.World) {
		m := must(mpi.Init())(t)
		for i, c := range teamComms(t, m.Comm()) {
			var team *shmem.Team
			for _, mode := range []shmem.Mode{shmem.ModeStrict, shmem.ModeTolerant, shmem.ModeDefault} {
				made := must(interop.TeamOf(c, mode))(t)
				if got := must(made.Config())(t).Mode; mode != shmem.ModeDefault && got != mode {
					t.Errorf("communicator %d: %v, want %v", i, got, mode)
				}
				if mode == shmem.ModeDefault {
					if made != team {
						t.Errorf("communicator %d: TeamOf with %v made another team", i, mode)
					}
					continue
				}
				checkTeam(t, w, made, c)
				if again := must(interop.TeamOf(c, mode))(t); again != made {
					t.Errorf("communicator %d: TeamOf made another team", i)
				}
				if back := must(interop.CommOf(made))(t); back != c {
					t.Errorf("communicator %d: CommOf made another one", i)
				}
				if team != nil {
					ok(t, team.Destroy())
				}
				team = made
			}
			ok(t, team.Destroy())
			other := must(interop.TeamOf(c, shmem.ModeDefault))(t)
			if other == team {
				t.Errorf("communicator %d: TeamOf returned a team that is destroyed", i)
			}
			if i > 0 {
				ok(t, c.Free())
			}
			ok(t, other.Sync()) // it does not depend on the communicator
			ok(t, other.Destroy())
		}
		ok(t, m.Finalize())
	}, everywhere)
}

// Teams convert to communicators and back. A freed communicator is made anew, and so is one of a team with a context.
func TestCommOfTwice(t *testing.T) {
	shmemtest.Run(t, 6, func(t *testing.T, w *shmem.World) {
		m := must(mpi.Init())(t)
		for _, team := range []*shmem.Team{w.Team(), w.Shared(), must(w.Team().SplitStrided(5, -2, 3, nil))(t)} {
			if team == nil {
				continue
			}
			ctx, cancel := context.WithCancel(t.Context())
			first := must(interop.CommOf(team.With(ctx)))(t)
			cancel() // the twin has no context
			c := must(interop.CommOf(team))(t)
			if r := must(c.Compare(first))(t); r != 0 {
				t.Errorf("CommOf made another communicator: %v", r)
			}
			if must(interop.CommOf(team))(t) != c || must(interop.TeamOf(c, shmem.ModeDefault))(t) != team {
				t.Error("the twin was not found again")
			}
			ok(t, c.Barrier())
			ok(t, c.Free())
			other := must(interop.CommOf(team))(t)
			if other == c {
				t.Error("CommOf returned a communicator that is freed")
			}
			sum := []int{0}
			ok(t, mpi.Allreduce(other, sum, []int{team.MyPE()}, mpi.Sum))
			if n := team.NPEs(); sum[0] != n*(n-1)/2 {
				t.Errorf("sum %d of %d ranks", sum[0], n)
			}
			ok(t, other.Free())
		}
		ok(t, m.Finalize())
	}, everywhere)
}

// Words of a team that is destroyed are used again, and several goroutines make teams at a time. All ids are free in the end.
func TestTeamOfMany(t *testing.T) {
	shmemtest.Run(t, 4, func(t *testing.T, w *shmem.World) {
		m := must(mpi.Init())(t)
		const goroutines, rounds = 3, 20
		done := make(chan error, goroutines)
		var copies []*mpi.Comm
		for range goroutines {
			c := must(m.Comm().Dup())(t)
			copies = append(copies, c)
			go func() {
				for range rounds {
					team, err := interop.TeamOf(c, shmem.ModeTolerant)
					if err == nil {
						err = team.Sync()
					}
					if err == nil {
						err = team.Destroy()
					}
					if err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
		}
		for range goroutines {
			ok(t, <-done)
		}
		for _, c := range copies { // on one node, each has an id
			ok(t, c.Free())
		}
		var teams []*shmem.Team
		for len(teams) < 61 { // all that a process can have beside those of Init
			c := must(m.Comm().CreateGroup(m.Comm().Group(), len(teams)))(t)
			team, err := interop.TeamOf(c, shmem.ModeStrict)
			if err != nil {
				t.Fatalf("team %d: %v", len(teams), err)
			}
			teams = append(teams, team)
		}
		c := must(m.Comm().CreateGroup(m.Comm().Group(), 100))(t)
		if _, err := interop.TeamOf(c, shmem.ModeStrict); !errors.Is(err, shmem.ErrTooMany) {
			t.Errorf("one more: %v, want %v", err, shmem.ErrTooMany)
		}
		for _, team := range teams {
			ok(t, team.Sync())
			ok(t, team.Destroy())
		}
		ok(t, must(interop.TeamOf(c, shmem.ModeStrict))(t).Destroy())
		ok(t, m.Finalize())
	}, everywhere)
}

// A death fails TeamOf and CommOf at all survivors, with the number of the dead. They go on with what Shrink makes of either, and convert that.
func TestDeathsAndTeamOf(t *testing.T) {
	const victim, n = 3, 6
	shmemtest.Run(t, n, func(t *testing.T, w *shmem.World) {
		m := must(mpi.Init())(t)
		c := must(m.Comm().CreateGroup(m.Comm().Group(), 1))(t)
		pair := must(interop.TeamOf(c, shmem.ModeStrict))(t) // made before the death
		copied := must(c.Dup())(t)
		tolerant := must(w.Team().SplitStrided(0, 1, n, &shmem.TeamConfig{Mode: shmem.ModeTolerant}))(t)
		if w.MyPE() == victim {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		for len(c.Failed()) == 0 {
			time.Sleep(time.Millisecond)
		}
		for _, x := range []*mpi.Comm{m.Comm(), copied, c} {
			_, err := interop.TeamOf(x, shmem.ModeDefault)
			if gone, is := errors.AsType[*mpi.RankError](err); !is || !errors.Is(err, mpi.ErrDied) || !slices.Equal(gone.Ranks, []int{victim}) {
				t.Errorf("TeamOf: %v, want the death of rank %d", err, victim)
			}
		}
		_, err := interop.CommOf(tolerant)
		if dead, is := errors.AsType[*shmem.PEError](err); !is || !errors.Is(err, shmem.ErrPEDied) || !slices.Equal(dead.PEs, []int{victim}) {
			t.Errorf("CommOf: %v, want the death of PE %d", err, victim)
		}
		if got := must(interop.CommOf(pair))(t); got != c {
			t.Error("CommOf of a team with a twin made another one")
		}
		rest := must(c.Shrink())(t)
		team := must(interop.TeamOf(rest, shmem.ModeTolerant))(t)
		checkTeam(t, w, team, rest)
		left := must(pair.Shrink())(t)
		checkTeam(t, w, left, must(interop.CommOf(left))(t))
		ok(t, m.Finalize())
	}, shmemtest.Recover(victim), everywhere)
}
