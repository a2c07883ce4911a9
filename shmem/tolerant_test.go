package shmem_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// A PE is killed while the others are in a collective of a tolerant world. The collective ends on
// all survivors with their contributions, and so do later ones.
func TestDeathIsTolerated(t *testing.T) {
	const npes, victim = 4, 2
	for _, n := range []int{3, 3000} { // through slots, and by direct reads
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
				src, dst := must(shmem.Calloc[int64](w, npes*n))(t), must(shmem.Calloc[int64](w, npes*n))(t)
				tm, me := w.Team(), int64(w.MyPE())
				x, y := src.Slice(0, n), dst.Slice(0, n)
				for i := range src.Local() {
					src.Local()[i] = 100*me + int64(i)
				}
				outcome := func(op string, err error, contributors ...int) {
					t.Helper()
					o := tm.Outcome()
					if err != nil || !slices.Equal(o.Contributors, contributors) || !slices.Equal(o.Failed, []int{victim}) {
						t.Errorf("%s: error %v, outcome %v, want contributors %v", op, err, o, contributors)
					}
				}
				ok(t, w.Barrier())
				if o := tm.Outcome(); len(o.Contributors) != npes || o.Failed != nil {
					t.Errorf("outcome of the whole world: got %v, want all PEs and no failures", o)
				}
				if me == victim {
					dieWhenAsleep(w, 0, 1, 3)
				}
				wantDeathError(t, "Broadcast", shmem.Broadcast(tm, y, x, victim), victim)
				if o := tm.Outcome(); o.Contributors != nil || !slices.Equal(o.Failed, []int{victim}) {
					t.Errorf("outcome of a broadcast by a dead root: got %v, want no contributors and the victim as failed", o)
				}
				outcome("Reduce", shmem.Reduce(tm, y, x, shmem.Sum), 0, 1, 3)
				for i, v := range y.Local() {
					if want := int64(400 + 3*i); v != want {
						t.Fatalf("element %d of the sum is %d, want %d", i, v, want)
					}
				}
				ok(t, shmem.Broadcast(tm, y, x, 1))
				if o := tm.Outcome(); !slices.Equal(o.Contributors, []int{1}) || y.Local()[n-1] != 100+int64(n-1) {
					t.Errorf("broadcast by PE 1: got outcome %v and last element %d, want contributor 1 and %d", o, y.Local()[n-1], 100+n-1)
				}
				fillWith(dst.Local(), -1)
				outcome("FCollect", shmem.FCollect(tm, dst, x), 0, 1, 3)
				check := func(op string, give func(from, i int) int64) {
					t.Helper()
					for j, v := range dst.Local() {
						want := give(j/n, j%n)
						if j/n == victim {
							want = -1
						}
						if v != want {
							t.Fatalf("%s: element %d is %d, want %d", op, j, v, want)
						}
					}
				}
				check("FCollect", func(from, i int) int64 { return int64(100*from + i) })
				fillWith(dst.Local(), -1)
				outcome("Alltoall", shmem.Alltoall(tm, dst, src), 0, 1, 3)
				check("Alltoall", func(from, i int) int64 { return int64(100*from+i) + me*int64(n) })
				outcome("Sync", tm.Sync(), 0, 1, 3)
				outcome("Barrier", w.Barrier(), 0, 1, 3)
			}, shmemtest.Recover(victim))
		})
	}
}

func fillWith(s []int64, v int64) {
	for i := range s {
		s[i] = v
	}
}

// Survivors agree, get the same list of the dead and make a team of their own, in either mode, and
// also if the team is broken.
func TestAgreeValidateShrink(t *testing.T) {
	const npes, victim = 5, 1
	for name, opts := range map[string][]shmemtest.Option{"tolerant": nil, "strict": {strictWorld}} {
		t.Run(name, func(t *testing.T) {
			shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
				tm, me := w.Team(), w.MyPE()
				x, y := must(shmem.Calloc[int64](w, 1))(t), must(shmem.Calloc[int64](w, 1))(t)
				if got, err := tm.Agree(^uint64(1 << me)); err != nil || got != ^uint64(1<<npes-1) {
					t.Errorf("Agree returned %#x, %v, want %#x", got, err, ^uint64(1<<npes-1))
				}
				if failed, err := tm.Validate(); err != nil || failed != nil {
					t.Errorf("Validate with all alive returned %v, %v, want none", failed, err)
				}
				if me == victim {
					dieWhenAsleep(w, 0, 2, 3, 4)
				}
				err := w.Barrier()
				if name == "strict" {
					wantDeathError(t, "Barrier", err, victim)
				} else {
					ok(t, err)
				}
				if got, err := tm.Agree(uint64(7 - me)); err != nil || got != 7&5&4&3 {
					t.Errorf("Agree after the death returned %#x, %v, want %#x", got, err, 7&5&4&3)
				}
				if failed, err := tm.Validate(); err != nil || !slices.Equal(failed, []int{victim}) {
					t.Errorf("Validate returned %v, %v, want only PE %d", failed, err, victim)
				}
				for range 80 { // more than there are ids
					s := must(tm.Shrink())(t)
					if want := map[int]int{0: 0, 2: 1, 3: 2, 4: 3}[me]; s.NPEs() != npes-1 || s.MyPE() != want {
						t.Fatalf("PE %d of %d, want %d of %d", s.MyPE(), s.NPEs(), want, npes-1)
					}
					x.Local()[0] = int64(me)
					ok(t, shmem.Reduce(s, y, x, shmem.Sum))
					if y.Local()[0] != 9 {
						t.Fatalf("sum %d, want 9", y.Local()[0])
					}
					if got, err := s.Agree(1); err != nil || got != 1 {
						t.Fatalf("Agree of the survivors returned %d, %v, want 1", got, err)
					}
					if failed, err := s.Validate(); err != nil || failed != nil {
						t.Fatalf("Validate of the survivors returned %v, %v, want none", failed, err)
					}
					ok(t, s.Destroy())
				}
			}, append(opts, shmemtest.Recover(victim))...)
		})
	}
}

// If the context of one PE ends during a collective, the collective fails for the others too, in
// either mode. They can still agree.
func TestBrokenForAll(t *testing.T) {
	for name, opts := range map[string][]shmemtest.Option{"tolerant": {shmemtest.Init(shmem.WorldMode(shmem.ModeTolerant))}, "strict": nil} {
		t.Run(name, func(t *testing.T) {
			shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
				gone := must(shmem.Calloc[int64](w, 1))(t)
				tm := must(w.Team().SplitStrided(0, 1, 3, nil))(t)
				if w.MyPE() == 1 {
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
					defer cancel()
					if err := tm.With(ctx).Sync(); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("Sync: %v, want the deadline's error", err)
					}
					for _, pe := range []int{0, 2} {
						ok(t, shmem.AtomicSet(w.Ctx(), gone, 1, pe))
					}
				} else {
					ok(t, shmem.WaitUntil(w.Ctx(), gone, shmem.EQ, 1))
					ok(t, tm.Sync()) // PE 1 had entered this one
					wantError(t, tm.Sync(), shmem.ErrTeamBroken)
				}
				wantError(t, tm.Sync(), shmem.ErrTeamBroken)
				if got, err := tm.Agree(uint64(w.MyPE() | 4)); err != nil || got != 4 {
					t.Errorf("Agree returned %d, %v, want 4", got, err)
				}
				s := must(tm.Shrink())(t)
				ok(t, s.Sync())
			}, opts...)
		})
	}
}
