package shmem_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// Waits and tests of several elements refuse bad arguments.
func TestBadSets(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		c, x := w.Ctx(), must(shmem.Calloc[int32](w, 4))(t)
		idx, three := make([]int, 4), make([]bool, 3)
		wantError(t, shmem.WaitUntilAll(c, x, three, shmem.EQ, 0), shmem.ErrArgument, "skip has 3 elements, want none or 4")
		wantError(t, shmem.WaitUntilAll(c, x, nil, shmem.Cmp(6), 0), shmem.ErrArgument, "comparison 6")
		wantError(t, shmem.WaitUntilAllVector(c, x, nil, shmem.EQ, make([]int32, 5)), shmem.ErrArgument, "5 values, want 4")
		wantError(t, errOf(shmem.WaitUntilAny(c, x.Slice(2, 5), nil, shmem.EQ, 0)), shmem.ErrBounds, "WaitUntilAny")
		wantError(t, errOf(shmem.WaitUntilAnyVector(c, x, three, shmem.EQ, make([]int32, 4))), shmem.ErrArgument, "WaitUntilAnyVector")
		wantError(t, errOf(shmem.WaitUntilSome(c, x, nil, nil, shmem.EQ, 0)), shmem.ErrArgument, "no room")
		wantError(t, errOf(shmem.WaitUntilSomeVector(nil, x, idx, nil, shmem.EQ, make([]int32, 4))), shmem.ErrArgument, "context is nil")
		wantError(t, errOf(shmem.TestAll(c, shmem.Sym[int32]{}, nil, shmem.EQ, 0)), shmem.ErrForeignHandle)
		wantError(t, errOf(shmem.TestAllVector(c, x, nil, shmem.EQ, nil)), shmem.ErrArgument, "0 values")
		wantError(t, errOf(shmem.TestAny(c, x, three, shmem.EQ, 0)), shmem.ErrArgument, "skip")
		wantError(t, errOf(shmem.TestAnyVector(c, x, nil, shmem.Cmp(9), make([]int32, 4))), shmem.ErrArgument, "comparison 9")
		wantError(t, errOf(shmem.TestSome(c, x, nil, nil, shmem.EQ, 0)), shmem.ErrArgument, "no room")
		wantError(t, errOf(shmem.TestSomeVector(c, x, idx, nil, shmem.EQ, make([]int32, 1))), shmem.ErrArgument, "1 values")
		y := must(shmem.Calloc[int32](w, 4))(t)
		ok(t, shmem.Free(w, y))
		wantError(t, errOf(shmem.WaitUntilAny(c, y, nil, shmem.EQ, 0)), shmem.ErrFreed)
		i, err := shmem.WaitUntilAny(c, y, nil, shmem.EQ, 0)
		if i != -1 || err == nil {
			t.Errorf("a wait on a freed object returned element %d, error %v", i, err)
		}
	})
}

// The end of a context ends waits of several elements as well.
func TestSetsDeadline(t *testing.T) {
	shmemtest.Run(t, 1, func(t *testing.T, w *shmem.World) {
		x := must(shmem.Calloc[int16](w, 4))(t)
		for what, wait := range map[string]func(c *shmem.Ctx) error{
			"all":  func(c *shmem.Ctx) error { return shmem.WaitUntilAll(c, x, nil, shmem.EQ, 1) },
			"any":  func(c *shmem.Ctx) error { return errOf(shmem.WaitUntilAny(c, x, nil, shmem.EQ, 1)) },
			"some": func(c *shmem.Ctx) error { return errOf(shmem.WaitUntilSome(c, x, make([]int, 1), nil, shmem.EQ, 1)) },
		} {
			ctx, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
			if err := wait(w.Ctx().With(ctx)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: error %v, want the deadline's error", what, err)
			}
			stop()
		}
	})
}

// A death ends waits of several elements. After it is acknowledged, they wait again.
func TestDeathEndsSets(t *testing.T) {
	const npes, victim = 3, 1
	for op, wait := range map[string]func(c *shmem.Ctx, x shmem.Sym[uint32]) error{
		"WaitUntilAll": func(c *shmem.Ctx, x shmem.Sym[uint32]) error { return shmem.WaitUntilAll(c, x, nil, shmem.EQ, 7) },
		"WaitUntilAny": func(c *shmem.Ctx, x shmem.Sym[uint32]) error {
			return errOf(shmem.WaitUntilAny(c, x, nil, shmem.EQ, 7))
		},
		"WaitUntilSomeVector": func(c *shmem.Ctx, x shmem.Sym[uint32]) error {
			return errOf(shmem.WaitUntilSomeVector(c, x, make([]int, 2), nil, shmem.EQ, []uint32{7, 7}))
		},
	} {
		t.Run(op, func(t *testing.T) {
			shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
				x, noted := must(shmem.Calloc[uint32](w, 2))(t), must(shmem.Calloc[int64](w, 1))(t)
				c, me := w.Ctx(), w.MyPE()
				if me == victim {
					dieWhenAsleep(w, 0, 2)
				}
				wantDeathError(t, op, wait(c, x), victim)
				wantDeathError(t, op, wait(c, x), victim)
				w.AckFailed()
				ok(t, shmem.P(c, noted, 1, 2-me))
				ok(t, shmem.WaitUntil(c, noted, shmem.EQ, 1))
				if me == 0 {
					waitForSleeper(t, w, 2) // it has put, and now waits
				}
				ok(t, shmem.P(c, x, 7, 2-me))
				ok(t, shmem.P(c, x.At(1), 7, 2-me))
				ok(t, wait(c, x))
			}, shmemtest.Recover(victim))
		})
	}
}

// Even if objects share a word of the table of turns, no element is passed over forever.
func TestTurnsOfManyObjects(t *testing.T) {
	shmemtest.Run(t, 1, func(t *testing.T, w *shmem.World) {
		const objects, elements = 200, 3
		x := must(shmem.Calloc[int64](w, objects*elements))(t)
		var seen [objects][elements]bool
		missing := objects * elements
		for calls := 0; missing > 0; calls++ {
			if calls > 1000*objects*elements {
				t.Fatalf("%d elements were never returned", missing)
			}
			o := calls % objects
			i := must(shmem.TestAny(w.Ctx(), x.Slice(o*elements, (o+1)*elements), nil, shmem.EQ, 0))(t)
			if !seen[o][i] {
				seen[o][i] = true
				missing--
			}
		}
	})
}

// Waits and tests of several elements do not allocate.
func TestSetsAllocateNothing(t *testing.T) {
	shmemtest.Run(t, 1, func(t *testing.T, w *shmem.World) {
		c, x := w.Ctx(), must(shmem.Calloc[int32](w, 8))(t)
		skip, idx, v := make([]bool, 8), make([]int, 8), make([]int32, 8)
		if n := testing.AllocsPerRun(100, func() {
			_ = shmem.WaitUntilAll(c, x, skip, shmem.EQ, 0)
			_, _ = shmem.WaitUntilAnyVector(c, x, skip, shmem.EQ, v)
			_, _ = shmem.WaitUntilSome(c, x, idx, skip, shmem.EQ, 0)
			_, _ = shmem.TestAllVector(c, x, skip, shmem.EQ, v)
			_, _ = shmem.TestAny(c, x, skip, shmem.EQ, 0)
			_, _ = shmem.TestSomeVector(c, x, idx, skip, shmem.EQ, v)
		}); n != 0 {
			t.Errorf("%v allocations, want none", n)
		}
	})
}
