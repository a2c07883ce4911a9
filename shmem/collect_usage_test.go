package shmem_test

import (
	"errors"
	"math"
	"strconv"
	"testing"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// Bad calls of collectives return errors that say what failed, the value and what is wanted. If
// only the PEs together can notice the fault, all get the error, and the team goes on.
func TestBadCollects(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		team := w.Team()
		x := must(shmem.Calloc[int64](w, 3000))(t)
		y := must(shmem.Calloc[int64](w, 6000))(t)
		var none shmem.Sym[int64]
		for _, n := range []int{5, 3000} { // through slots, and by direct reads
			// Only PE 1's destination is too short.
			err := shmem.Collect(team, y.Slice(0, 2*n-w.MyPE()), x.Slice(0, n))
			wantError(t, err, shmem.ErrArgument, "shmem.Collect", "PE 1 of the team", "has "+strconv.Itoa(2*n-1)+" elements", "at least "+strconv.Itoa(2*n))
		}
		wantError(t, shmem.Collect(team, x, x.Slice(5, 10)), shmem.ErrOverlap)
		// An empty range overlaps nothing, wherever it begins.
		ok(t, shmem.Collect(team, x.Slice(0, 10), x.Slice(5, 5)))
		ok(t, shmem.AlltoallS(team, x.Slice(0, 10), x.Slice(5, 9), shmem.Stride{Dst: 1, Src: 1}))
		wantError(t, shmem.Collect(team, x.At(3000), y), shmem.ErrBounds)
		wantError(t, shmem.Collect(team, y, x.At(-1)), shmem.ErrBounds)
		wantError(t, shmem.Collect(team, none, x), shmem.ErrForeignHandle)
		wantError(t, shmem.Collect(nil, y, x), shmem.ErrArgument, "team is nil")
		bytes := must(shmem.Calloc[byte](w, 80))(t)
		if w.MyPE() == 0 {
			wantError(t, shmem.Collect(team, y, x.Slice(0, 5)), shmem.ErrMismatch, "PE 1 of the team")
		} else {
			wantError(t, shmem.Collect(team, bytes.Slice(0, 40), bytes.Slice(40, 80)), shmem.ErrMismatch, "PE 0")
		}

		for _, s := range []shmem.Stride{
			{Dst: 0, Src: 1, N: 1}, {Dst: 1, Src: 0, N: 1}, {Dst: -1, Src: 1, N: 1}, {Dst: 1, Src: 1, N: -1}, {Dst: 1, Src: 1, Block: 2, N: 1},
		} {
			wantError(t, shmem.AlltoallS(team, y, x, s), shmem.ErrArgument, "AlltoallS", "want N at least 0")
		}
		wantError(t, shmem.AlltoallS(team, y, x, shmem.Stride{Dst: 1, Src: 3, N: 501}), shmem.ErrArgument, "source has 3000 elements", "(501*2-1)*3+1")
		wantError(t, shmem.AlltoallS(team, x, y, shmem.Stride{Dst: math.MaxInt, Src: 1, N: 1}), shmem.ErrArgument, "destination has 3000 elements")
		wantError(t, shmem.AlltoallS(team, y, x, shmem.Stride{Dst: 1, Src: 1, N: math.MaxInt}), shmem.ErrArgument, "elements")
		wantError(t, shmem.AlltoallS(team, x, x.Slice(1, 3000), shmem.Stride{Dst: 2, Src: 2, N: 2}), shmem.ErrOverlap)
		wantError(t, shmem.AlltoallS(team, none, x, shmem.Stride{Dst: 1, Src: 1, N: 0}), shmem.ErrForeignHandle)
		wantError(t, shmem.AlltoallS(team, y.At(6000), x, shmem.Stride{Dst: 1, Src: 1, N: 1}), shmem.ErrBounds)
		wantError(t, shmem.AlltoallS(nil, y, x, shmem.Stride{Dst: 1, Src: 1, N: 1}), shmem.ErrArgument, "team is nil")

		wantError(t, shmem.SumInScan(team, x.Slice(0, 9), x.Slice(9, 19)), shmem.ErrArgument, "SumInScan", "9 elements, want at least 10")
		wantError(t, shmem.SumExScan(team, x.Slice(0, 9), x.Slice(1, 10)), shmem.ErrOverlap, "SumExScan")
		wantError(t, shmem.SumExScan(team, x.At(3000), x), shmem.ErrBounds)
		wantError(t, shmem.SumInScan(nil, x, x), shmem.ErrArgument, "team is nil")

		huge := must(shmem.Calloc[[8193]byte](w, 1))(t)
		wantError(t, shmem.Reduce(team, huge, huge, func(_, _ [][8193]byte) {}), shmem.ErrElementType, "8193 bytes, want at most 8192")
		wantError(t, shmem.Reduce(team, x, x, nil), shmem.ErrArgument, "operator is nil")
		ok(t, w.Barrier())
	})
}

// PEs that call different large collectives all notice it, and the team is broken. On several nodes they notice it before
// data are moved, and the team goes on.
func TestMismatchedCollects(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		x := must(shmem.Calloc[int64](w, 3000))(t)
		y := must(shmem.Calloc[int64](w, 6000))(t)
		me := w.MyPE()
		for _, call := range []func(team *shmem.Team) error{
			func(team *shmem.Team) error {
				return shmem.Reduce(team, y.Slice(0, 2990+me), x.Slice(0, 2990+me), shmem.Sum)
			},
			func(team *shmem.Team) error {
				if me == 0 {
					return shmem.FCollect(team, y, x)
				}
				return shmem.Alltoall(team, y.Slice(0, 3000), x)
			},
			func(team *shmem.Team) error { return shmem.SumInScan(team, y.Slice(me, 2000+me), x.Slice(0, 2000)) },
		} {
			team := must(w.Team().SplitStrided(0, 1, 2, nil))(t)
			other, than := 1-me, ""
			if spans(w) { // all PEs get the same error
				other, than = 1, ", than PE 0,"
			}
			wantError(t, call(team), shmem.ErrMismatch, "PE "+strconv.Itoa(other)+" of the team called another collective, or with another root, length, object or element type"+than)
			if spans(w) {
				ok(t, team.Sync())
				ok(t, team.Destroy())
				continue
			}
			if err := team.Sync(); !errors.Is(err, shmem.ErrTeamBroken) {
				t.Errorf("the next collective: %v, want %v", err, shmem.ErrTeamBroken)
			}
			if err := team.Destroy(); !errors.Is(err, shmem.ErrTeamBroken) {
				t.Errorf("Destroy: %v, want %v", err, shmem.ErrTeamBroken)
			}
		}
		ok(t, w.Barrier())
	})
}
