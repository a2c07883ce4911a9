package shmem_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// A PE with bad arguments gets its own error. The other PEs do not wait: each gets an error that
// names that PE and says what is wrong.
func TestCheckRefused(t *testing.T) {
	shmemtest.Run(t, 4, func(t *testing.T, w *shmem.World) {
		e := newCaller(t, w, w.Team())
		for turn, c := range []struct {
			good  namedCall
			cause error
			what  string
			bad   func() error
		}{
			{broadcast(8, 1), shmem.ErrPERange, "Broadcast with bad arguments (root 4 of a team of 4", broadcastTo(e, 4)},
			{broadcast(8, 1), shmem.ErrArgument, "Broadcast with bad arguments (destination has 7 elements, want at least 8", func() error {
				return shmem.Broadcast(e.t, e.y.Slice(0, 7), e.x.Slice(0, 8), 1)
			}},
			{broadcast(8, 1), shmem.ErrBounds, "Broadcast with bad arguments (handle was made by At(i)", func() error {
				return shmem.Broadcast(e.t, e.y.At(-1), e.x.Slice(0, 8), 1)
			}},
			{reduce("sum", 8, shmem.Sum), shmem.ErrOverlap, "Reduce with bad arguments (source and destination overlap", func() error {
				return shmem.Reduce(e.t, e.x.Slice(1, 9), e.x.Slice(0, 8), shmem.Sum)
			}},
			{reduce("sum", 8, shmem.Sum), shmem.ErrArgument, "Reduce with bad arguments (operator is nil", func() error {
				return shmem.Reduce(e.t, e.y.Slice(0, 8), e.x.Slice(0, 8), nil)
			}},
			{reduceValue("sum", shmem.Sum), shmem.ErrArgument, "ReduceValue with bad arguments (operator is nil", func() error {
				return errOf(shmem.ReduceValue(e.t, int64(1), nil))
			}},
			{reduceValue("sum", shmem.Sum), shmem.ErrElementType, "ReduceValue with bad arguments (element type *int64", func() error {
				return errOf(shmem.ReduceValue(e.t, new(int64), func(_, _ []*int64) {}))
			}},
			{broadcastValue(1), shmem.ErrPERange, "BroadcastValue with bad arguments (root 4 of a team of 4", func() error {
				return errOf(shmem.BroadcastValue(e.t, int64(1), 4))
			}},
			{inScan(8), shmem.ErrArgument, "SumInScan with bad arguments", func() error { return shmem.SumInScan(e.t, e.y.Slice(0, 7), e.x.Slice(0, 8)) }},
			{exScan(8), shmem.ErrArgument, "SumExScan with bad arguments", func() error { return shmem.SumExScan(e.t, e.y.Slice(0, 7), e.x.Slice(0, 8)) }},
			{fcollect(8), shmem.ErrArgument, "FCollect with bad arguments (destination has 8", func() error { return shmem.FCollect(e.t, e.y.Slice(0, 8), e.x.Slice(0, 8)) }},
			{collect, shmem.ErrForeignHandle, "Collect with bad arguments (handle is the zero value", func() error {
				return shmem.Collect(e.t, e.y, shmem.Sym[int64]{})
			}},
			{alltoall(12), shmem.ErrArgument, "Alltoall with bad arguments (9 elements for a team of 4", func() error {
				return shmem.Alltoall(e.t, e.y.Slice(0, 9), e.x.Slice(0, 9))
			}},
			{alltoall(12), shmem.ErrArgument, "Alltoall with bad arguments (destination has 8", func() error {
				return shmem.Alltoall(e.t, e.y.Slice(0, 8), e.x.Slice(0, 12))
			}},
			{alltoalls(4, 1, 1), shmem.ErrArgument, "AlltoallS with bad arguments (stride", func() error {
				return shmem.AlltoallS(e.t, e.y, e.x, shmem.Stride{N: 1})
			}},
			{alltoalls(4, 1, 1), shmem.ErrArgument, "AlltoallS with bad arguments (destination has 3 elements", func() error {
				return shmem.AlltoallS(e.t, e.y.Slice(0, 3), e.x, shmem.Stride{N: 4, Dst: 1, Src: 1})
			}},
			{alltoalls(4, 1, 1), shmem.ErrOverlap, "AlltoallS with bad arguments (source and", func() error {
				return shmem.AlltoallS(e.t, e.x, e.x, shmem.Stride{N: 4, Dst: 1, Src: 1})
			}},
			{collect, shmem.ErrElementType, "Alloc with bad arguments (element type", func() error { return errOf(shmem.Alloc[*int](w, 1)) }},
			{collect, shmem.ErrArgument, "Free with bad arguments (handle of a part", func() error { return shmem.Free(w, e.x.At(1)) }},
			{collect, shmem.ErrArgument, "Realloc with bad arguments", func() error { return errOf(shmem.Realloc(w, e.x, -1)) }},
		} {
			wantRefusedAlone(t, e, [2]namedCall{c.good, {c.what, func(*caller) error { return c.bad() }}}, turn%4, c.cause)
			e.checkWorks(t, c.what)
			if err := c.bad(); !errors.Is(err, c.cause) { // on all PEs
				t.Errorf("%s: %v, want %v", c.what, err, c.cause)
			}
			e.checkWorks(t, c.what)
		}
	}, withChecks...)
}

func broadcastTo(e *caller, root int) func() error {
	return func() error { return shmem.Broadcast(e.t, e.y.Slice(0, 8), e.x.Slice(0, 8), root) }
}

// The objects have to be the same, too. The error names them only if nothing else differs.
func TestCheckObjects(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		e := newCaller(t, w, w.Team())
		for _, n := range []int{8, 2000} {
			first := w.MyPE() // the last PE's destination begins one element later
			err := shmem.Reduce(e.t, e.y.Slice(first, first+n), e.x.Slice(0, n), shmem.Sum)
			wantError(t, err, shmem.ErrMismatch, fmt.Sprintf("Reduce(sum) of %d elements of int64 (from offset", n), "to offset", "on PE 0, but Reduce(sum)", "on PE 1")
			e.checkWorks(t, "objects")
		}
		// In a Collect, lengths and sources may differ.
		ok(t, shmem.Collect(e.t, e.y, e.x.Slice(w.MyPE(), 3+4*w.MyPE())))
	}, withChecks...)
}

// Equal calls behave as they do without the check.
func TestCheckAllTheSame(t *testing.T) {
	for _, n := range []int{1, 3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			shmemtest.Run(t, n, func(t *testing.T, w *shmem.World) {
				for _, size := range []int{0, 1, 7, 1025} {
					testBroadcasts(t, w, size)
					testReductions(t, w, size)
					testExchanges(t, w, size)
				}
				e := newCaller(t, w, w.Team())
				for round := range 300 {
					team := w.Team()
					if round%10 == 0 {
						team = must(w.Team().SplitStrided(0, 1, n, nil))(t)
						ok(t, team.Sync())
						ok(t, w.Barrier())
					}
					e.t = team
					e.checkWorks(t, "again")
					ok(t, shmem.Reduce(team, e.y.At(0), e.x.At(0), half))
					ok(t, shmem.Collect(team, e.y, e.x.Slice(0, w.MyPE())))
					ok(t, inScan(8).call(e))
					ok(t, alltoalls(4, 1, 2).call(e))
					must(team.Agree(1))(t)
					must(team.Validate())(t)
					if round%10 == 0 {
						s := must(team.Shrink())(t)
						ok(t, s.Destroy())
						ok(t, team.Destroy())
						z := must(shmem.Calloc[int64](w, 10))(t)
						z = must(shmem.Realloc(w, z, 1000))(t)
						ok(t, shmem.Free(w, z))
						ok(t, shmem.Free(w, shmem.Sym[int64]{}))
					}
				}
				must(shmem.Init())(t)
				ok(t, w.Finalize())
			}, withChecks...)
		})
	}
}

// Deaths are reported as they are without the check. On a strict team the survivors' call fails;
// on a tolerant one it succeeds, and survivors whose calls differ still get ErrMismatch.
func TestCheckDeath(t *testing.T) {
	const npes, victim = 4, 2
	for name, opts := range map[string][]shmemtest.Option{"tolerant": nil, "strict": {strictWorld}} {
		t.Run(name, func(t *testing.T) {
			shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
				e := newCaller(t, w, w.Team())
				if w.MyPE() == victim {
					dieWhenAsleep(w, 0, 1, 3)
				}
				err := reduce("sum", 8, shmem.Sum).call(e)
				if name == "strict" {
					wantDeathError(t, "Reduce", err, victim)
					wantDeathError(t, "Barrier", w.Barrier(), victim)
				} else {
					ok(t, err)
					if o := e.t.Outcome(); !slices.Equal(o.Contributors, []int{0, 1, 3}) {
						t.Errorf("got outcome %v, want the contributors 0, 1 and 3", o)
					}
					wantDeathError(t, "Broadcast", broadcast(8, victim).call(e), victim)
					pair := [2]namedCall{reduce("sum", 8, shmem.Sum), reduce("max", 8, shmem.Max)}
					mine := pair[0]
					if w.MyPE() == 1 {
						mine = pair[1]
					}
					wantMismatch(t, mine.call(e), pair, []int{0, 3}, 1)
					ok(t, w.Barrier())
				}
				wantDeathError(t, "Alloc", errOf(shmem.Alloc[int64](w, 1)), victim)
				if failed := must(e.t.Validate())(t); !slices.Equal(failed, []int{victim}) {
					t.Errorf("Validate returned %v, want only the victim", failed)
				}
				e.t = must(e.t.Shrink())(t)
				e.checkWorks(t, "shrunk")
				ok(t, e.t.Destroy())
			}, append(append(opts, withChecks...), shmemtest.Recover(victim))...)
		})
	}
}

// A missed deadline breaks the team as it does without the check, and agreements still work.
func TestCheckDeadline(t *testing.T) {
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		gone := must(shmem.Calloc[int64](w, 1))(t)
		team := must(w.Team().SplitStrided(0, 1, 3, nil))(t)
		if w.MyPE() == 1 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			wantError(t, team.With(ctx).Sync(), context.DeadlineExceeded, "shmem.Team.Sync: waiting for PE 0", "the team is broken")
			for _, pe := range []int{0, 2} {
				ok(t, shmem.AtomicSet(w.Ctx(), gone, 1, pe))
			}
		} else {
			ok(t, shmem.WaitUntil(w.Ctx(), gone, shmem.EQ, 1))
		}
		wantError(t, team.Sync(), shmem.ErrTeamBroken)
		if got, err := team.Agree(uint64(w.MyPE() | 4)); err != nil || got != 4 {
			t.Errorf("Agree returned %d, %v, want 4", got, err)
		}
		s := must(team.Shrink())(t)
		ok(t, s.Sync())
		wantError(t, team.Destroy(), shmem.ErrTeamBroken)
		wantError(t, team.Sync(), shmem.ErrDestroyed)
		ok(t, w.Barrier())
	}, withChecks...)
}

// After its deadline, a PE may make the same next call as the others. A collective then returns an
// error; agreements and Finalize work as they do without the check.
func TestCheckGivenUp(t *testing.T) {
	for name, meet := range map[string]func(t *testing.T, team *shmem.Team){
		"collective": func(t *testing.T, team *shmem.Team) {
			if team.MyPE() != 2 {
				_, _, err := team.Split2D(1, nil, nil)
				wantError(t, err, shmem.ErrMismatch, "Team.Split2D(1) with ModeStrict and ModeStrict on PE 1, 2, but Sync, given up, on PE 0")
				wantError(t, err, shmem.ErrTeamBroken)
			}
			wantError(t, team.Sync(), shmem.ErrTeamBroken)
		},
		"agreement": func(*testing.T, *shmem.Team) {},
		"validation": func(t *testing.T, team *shmem.Team) {
			if failed, err := team.Validate(); len(failed) > 0 || err != nil {
				t.Errorf("Validate returned %v, %v, want no failures", failed, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
				given := must(shmem.Calloc[int64](w, 1))(t)
				team := must(w.Team().SplitStrided(2, -1, 3, nil))(t)
				if w.MyPE() == 0 {
					ctx, stop := context.WithCancel(t.Context())
					stop()
					wantError(t, team.With(ctx).Sync(), context.Canceled, "the team is broken")
					wantError(t, w.With(ctx).Sync(), context.Canceled, "the team is broken")
					for pe := 1; pe < w.NPEs(); pe++ {
						ok(t, shmem.P(w.Ctx(), given, 1, pe))
					}
				} else {
					ok(t, shmem.WaitUntil(w.Ctx(), given, shmem.EQ, 1))
				}
				meet(t, team)
				s := must(team.Shrink())(t)
				ok(t, s.Sync())
				if name == "agreement" {
					wantError(t, team.Destroy(), shmem.ErrTeamBroken)
					wantError(t, team.Destroy(), shmem.ErrDestroyed)
				}
			}, withChecks...) // Finalize is the first collective after the Sync that PE 0 gave up
		})
	}
}

// All PEs compare their calls if one PE asks for it, also if mpi initializes first, and again
// after Finalize.
func TestCheckAskedByOne(t *testing.T) {
	for who := range 3 {
		t.Run(fmt.Sprint(who), func(t *testing.T) {
			shmemtest.RunBare(t, 3, func(t *testing.T) {
				for round := range 6 {
					asks := round%3 != 2
					t.Setenv("GOSHMEM_CHECK", "")
					me := must(strconv.Atoi(os.Getenv("PMIX_RANK")))(t)
					if asks && me == who {
						t.Setenv("GOSHMEM_CHECK", " collectives,")
					}
					var m *mpi.World
					if round%3 == 0 {
						m = must(mpi.Init())(t)
					}
					w := must(shmem.Init())(t)
					e := newCaller(t, w, w.Team())
					err := reduce("sum", 8+me/2, shmem.Sum).call(e)
					if asks {
						wantError(t, err, shmem.ErrMismatch, "Reduce(sum) of 8 elements of int64 on PE 0, 1, but Reduce(sum) of 9 elements of int64 on PE 2")
					} else if errors.Is(err, shmem.ErrMismatch) {
						t.Errorf("round %d: %v, want no error: no PE asked for the check", round, err)
					}
					ok(t, w.Finalize())
					if m != nil {
						ok(t, m.Finalize())
					}
				}
			}, shmemtest.Timeout(30*time.Second), oneNode)
		})
	}
}

// An unknown check in GOSHMEM_CHECK is an error of Init, in both packages.
func TestCheckUnknown(t *testing.T) {
	for value, word := range map[string]string{"collective": `"collective" is none of them`, "collectives,races": `"races" is none of them`} {
		t.Setenv("GOSHMEM_CHECK", value)
		for name, err := range map[string]error{"shmem": errOf(shmem.Init()), "mpi": errOf(mpi.Init())} {
			if err == nil || !strings.Contains(err.Error(), name+`.Init: GOSHMEM_CHECK="`+value+`", want a comma list of collectives; `+word) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// Without the check a call allocates nothing, even if its operator is a closure.
func TestCheckOffAllocatesNothing(t *testing.T) {
	shmemtest.Run(t, 1, func(t *testing.T, w *shmem.World) {
		e := newCaller(t, w, w.Team())
		ten := int64(10)
		if n := testing.AllocsPerRun(100, func() {
			for _, err := range []error{
				w.Barrier(), e.t.Sync(),
				shmem.Broadcast(e.t, e.y, e.x, 0), shmem.FCollect(e.t, e.y, e.x), shmem.Alltoall(e.t, e.y, e.x),
				shmem.Reduce(e.t, e.y, e.x, func(acc, in []int64) { acc[0] += ten * in[0] }),
				shmem.SumInScan(e.t, e.y, e.x), shmem.Collect(e.t, e.y, e.x),
			} {
				if err != nil {
					t.Error(err)
				}
			}
		}); n != 0 {
			t.Errorf("%v allocations a call, want none", n)
		}
	})
}
