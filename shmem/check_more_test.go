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

// A PE whose arguments are bad gets its own error, and the others one that names it and
// says what is wrong, instead of waiting.
func TestCheckRefused(t *testing.T) {
	shmemtest.Run(t, 4, func(t *testing.T, w *shmem.World) {
		e := newCaller(t, w, w.Team())
		for turn, c := range []struct {
			good  called
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
				return fails(shmem.ReduceValue(e.t, int64(1), nil))
			}},
			{reduceValue("sum", shmem.Sum), shmem.ErrElementType, "ReduceValue with bad arguments (element type *int64", func() error {
				return fails(shmem.ReduceValue(e.t, new(int64), func(_, _ []*int64) {}))
			}},
			{broadcastValue(1), shmem.ErrPERange, "BroadcastValue with bad arguments (root 4 of a team of 4", func() error {
				return fails(shmem.BroadcastValue(e.t, int64(1), 4))
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
			{collect, shmem.ErrElementType, "Alloc with bad arguments (element type", func() error { return fails(shmem.Alloc[*int](w, 1)) }},
			{collect, shmem.ErrArgument, "Free with bad arguments (handle of a part", func() error { return shmem.Free(w, e.x.At(1)) }},
			{collect, shmem.ErrArgument, "Realloc with bad arguments", func() error { return fails(shmem.Realloc(w, e.x, -1)) }},
		} {
			refusedAlone(t, e, [2]called{c.good, {c.what, func(*caller) error { return c.bad() }}}, turn%4, c.cause)
			e.works(t, c.what)
			if err := c.bad(); !errors.Is(err, c.cause) { // all of them
				t.Errorf("%s: %v, want %v", c.what, err, c.cause)
			}
			e.works(t, c.what)
		}
	}, checking...)
}

func broadcastTo(e *caller, root int) func() error {
	return func() error { return shmem.Broadcast(e.t, e.y.Slice(0, 8), e.x.Slice(0, 8), root) }
}

// Objects are to be the same, too; they are named where nothing else differs.
func TestCheckObjects(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		e := newCaller(t, w, w.Team())
		for _, n := range []int{8, 2000} {
			first := w.MyPE() // the odd one's destination begins an element later
			err := shmem.Reduce(e.t, e.y.Slice(first, first+n), e.x.Slice(0, n), shmem.Sum)
			refused(t, err, shmem.ErrMismatch, fmt.Sprintf("Reduce(sum) of %d elements of int64 (from offset", n), "to offset", "on PE 0, but Reduce(sum)", "on PE 1")
			e.works(t, "objects")
		}
		// Of a collect, lengths and sources may differ.
		ok(t, shmem.Collect(e.t, e.y, e.x.Slice(w.MyPE(), 3+4*w.MyPE())))
	}, checking...)
}

// Where nothing differs, all goes on as ever.
func TestCheckAllTheSame(t *testing.T) {
	for _, n := range []int{1, 3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			shmemtest.Run(t, n, func(t *testing.T, w *shmem.World) {
				for _, size := range []int{0, 1, 7, 1025} {
					broadcasts(t, w, size)
					reductions(t, w, size)
					exchanges(t, w, size)
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
					e.works(t, "again")
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
			}, checking...)
		})
	}
}

// Deaths are reported as ever: on a strict team the survivors' call fails; on a tolerant
// one it goes on, and survivors that differ learn it of each other.
func TestCheckDeath(t *testing.T) {
	const npes, victim = 4, 2
	for name, opts := range map[string][]shmemtest.Option{"tolerant": nil, "strict": {strict}} {
		t.Run(name, func(t *testing.T) {
			shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
				e := newCaller(t, w, w.Team())
				if w.MyPE() == victim {
					dieWhen(w, 0, 1, 3)
				}
				err := reduce("sum", 8, shmem.Sum).call(e)
				if name == "strict" {
					lost(t, "Reduce", err, victim)
					lost(t, "Barrier", w.Barrier(), victim)
				} else {
					ok(t, err)
					if o := e.t.Outcome(); !slices.Equal(o.Contributors, []int{0, 1, 3}) {
						t.Errorf("outcome %v", o)
					}
					lost(t, "Broadcast", broadcast(8, victim).call(e), victim)
					pair := [2]called{reduce("sum", 8, shmem.Sum), reduce("max", 8, shmem.Max)}
					mine := pair[0]
					if w.MyPE() == 1 {
						mine = pair[1]
					}
					differs(t, mine.call(e), pair, []int{0, 3}, 1)
					ok(t, w.Barrier())
				}
				lost(t, "Alloc", fails(shmem.Alloc[int64](w, 1)), victim)
				if failed := must(e.t.Validate())(t); !slices.Equal(failed, []int{victim}) {
					t.Errorf("Validate: %v", failed)
				}
				e.t = must(e.t.Shrink())(t)
				e.works(t, "shrunk")
				ok(t, e.t.Destroy())
			}, append(append(opts, checking...), shmemtest.Recover(victim))...)
		})
	}
}

// A deadline breaks the team as ever, and agreements go on.
func TestCheckDeadline(t *testing.T) {
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		gone := must(shmem.Calloc[int64](w, 1))(t)
		team := must(w.Team().SplitStrided(0, 1, 3, nil))(t)
		if w.MyPE() == 1 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			refused(t, team.With(ctx).Sync(), context.DeadlineExceeded, "shmem.Team.Sync: waiting for PE 0", "the team is broken")
			for _, pe := range []int{0, 2} {
				ok(t, shmem.AtomicSet(w.Ctx(), gone, 1, pe))
			}
		} else {
			ok(t, shmem.WaitUntil(w.Ctx(), gone, shmem.EQ, 1))
		}
		refused(t, team.Sync(), shmem.ErrTeamBroken)
		if got, err := team.Agree(uint64(w.MyPE() | 4)); err != nil || got != 4 {
			t.Errorf("Agree: %d, %v", got, err)
		}
		s := must(team.Shrink())(t)
		ok(t, s.Sync())
		refused(t, team.Destroy(), shmem.ErrTeamBroken)
		refused(t, team.Sync(), shmem.ErrDestroyed)
		ok(t, w.Barrier())
	}, checking...)
}

// A PE that has given a call up by its deadline may well call the same next as the others: these
// get an error from a collective, and agreements and Finalize go on, as they do without the check.
func TestCheckGivenUp(t *testing.T) {
	for name, meet := range map[string]func(t *testing.T, team *shmem.Team){
		"collective": func(t *testing.T, team *shmem.Team) {
			if team.MyPE() != 2 {
				_, _, err := team.Split2D(1, nil, nil)
				refused(t, err, shmem.ErrMismatch, "Team.Split2D(1) with ModeStrict and ModeStrict on PE 1, 2, but Sync, given up, on PE 0")
				refused(t, err, shmem.ErrTeamBroken)
			}
			refused(t, team.Sync(), shmem.ErrTeamBroken)
		},
		"agreement": func(*testing.T, *shmem.Team) {},
		"validation": func(t *testing.T, team *shmem.Team) {
			if failed, err := team.Validate(); len(failed) > 0 || err != nil {
				t.Errorf("Validate: %v, %v", failed, err)
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
					refused(t, team.With(ctx).Sync(), context.Canceled, "the team is broken")
					refused(t, w.With(ctx).Sync(), context.Canceled, "the team is broken")
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
					refused(t, team.Destroy(), shmem.ErrTeamBroken)
					refused(t, team.Destroy(), shmem.ErrDestroyed)
				}
			}, checking...) // Finalize is the first collective after the Sync that PE 0 has given up
		})
	}
}

// All PEs compare if one asks for it, also when it is mpi that begins, and again after
// Finalize.
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
						refused(t, err, shmem.ErrMismatch, "Reduce(sum) of 8 elements of int64 on PE 0, 1, but Reduce(sum) of 9 elements of int64 on PE 2")
					} else if errors.Is(err, shmem.ErrMismatch) {
						t.Errorf("round %d: %v, but nobody asks", round, err)
					}
					ok(t, w.Finalize())
					if m != nil {
						ok(t, m.Finalize())
					}
				}
			}, shmemtest.Timeout(30*time.Second))
		})
	}
}

// A word that names no check is an error of Init, of both packages.
func TestCheckUnknown(t *testing.T) {
	for value, word := range map[string]string{"collective": `"collective" is none of them`, "collectives,races": `"races" is none of them`} {
		t.Setenv("GOSHMEM_CHECK", value)
		for name, err := range map[string]error{"shmem": fails(shmem.Init()), "mpi": fails(mpi.Init())} {
			if err == nil || !strings.Contains(err.Error(), name+`.Init: GOSHMEM_CHECK="`+value+`", want a comma list of collectives; `+word) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// Without the check, a call costs no allocation, also where its operator is a function literal
// with variables.
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
			t.Errorf("%v allocations", n)
		}
	})
}
