package mpi_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// runSpawn runs body as the ranks of a job, and child in the processes that these start by self. Without a child, these get an error from Init, and end
// with status 1.
func runSpawn(t *testing.T, ranks int, body func(t *testing.T, c *mpi.Comm), child func(t *testing.T, w *mpi.World), opts ...shmemtest.Option) {
	t.Helper()
	runBare(t, ranks, func(t *testing.T) {
		w, err := mpi.Init()
		if child == nil && err != nil { // in a process that is to get none
			os.Exit(1)
		}
		ok(t, err)
		if w.Parent() != nil {
			child(t, w)
		} else {
			body(t, w.Comm())
		}
		if !t.Failed() {
			ok(t, w.Finalize())
		}
	}, opts...)
}

// self is the command that starts this test once more.
func self(t *testing.T) mpi.Command {
	t.Helper()
	return mpi.Command{Path: must(os.Executable())(t), Args: os.Args[1:]}
}

// useIntercomm exchanges messages of several lengths with all ranks of the other side, and makes all collectives.
func useIntercomm(t *testing.T, x *mpi.Intercomm) {
	t.Helper()
	me, mine, theirs := x.Local().Rank(), x.Local().Size(), x.Remote().Size()
	for _, n := range []int{0, 8, 1000, 20000, 300000} {
		out := make([]mpi.Request, theirs)
		for rank := range theirs {
			out[rank] = must(mpi.Isend(x.Remote(), message(n, me), rank, 1))(t)
		}
		for rank := range theirs {
			in := make([]byte, n)
			s := must(mpi.Recv(x.Remote(), in, rank, 1))(t)
			if s.Source != rank || s.Bytes != n {
				t.Errorf("message of rank %d of %d bytes: status %+v", rank, n, s)
			}
			checkMessage(t, in, rank)
		}
		ok(t, mpi.WaitAll(out, nil))
	}
	ok(t, x.Barrier())
	sum := []int{0}
	ok(t, mpi.InterAllreduce(x, sum, []int{me + 1}, mpi.Sum))
	if want := theirs * (theirs + 1) / 2; sum[0] != want {
		t.Errorf("InterAllreduce: %d, want %d", sum[0], want)
	}
	all, want := make([]int, theirs), []int(nil)
	for rank := range theirs {
		want = append(want, 10*rank+mine)
	}
	give := []int{10*me + theirs}
	ok(t, mpi.InterAllgather(x, all, give))
	if !slices.Equal(all, want) {
		t.Errorf("InterAllgather: %v, want %v", all, want)
	}
	ok(t, x.Local().Barrier())
}

// meetOtherJob uses an Intercomm of two jobs, and the communicator that Merge makes of it.
func meetOtherJob(t *testing.T, x *mpi.Intercomm, high bool) {
	t.Helper()
	useIntercomm(t, x)
	m := must(x.Merge(high))(t)
	n := x.Local().Size() + x.Remote().Size()
	want := x.Local().Rank()
	if high {
		want += x.Remote().Size()
	}
	if m.Size() != n || m.Rank() != want {
		t.Errorf("merged: rank %d of %d, want %d of %d", m.Rank(), m.Size(), want, n)
	}
	for round := range 3 {
		tryComm(t, m, round)
	}
	leader := 0 // of the other side, in m
	if !high {
		leader = x.Local().Size()
	}
	if _, err := mpi.NewIntercomm(x.Local(), 0, m, leader, 1); !errors.Is(err, mpi.ErrArgument) {
		t.Errorf("NewIntercomm between jobs: %v, want %v", err, mpi.ErrArgument)
	}
	half := must(m.Split(m.Rank()%2, m.Rank()))(t)
	tryComm(t, half, 1)
	ok(t, half.Free())
	ok(t, m.Free())
	ok(t, x.Free())
}

// Parents and children exchange messages and make collectives, and Merge gives one communicator of all.
func TestSpawn(t *testing.T) {
	const children = 3
	for _, n := range []int{1, 2, 3} {
		runSpawn(t, n, func(t *testing.T, c *mpi.Comm) {
			x := must(mpi.Spawn(c, self(t), children, n-1))(t)
			if x.Remote().Size() != children || x.Local().Size() != n {
				t.Errorf("%d parents and %d children, want %d and %d", x.Local().Size(), x.Remote().Size(), n, children)
			}
			meetOtherJob(t, x, false)
		}, func(t *testing.T, w *mpi.World) {
			if w.Comm().Size() != children {
				t.Errorf("World.Comm of a child has %d ranks, want %d", w.Comm().Size(), children)
			}
			tryComm(t, w.Comm(), 1)
			meetOtherJob(t, w.Parent(), true)
		}, hangTimeout)
	}
}

// Bad arguments are errors at all ranks, of which the root's says what is wrong. Afterwards the communicator is as before.
func TestSpawnRefused(t *testing.T) {
	runSpawn(t, 2, func(t *testing.T, c *mpi.Comm) {
		for _, x := range []struct {
			cmd   mpi.Command
			n     int
			cause error
			words string
		}{
			{mpi.Command{Path: "no-such-program"}, 1, mpi.ErrSpawn, `program "no-such-program" is not in PATH`},
			{mpi.Command{Path: "/no/such/program"}, 1, mpi.ErrSpawn, "oshrun prints why"},
			{mpi.Command{}, 1, mpi.ErrSpawn, `program ""`},
			{self(t), 0, mpi.ErrArgument, "0 processes"},
			{self(t), 1<<20 + 1, mpi.ErrArgument, "1048577 processes"},
			{mpi.Command{Path: "true", Env: []string{"A"}}, 1, mpi.ErrArgument, `environment has "A"`},
		} {
			got, err := mpi.Spawn(c, x.cmd, x.n, 1)
			switch {
			case got != nil || err == nil:
				t.Errorf("Spawn of %d of %q has succeeded", x.n, x.cmd.Path)
			case c.Rank() == 1 && (!errors.Is(err, x.cause) || !strings.Contains(err.Error(), x.words)):
				t.Errorf("Spawn of %d of %q at the root: %v, want %v with %q", x.n, x.cmd.Path, err, x.cause, x.words)
			case c.Rank() == 0 && (!errors.Is(err, mpi.ErrSpawn) || !strings.Contains(err.Error(), "rank 1")):
				t.Errorf("Spawn of %d of %q: %v, want %v that names rank 1", x.n, x.cmd.Path, err, mpi.ErrSpawn)
			}
		}
		if _, err := mpi.Spawn(c, self(t), 1, 2); !errors.Is(err, mpi.ErrRankRange) {
			t.Errorf("Spawn with root 2 of 2 ranks: %v", err)
		}
		tryComm(t, c, 1)
	}, func(t *testing.T, _ *mpi.World) { t.Error("a child was started") }, hangTimeout)
}

// Parents and children are on several nodes, in each of the ways that are possible.
func TestSpawnOnNodes(t *testing.T) {
	for _, x := range []struct{ parents, children int }{{2, 2}, {2, 1}, {3, 3}} {
		runSpawn(t, x.parents, func(t *testing.T, c *mpi.Comm) {
			meetOtherJob(t, must(mpi.Spawn(c, self(t), x.children, x.parents-1))(t), false)
		}, func(t *testing.T, w *mpi.World) {
			tryComm(t, w.Comm(), 1)
			here := must(w.Comm().SplitType(mpi.Shared, 0))(t)
			if n := w.Comm().Size(); n > 1 && here.Size() == n {
				t.Errorf("all %d children are on one node, want them on two", n)
			}
			ok(t, here.Free())
			meetOtherJob(t, w.Parent(), true)
		}, shmemtest.Nodes(2), hangTimeout)
	}
}

// A process that ends without Init, well or not, is an error of Spawn at all ranks, which names it. Another one that was started with it gets no World.
func TestSpawnEndsEarly(t *testing.T) {
	for _, x := range []struct{ name, words string }{{"true", "without Finalize"}, {"false", "exited with status 1"}} {
		t.Run(x.name, func(t *testing.T) {
			runSpawn(t, 2, func(t *testing.T, c *mpi.Comm) {
				got, err := mpi.SpawnMultiple(c, []mpi.Command{{Path: x.name}, self(t)}, []int{1, 1}, 0)
				switch says := fmt.Sprint(err); {
				case got != nil || !errors.Is(err, mpi.ErrSpawn):
					t.Errorf("SpawnMultiple: %v, want %v", err, mpi.ErrSpawn)
				case strings.Contains(says, "all its processes have ended"), strings.Contains(says, "another rank has failed"): // both, before the ranks had their memory
				case !strings.Contains(says, x.words) || !strings.Contains(says, "process [0"):
					t.Errorf("SpawnMultiple: %v, want an error that names process 0 and has %q", err, x.words)
				}
				tryComm(t, c, 1)
			}, nil, shmemtest.Recover(), hangTimeout)
		})
	}
}

// A process whose Init fails after it has reached the parents tells them: they do not wait for it. It fails as one that was started with it dies meanwhile.
func TestSpawnInitFails(t *testing.T) {
	for _, nodes := range []int{1, 2} {
		const over = "TEST_SPAWN_OVER" // a pipe, by which the child that lives hears that Spawn has failed
		runBare(t, 2, func(t *testing.T) {
			if path, spawned := os.LookupEnv(over); spawned {
				if os.Getenv("PMIX_RANK") == "0" {
					mpi.WhenInit(die)
				}
				for range 2 { // the second one says the same
					if _, err := mpi.Init(); !errors.Is(err, mpi.ErrDied) {
						t.Errorf("Init: %v, want %v", err, mpi.ErrDied)
					}
				}
				must(os.ReadFile(path))(t)
				return
			}
			w := must(mpi.Init())(t)
			c, cmd, path := w.Comm(), self(t), filepath.Join(t.TempDir(), "over")
			if c.Rank() == 0 {
				ok(t, syscall.Mkfifo(path, 0o600))
				cmd.Env = []string{over + "=" + path}
			}
			_, err := mpi.Spawn(c, cmd, 2, 0)
			if !errors.Is(err, mpi.ErrSpawn) {
				t.Errorf("Spawn: %v, want %v", err, mpi.ErrSpawn)
			}
			ok(t, c.Barrier())
			if c.Rank() == 0 {
				ok(t, os.WriteFile(path, nil, 0))
			}
			tryComm(t, c, 1)
			ok(t, w.Finalize())
		}, shmemtest.Nodes(nodes), shmemtest.Recover(), hangTimeout)
	}
}

// Deaths of either side are errors on both, which name the rank. Those who live go on.
func TestSpawnDeaths(t *testing.T) {
	const parents, children = 3, 2
	both := func(t *testing.T, x *mpi.Intercomm, side int) {
		m := must(x.Merge(side == 1))(t)
		victims := []int{1, 1} // of each side, the child first
		for _, dying := range []int{1, 0} {
			_ = m.Barrier()
			if side == dying && x.Local().Rank() == victims[dying] {
				die()
			}
			if side != dying {
				_, err := mpi.Recv(x.Remote(), make([]int, 1), victims[dying], 1)
				wantDeathError(t, "Recv", err, victims[dying])
			}
			rank := victims[dying] // in m
			if dying == 1 {
				rank += parents
			}
			_, err := m.Agree(1)
			wantDeathError(t, "Comm.Agree", err, rank)
			wantDeathError(t, "Barrier", m.Barrier(), rank)
			if got := m.Failed(); !slices.Equal(got, []int{rank}) {
				t.Errorf("Failed: %v, want [%d]", got, rank)
			}
			next := must(m.Shrink())(t)
			tryComm(t, next, 1)
			if dying == 0 && next.Size() != parents+children-2 {
				t.Errorf("%d ranks live, want %d", next.Size(), parents+children-2)
			}
			ok(t, m.Free())
			m = next
		}
		ok(t, m.Free())
		ok(t, x.Free())
	}
	runSpawn(t, parents, func(t *testing.T, c *mpi.Comm) {
		both(t, must(mpi.Spawn(c, self(t), children, 0))(t), 0)
	}, func(t *testing.T, w *mpi.World) {
		both(t, w.Parent(), 1)
	}, shmemtest.Recover(1), hangTimeout)
}

// A rank that has finalized is an error for ranks of the other side that wait for it. What it had sent is received first.
func TestSpawnFinalized(t *testing.T) {
	runSpawn(t, 1, func(t *testing.T, c *mpi.Comm) {
		x := must(mpi.Spawn(c, self(t), 2, 0))(t)
		in := make([]byte, 20000)
		for range 2 {
			must(mpi.Recv(x.Remote(), in, mpi.AnySource, 1))(t)
		}
		_, err := mpi.Recv(x.Remote(), in, 1, 1)
		if !errors.Is(err, mpi.ErrRankFinalized) {
			t.Errorf("Recv: %v, want %v", err, mpi.ErrRankFinalized)
		}
		ok(t, x.Free())
	}, func(t *testing.T, w *mpi.World) {
		ok(t, mpi.Send(w.Parent().Remote(), message(20000, 1), 0, 1))
	}, hangTimeout)
}

// Ranks die, and new processes take their places: the job has as many ranks as before, in several rounds. This is revshrinkkillrecover of the test programs
// of ULFM.
func TestReplaceTheDead(t *testing.T) {
	const n, rounds = 4, 5
	victims := []int{3, 3, 1, 2, 1} // by round: a rank of the first job, one that was started, one of each
	loop := func(t *testing.T, c *mpi.Comm, from int) {
		for round := from; round < rounds; round++ {
			tryComm(t, c, round)
			_, _ = c.Agree(1) // all have come so far
			if c.Rank() == victims[round] {
				die()
			}
			for { // until the death is known
				if err := c.Barrier(); err != nil {
					break
				}
			}
			_ = c.Revoke()
			rest := must(c.Shrink())(t)
			x := must(mpi.Spawn(rest, self(t), 1, round%(n-1)))(t)
			now := []int{round + 1}
			if rest.Rank() == 0 {
				ok(t, mpi.Send(x.Remote(), now, 0, 1))
			}
			next := must(x.Merge(false))(t)
			ok(t, x.Free())
			ok(t, rest.Free())
			_ = c.Free() // of the World it is an error
			c = next
			if c.Size() != n {
				t.Fatalf("%d ranks after round %d, want %d", c.Size(), round, n)
			}
		}
		tryComm(t, c, 1)
		ok(t, c.Free())
	}
	runSpawn(t, n, func(t *testing.T, c *mpi.Comm) { loop(t, c, 0) }, func(t *testing.T, w *mpi.World) {
		x, now := w.Parent(), []int{0}
		must(mpi.Recv(x.Remote(), now, 0, 1))(t)
		c := must(x.Merge(true))(t)
		ok(t, x.Free())
		loop(t, c, now[0])
	}, shmemtest.Recover(1, 2, 3), hangTimeout)
}

// A rank dies at some moment of Spawn, the root or another one. All others get an error, or all get an Intercomm, which fails later. Those who live try again.
func TestKillsInSpawn(t *testing.T) {
	for _, victim := range []int{0, 2} {
		runBare(t, 3, func(t *testing.T) {
			w, err := mpi.Init()
			if _, spawned := os.LookupEnv("GOSHMEM_PARENTS"); spawned {
				if err == nil { // otherwise a parent has died before Spawn was over
					_, _ = w.Parent().Agree(1)
					ok(t, w.Parent().Free())
					ok(t, w.Finalize())
				}
				return
			}
			ok(t, err)
			c := w.Comm()
			_, _ = c.Agree(1)
			if c.Rank() == victim {
				time.AfterFunc(rand.N(60*time.Millisecond), die)
			}
			rest := c
			for done := false; !done; {
				x, err := mpi.Spawn(rest, self(t), 1, 0)
				made := uint64(0)
				if err == nil {
					made = 1
				}
				_, _ = rest.Agree(made)
				if err == nil {
					_, err = x.Agree(1) // the child is there
				}
				if x != nil {
					_ = x.Revoke()
					ok(t, x.Free())
				}
				_ = rest.Revoke()
				next := must(rest.Shrink())(t)
				if rest != c {
					ok(t, rest.Free())
				}
				rest = next
				if c.Rank() == victim {
					continue
				}
				done = err == nil && rest.Size() == 2
			}
			ok(t, rest.Free())
			ok(t, w.Finalize())
		}, shmemtest.Recover(victim), hangTimeout)
	}
}
