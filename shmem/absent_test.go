package shmem_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// mustNotPanic runs f and fails the test if it panics.
func mustNotPanic(t *testing.T, name string, f func()) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("%s panics: %v", name, p)
		}
	}()
	f()
}

// Calls on handles that Init did not make (nil and zero values) return errors and never panic: a
// program that ignores Init's error is left with a nil World.
func TestAbsentHandles(t *testing.T) {
	ctx := t.Context()
	for name, w := range map[string]*shmem.World{
		"nil World": nil, "nil World.With": (*shmem.World)(nil).With(ctx),
		"zero World": {}, "zero World.With": (&shmem.World{}).With(ctx),
	} {
		t.Run(name, func(t *testing.T) { testAbsentWorld(t, w) })
	}
	for name, c := range map[string]*shmem.Ctx{
		"nil Ctx": nil, "nil Ctx.With": (*shmem.Ctx)(nil).With(ctx), "nil World.Ctx": (*shmem.World)(nil).Ctx(),
		"zero World.Ctx": (&shmem.World{}).Ctx(), "zero Ctx": {}, "zero Ctx.With": (&shmem.Ctx{}).With(ctx),
	} {
		t.Run(name, func(t *testing.T) { testAbsentCtx(t, c, shmem.Sym[uint64]{}) })
	}
	for name, team := range map[string]*shmem.Team{
		"nil Team": nil, "nil Team.With": (*shmem.Team)(nil).With(ctx), "nil World.Team": (*shmem.World)(nil).Team(),
		"zero World.Team": (&shmem.World{}).Team(), "zero Team": {}, "zero Team.With": (&shmem.Team{}).With(ctx),
	} {
		t.Run(name, func(t *testing.T) { testAbsentTeam(t, team, shmem.Sym[uint64]{}) })
	}
}

// TestAbsentHandlesInAJob makes the same calls beside a live handle.
func TestAbsentHandlesInAJob(t *testing.T) {
	shmemtest.Run(t, 1, func(t *testing.T, w *shmem.World) {
		x := must(shmem.Calloc[uint64](w, 4))(t)
		for _, c := range []*shmem.Ctx{nil, {}, (&shmem.Ctx{}).With(context.Background())} {
			testAbsentCtx(t, c, x)
		}
		for _, team := range []*shmem.Team{nil, {}} {
			testAbsentTeam(t, team, x)
		}
		var none shmem.Sym[uint64]
		mustNotPanic(t, "zero Sym", func() {
			if none.Len() != 0 || none.Local() != nil || none.At(0).Len() != 0 || none.Slice(0, 0).Len() != 0 {
				t.Error("the zero Sym has elements")
			}
			if _, reachable := none.Peer(0); reachable {
				t.Error("the zero Sym reaches a peer")
			}
			ok(t, shmem.Free(w, none)) // specified as a no-op
			all := must(shmem.Realloc(w, none, 5))(t)
			checkBool(t, "Realloc of the zero Sym allocates", all.Len() == 5, true)
			ok(t, shmem.Free(w, all))
			wantError(t, shmem.WaitUntil(w.Ctx(), none, shmem.EQ, 0), shmem.ErrForeignHandle)
			wantError(t, shmem.FCollect(w.Team(), none, none), shmem.ErrForeignHandle)
		})
		mustNotPanic(t, "nil options", func() {
			_, err := shmem.Alloc[int](w, 1, nil)
			wantUsageError(t, "Alloc", err)
			_, err = shmem.Calloc[int](w, 0, shmem.Align(64), nil)
			wantUsageError(t, "Calloc", err)
			_, err = shmem.Init(nil)
			wantUsageError(t, "Init", err)
		})
		mustNotPanic(t, "nil operator", func() {
			err := shmem.Reduce(w.Team(), x, x, nil)
			wantUsageError(t, "Reduce", err)
		})
	})
}

// wantUsageError checks that err is a UsageError of op about an argument.
func wantUsageError(t *testing.T, op string, err error) {
	t.Helper()
	wantError(t, err, shmem.ErrArgument, "shmem."+op+": ")
	if u, is := errors.AsType[*shmem.UsageError](err); !is || u.Op != op {
		t.Errorf("error %v, want a UsageError of %s", err, op)
	}
}

// wantAllRefused makes each call and checks that it returns the UsageError of its name.
func wantAllRefused(t *testing.T, table map[string]func() error) {
	t.Helper()
	for op, call := range table {
		mustNotPanic(t, op, func() { wantUsageError(t, op, call()) })
	}
}

// errOf drops the result of a call and keeps its error.
func errOf[T any](_ T, err error) error { return err }

func testAbsentWorld(t *testing.T, w *shmem.World) {
	t.Helper()
	var x shmem.Sym[uint64]
	wantAllRefused(t, map[string]func() error{
		"Barrier":  w.Barrier,
		"Finalize": w.Finalize,
		"Alloc":    func() error { return errOf(shmem.Alloc[uint64](w, 1)) },
		"Calloc":   func() error { return errOf(shmem.Calloc[uint64](w, 1, shmem.Align(64))) },
		"Realloc":  func() error { return errOf(shmem.Realloc(w, x, 1)) },
		"Free":     func() error { return shmem.Free(w, x) },
	})
	mustNotPanic(t, "methods without an error result", func() {
		if w.MyPE() != -1 || w.NPEs() != 0 || w.Heap() != (shmem.HeapStats{}) {
			t.Errorf("PE %d of %d, heap %+v, want -1, 0 and zeros", w.MyPE(), w.NPEs(), w.Heap())
		}
		if w.Team() != nil || w.Ctx() != nil {
			t.Error("an absent World has a team or a context")
		}
		testAbsentTeam(t, w.Team(), x)
		testAbsentCtx(t, w.Ctx(), x)
	})
}

func testAbsentTeam(t *testing.T, team *shmem.Team, x shmem.Sym[uint64]) {
	t.Helper()
	wantAllRefused(t, map[string]func() error{
		"Team.Sync": team.Sync,
		"Broadcast": func() error { return shmem.Broadcast(team, x, x, 0) },
		"Reduce":    func() error { return shmem.Reduce(team, x, x, shmem.Sum) },
		"FCollect":  func() error { return shmem.FCollect(team, x, x) },
		"Alltoall":  func() error { return shmem.Alltoall(team, x, x) },
	})
	mustNotPanic(t, "methods without an error result", func() {
		if team.MyPE() != -1 || team.NPEs() != 0 {
			t.Errorf("PE %d of %d, want -1 of 0", team.MyPE(), team.NPEs())
		}
	})
}

func testAbsentCtx(t *testing.T, c *shmem.Ctx, x shmem.Sym[uint64]) {
	t.Helper()
	buf := make([]uint64, 1)
	if c == nil { // specified as a no-op
		ok(t, c.Quiet())
		ok(t, c.Fence())
	} else {
		wantUsageError(t, "Ctx.Quiet", c.Quiet())
		wantUsageError(t, "Ctx.Fence", c.Fence())
	}
	wantAllRefused(t, map[string]func() error{
		"P":                   func() error { return shmem.P(c, x, 1, 0) },
		"G":                   func() error { return errOf(shmem.G(c, x, 0)) },
		"Put":                 func() error { return shmem.Put(c, x, buf, 0) },
		"Get":                 func() error { return shmem.Get(c, buf, x, 0) },
		"PutNBI":              func() error { return shmem.PutNBI(c, x, buf, 0) },
		"GetNBI":              func() error { return errOf(shmem.GetNBI(c, buf, x, 0)) },
		"PutSignal":           func() error { return shmem.PutSignal(c, x, nil, x, 1, shmem.SignalSet, 0) },
		"Ctx.SignalAdd":       func() error { return c.SignalAdd(x, 1, 0) },
		"Ctx.SignalSet":       func() error { return c.SignalSet(x, 1, 0) },
		"Ctx.SignalFetch":     func() error { return errOf(c.SignalFetch(x)) },
		"Ctx.SignalWaitUntil": func() error { return errOf(c.SignalWaitUntil(x, shmem.EQ, 0)) },
		"WaitUntil":           func() error { return shmem.WaitUntil(c, x, shmem.EQ, 0) },
		"Test":                func() error { return errOf(shmem.Test(c, x, shmem.EQ, 0)) },
		"AtomicFetch":         func() error { return errOf(shmem.AtomicFetch(c, x, 0)) },
		"AtomicSet":           func() error { return shmem.AtomicSet(c, x, 1, 0) },
		"AtomicSwap":          func() error { return errOf(shmem.AtomicSwap(c, x, 1, 0)) },
		"AtomicCompareSwap":   func() error { return errOf(shmem.AtomicCompareSwap(c, x, 1, 2, 0)) },
		"AtomicFetchInc":      func() error { return errOf(shmem.AtomicFetchInc(c, x, 0)) },
		"AtomicInc":           func() error { return shmem.AtomicInc(c, x, 0) },
		"AtomicFetchAdd":      func() error { return errOf(shmem.AtomicFetchAdd(c, x, 1, 0)) },
		"AtomicAdd":           func() error { return shmem.AtomicAdd(c, x, 1, 0) },
		"AtomicFetchAnd":      func() error { return errOf(shmem.AtomicFetchAnd(c, x, 1, 0)) },
		"AtomicAnd":           func() error { return shmem.AtomicAnd(c, x, 1, 0) },
		"AtomicFetchOr":       func() error { return errOf(shmem.AtomicFetchOr(c, x, 1, 0)) },
		"AtomicOr":            func() error { return shmem.AtomicOr(c, x, 1, 0) },
		"AtomicFetchXor":      func() error { return errOf(shmem.AtomicFetchXor(c, x, 1, 0)) },
		"AtomicXor":           func() error { return shmem.AtomicXor(c, x, 1, 0) },
	})
}

// GlobalExit ends the process even if Init did not make its World.
func TestAbsentGlobalExit(t *testing.T) {
	for name, w := range map[string]*shmem.World{"nil": nil, "zero": {}} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			shmemtest.Run(t, 1, func(t *testing.T, _ *shmem.World) {
				mustNotPanic(t, "GlobalExit", func() { w.GlobalExit(9) })
				t.Error("GlobalExit returned, want it to end the process")
			}, shmemtest.Status(9), shmemtest.Output(&out))
			if os.Getenv("GOSHMEM_SHMEMTEST_CALL") == "" && !strings.Contains(out.String(), "shmem.GlobalExit: World is nil") {
				t.Errorf("GlobalExit printed, without the reason:\n%s", &out)
			}
		})
	}
}
