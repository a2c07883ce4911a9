package shmem_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/erasure"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// How often TestKillsInCommit kills, and with which seed.
var (
	commitKills = flag.Int("commitkills", 6, "how many jobs TestKillsInCommit makes lose PEs")
	commitSeed  = flag.Uint64("commitseed", 1, "the seed of TestKillsInCommit")
)

// saved is the objects that checkpoints of tests protect, whose sizes are no multiples of anything.
type saved struct {
	k *shmem.Checkpoint
	x shmem.Sym[int64]
	y shmem.Sym[[3]byte]
}

// newSaved makes a Checkpoint of some objects.
func newSaved(t *testing.T, w *shmem.World, p shmem.Policy, n int) *saved {
	t.Helper()
	s := &saved{
		x: must(shmem.Calloc[int64](w, n))(t), y: must(shmem.Calloc[[3]byte](w, 77))(t),
		k: must(shmem.NewCheckpoint(w, p))(t),
	}
	ok(t, errors.Join(s.k.Protect("x", s.x), s.k.Protect("y", s.y)))
	return s
}

// element returns what an element of x of a PE is in an epoch.
func element(pe int, epoch uint64, i int) int64 { return int64(pe)<<48 + int64(epoch)<<32 + int64(i) }

// set gives the objects the values of an epoch, as if they were a PE's.
func (s *saved) set(pe int, epoch uint64) {
	for i := range s.x.Local() {
		s.x.Local()[i] = element(pe, epoch, i)
	}
	for i := range s.y.Local() {
		s.y.Local()[i] = [3]byte{byte(pe), byte(epoch), byte(i)}
	}
}

// wantValues checks that the objects have the values of an epoch of a PE.
func (s *saved) wantValues(t *testing.T, pe int, epoch uint64) {
	t.Helper()
	for i, v := range s.x.Local() {
		if want := element(pe, epoch, i); v != want {
			t.Fatalf("x[%d] is %#x, want %#x, of PE %d in epoch %d", i, v, want, pe, epoch)
		}
	}
	for i, v := range s.y.Local() {
		if want := [3]byte{byte(pe), byte(epoch), byte(i)}; v != want {
			t.Fatalf("y[%d] is %v, want %v, of PE %d in epoch %d", i, v, want, pe, epoch)
		}
	}
}

// wantCommitted checks what GetCommitted and RestoreFrom say of a PE.
func (s *saved) wantCommitted(t *testing.T, pe int, epoch uint64) {
	t.Helper()
	n := s.x.Len()
	got := make([]int64, n-n/3)
	ok(t, shmem.GetCommitted(s.k, got, s.x.Slice(n/3, n), pe))
	for i, v := range got {
		if want := element(pe, epoch, n/3+i); v != want {
			t.Fatalf("committed x[%d] of PE %d is %#x, want %#x, of epoch %d", n/3+i, pe, v, want, epoch)
		}
	}
	ok(t, s.k.RestoreFrom(pe))
	s.wantValues(t, pe, epoch)
}

// policies are those that tests go through, for six PEs at least.
var policies = []struct {
	name   string
	policy shmem.Policy
	two    []int // two PEs of six whose data survive the death of both, on one node
}{
	{"partner", shmem.Partner(0), []int{1, 3}},
	{"partner 2", shmem.Partner(2), []int{0, 1}},
	{"xor", shmem.XOR(3), []int{0, 1}}, // groups of even PEs and of odd ones
	{"two parities", erasure.ReedSolomon(4, 2), []int{2, 4}},
}

// After a death, the survivors' objects come back as they were in the last epoch, and so do those of the dead, at any PE. The survivors commit
// further epochs, which outlive a further death.
func TestCheckpointOutlivesDeaths(t *testing.T) {
	const npes = 6
	for i := range policies {
		p := &policies[i]
		for _, n := range []int{5, 50_001} { // one chunk, and several
			t.Run(fmt.Sprintf("%s/%d", p.name, n), func(t *testing.T) {
				shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
					testDeathAfterCommit(t, w, p.policy, n, p.two)
				}, shmemtest.Recover(p.two...), shmemtest.Nodes(1, 2, 3))
			})
		}
	}
}

// testDeathAfterCommit has PEs die one after the other.
func testDeathAfterCommit(t *testing.T, w *shmem.World, p shmem.Policy, n int, victims []int) {
	s, me := newSaved(t, w, p, n), w.MyPE()
	epoch := uint64(0)
	commit := func() {
		t.Helper()
		s.set(me, epoch+1)
		got, err := s.k.Commit()
		if epoch++; err != nil || got != epoch || s.k.Epoch() != epoch {
			t.Fatalf("commit: epoch %d, error %v, want %d", got, err, epoch)
		}
	}
	commit()
	commit()
	s.set(me, 99)
	done := must(s.k.Restore())(t)
	if done.Epoch != 2 || len(done.Failed)+len(done.Lost) > 0 {
		t.Fatalf("restored without a death: %+v, want epoch 2 and no PEs", done)
	}
	s.wantValues(t, me, epoch)
	ok(t, s.k.Team().Sync())
	for i, victim := range victims {
		if me == victim {
			die()
		}
		s.set(me, epoch+1)
		_, err := s.k.Commit()
		wantDeathError(t, "Checkpoint.Commit", err, victim)
		done, err := s.k.Restore()
		if err != nil || done.Epoch != epoch || !slices.Equal(done.Failed, []int{victim}) || len(done.Lost) > 0 {
			t.Fatalf("restored %+v, error %v, want epoch %d and PE %d as failed", done, err, epoch, victim)
		}
		if got := s.k.Team().NPEs(); got != w.NPEs()-i-1 {
			t.Errorf("the team has %d PEs, want %d", got, w.NPEs()-i-1)
		}
		s.wantValues(t, me, epoch)
		s.wantCommitted(t, victim, epoch)
		other, _ := s.k.Team().Translate(s.k.Team().NPEs()-1, w.Team())
		s.wantCommitted(t, other, epoch)
		ok(t, s.k.RestoreFrom(me))
		s.wantValues(t, me, epoch)
		ok(t, s.k.Team().Sync())
		commit()
		wantError(t, s.k.RestoreFrom(victim), shmem.ErrArgument, "took no part")
		ok(t, s.k.Team().Sync())
	}
}

// All copies of a PE are lost if too many die at once. Restore says so on all others, and they go on.
func TestCopiesLost(t *testing.T) {
	const npes = 6
	for name, c := range map[string]struct {
		policy       shmem.Policy
		victims, who []int
	}{
		"partner": {shmem.Partner(1), []int{2, 3}, []int{2}},
		"xor":     {shmem.XOR(3), []int{1, 3}, []int{1, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
				s, me := newSaved(t, w, c.policy, 100), w.MyPE()
				s.set(me, 1)
				must(s.k.Commit())(t)
				ok(t, w.Barrier())
				if slices.Contains(c.victims, me) {
					die()
				}
				for len(w.Failed()) < len(c.victims) {
					time.Sleep(time.Millisecond)
				}
				done, err := s.k.Restore()
				if err != nil || done.Epoch != 1 || !slices.Equal(done.Failed, c.victims) || !slices.Equal(done.Lost, c.who) {
					t.Fatalf("restored %+v, error %v, want epoch 1, failed %v, lost %v", done, err, c.victims, c.who)
				}
				for _, pe := range c.who {
					if err := s.k.RestoreFrom(pe); !errors.Is(err, shmem.ErrPEDied) || !strings.Contains(err.Error(), "died") {
						t.Errorf("RestoreFrom(%d): %v, want an error that says what is lost", pe, err)
					}
				}
				s.set(me, 2)
				if epoch := must(s.k.Commit())(t); epoch != 2 {
					t.Errorf("epoch %d, want 2", epoch)
				}
			}, shmemtest.Recover(c.victims...))
		})
	}
}

// PEs are killed at any time of commits, one or some at once. Whatever epoch Restore finds is whole: all PEs, those that died
// included, have its values, and it is the last one that a Commit has returned, or the one after.
func TestKillsInCommit(t *testing.T) {
	const npes = 6
	jobs, seed := killsInCommit(t)
	for i := range uint64(jobs) {
		rng := rand.New(rand.NewPCG(seed, i))
		p := &policies[rng.IntN(len(policies))]
		victims := p.two[:1+rng.IntN(2)]
		times := []time.Duration{time.Duration(rng.IntN(30_000)) * time.Microsecond, time.Duration(rng.IntN(30_000)) * time.Microsecond}
		n := 1 + rng.IntN(30_000)
		t.Run(fmt.Sprintf("%d %s %v", i, p.name, victims), func(t *testing.T) {
			shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
				testKillInCommit(t, w, p.policy, n, victims, p.name == "partner", func() {
					if i := slices.Index(victims, w.MyPE()); i >= 0 {
						time.AfterFunc(times[i], die)
					}
				})
			}, shmemtest.Recover(victims...), shmemtest.Nodes(1, 2, 3), shmemtest.Env(fmt.Sprintf("TEST_KILLS=%d %d", jobs, seed)))
		})
	}
}

// killsInCommit returns how many jobs lose PEs, and the seed. PEs hear it from the test that starts them, whose flags they do not have.
func killsInCommit(t *testing.T) (jobs int, seed uint64) {
	t.Helper()
	jobs, seed = *commitKills, *commitSeed
	if text := os.Getenv("TEST_KILLS"); text != "" {
		if _, err := fmt.Sscan(text, &jobs, &seed); err != nil {
			t.Fatal(err)
		}
	} else if testing.Short() {
		jobs = min(jobs, 2)
	}
	return jobs, seed
}

// A node is lost at any time of commits, with all its PEs. The survivors find all of the last epoch.
func TestNodeLostInCommit(t *testing.T) {
	const npes = 6
	jobs, seed := killsInCommit(t)
	victims := []int{4, 5} // on the last of three nodes
	for i := range uint64(jobs) {
		rng := rand.New(rand.NewPCG(seed, i))
		p := &policies[rng.IntN(len(policies))]
		late, n := time.Duration(rng.IntN(30_000))*time.Microsecond, 1+rng.IntN(30_000)
		t.Run(fmt.Sprintf("%d %s", i, p.name), func(t *testing.T) {
			shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
				testKillInCommit(t, w, p.policy, n, victims, p.name == "partner", func() {
					if w.MyPE() == victims[0] {
						time.AfterFunc(late, func() { ok(t, syscall.Kill(os.Getppid(), syscall.SIGKILL)) }) // the daemon
					}
				})
			}, shmemtest.Recover(victims...), shmemtest.Nodes(3), shmemtest.Env(fmt.Sprintf("TEST_KILLS=%d %d", jobs, seed)))
		})
	}
}

// testKillInCommit commits until the victims have died, which strike sees to. Both copies of a PE may be lost if mayLose is set.
func testKillInCommit(t *testing.T, w *shmem.World, p shmem.Policy, n int, victims []int, mayLose bool, strike func()) {
	s, me := newSaved(t, w, p, n), w.MyPE()
	ok(t, w.Barrier())
	strike()
	last := uint64(0)
	for s.k.Team().NPEs() > w.NPEs()-len(victims) { // the same on all PEs, which w.Failed is not
		s.set(me, last+1)
		err := s.k.Team().Sync() // of which one PE may learn of a death, and another one in Commit
		var r *shmem.CommitRequest
		if err == nil {
			r, err = s.k.ICommit()
		}
		if err == nil {
			s.set(me, 98) // ICommit has copied
			var epoch uint64
			if epoch, err = r.Wait(); err == nil && epoch != last+1 {
				t.Fatalf("epoch %d, want %d", epoch, last+1)
			}
		}
		if err == nil {
			last++
			continue
		}
		if !errors.Is(err, shmem.ErrPEDied) {
			t.Fatalf("commit: %v, want a death", err)
		}
		done, err := s.k.Restore()
		if err != nil {
			t.Fatal(err)
		}
		if done.Epoch != last && done.Epoch != last+1 || len(done.Lost) > 0 && !mayLose {
			t.Fatalf("restored %+v, want epoch %d or the next one, and nothing lost", done, last)
		}
		if last = done.Epoch; last > 0 {
			s.wantValues(t, me, last)
		}
		for _, pe := range done.Failed {
			if !mayLose { // otherwise the PE with the copy may die now
				s.wantCommitted(t, pe, last)
			}
		}
	}
}

// Files outlive their job: another one finds the latest epoch, and the objects of each PE. A file of other objects, or a damaged
// one, is refused.
func TestCheckpointFiles(t *testing.T) {
	const npes = 3
	dir := t.TempDir()
	for job := range 4 {
		shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
			dir, job := os.Getenv("TEST_DIR"), os.Getenv("TEST_JOB")
			s, me := newSaved(t, w, shmem.Files(dir), 1000), w.MyPE()
			done, err := s.k.Restore()
			switch job {
			case "0":
				if err != nil || done.Epoch != 0 {
					t.Fatalf("restored %+v, error %v, want nothing", done, err)
				}
				for epoch := range uint64(3) {
					s.set(me, epoch+1)
					must(s.k.Commit())(t)
				}
			case "1":
				if err != nil || done.Epoch != 3 {
					t.Fatalf("restored %+v, error %v, want epoch 3", done, err)
				}
				s.wantValues(t, me, 3)
				ok(t, s.k.Team().Sync())
				s.wantCommitted(t, (me+1)%npes, 3)
				s.set(me, 4)
				if epoch := must(s.k.Commit())(t); epoch != 4 {
					t.Errorf("epoch %d, want 4", epoch)
				}
				s.set(me, 99)
				if done := must(s.k.Restore())(t); done.Epoch != 4 {
					t.Errorf("restored %+v, want epoch 4", done)
				}
				s.wantValues(t, me, 4)
			case "2": // a file of the latest epoch of PE 1 is missing
				if err != nil || done.Epoch != 3 {
					t.Fatalf("restored %+v, error %v, want epoch 3", done, err)
				}
				s.wantValues(t, me, 3)
			default: // a file is damaged
				if err == nil || !strings.Contains(err.Error(), map[bool]string{true: "is damaged", false: "another PE"}[me == 1]) {
					t.Errorf("restored %+v, error %v, want an error that says which file is damaged", done, err)
				}
			}
		}, shmemtest.Env("TEST_DIR="+dir, fmt.Sprint("TEST_JOB=", job)))
		if os.Getenv("TEST_JOB") != "" {
			continue // this process is a PE
		}
		switch job {
		case 1:
			ok(t, os.Remove(filepath.Join(dir, "pe1.0")))
		case 2:
			path := filepath.Join(dir, "pe1.1")
			text := must(os.ReadFile(path))(t)
			text[len(text)-1000]++
			ok(t, os.WriteFile(path, text, 0o600))
		}
	}
}

// Mistakes get an error that says what is wrong, and the Checkpoint works as before.
func TestCheckpointMisuse(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		for _, p := range []shmem.Policy{{}, shmem.Partner(-1), shmem.Partner(2), shmem.XOR(3), shmem.XOR(1), erasure.ReedSolomon(2, 1), erasure.ReedSolomon(1, 0), shmem.Files("/does/not/exist")} {
			_, err := shmem.NewCheckpoint(w, p)
			wantError(t, err, shmem.ErrArgument, "want")
		}
		var none *shmem.Checkpoint
		_, err := none.With(context.Background()).Commit()
		wantError(t, err, shmem.ErrArgument, "nil")
		wantError(t, none.RestoreFrom(0), shmem.ErrArgument, "nil")
		wantError(t, none.Protect("x", nil), shmem.ErrArgument, "nil")
		_, err = (*shmem.CommitRequest)(nil).Wait()
		wantError(t, err, shmem.ErrArgument, "nil")
		k := must(shmem.NewCheckpoint(w, shmem.Partner(0)))(t)
		_, err = k.Commit()
		wantError(t, err, shmem.ErrArgument, "Protect")
		wantError(t, k.RestoreFrom(1), shmem.ErrArgument, "no epoch")
		x := must(shmem.Calloc[float32](w, 3))(t)
		wantError(t, k.Protect("x", nil), shmem.ErrArgument, "nil")
		wantError(t, k.Protect("x", shmem.Sym[int]{}), shmem.ErrForeignHandle)
		ok(t, k.Protect("x", x))
		wantError(t, k.Protect("x", x), shmem.ErrArgument, "another name")
		if epoch, err := k.Commit(); err != nil || epoch != 1 {
			t.Errorf("epoch %d, error %v, want 1", epoch, err)
		}
		y := must(shmem.Calloc[float32](w, 3))(t)
		wantError(t, k.Protect("y", y), shmem.ErrArgument, "before")
		wantError(t, shmem.GetCommitted(k, make([]float32, 1), y, 0), shmem.ErrArgument, "not protected")
		wantError(t, shmem.GetCommitted(k, make([]float32, 4), x, 0), shmem.ErrBounds)
		wantError(t, shmem.GetCommitted(k, make([]float32, 1), x, 2), shmem.ErrArgument, "took no part")
		ok(t, k.Free())
		_, err = k.Commit()
		wantError(t, err, shmem.ErrArgument, "Protect")
	})
}
