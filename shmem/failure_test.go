package shmem_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// die kills this process with SIGKILL, as a crash would.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// dieWhenAsleep dies once the given PEs sleep in a wait, so that it interrupts that wait.
func dieWhenAsleep(w *shmem.World, asleep ...int) {
	for _, pe := range asleep {
		for !shmem.Asleep(w, pe) {
			runtime.Gosched()
		}
	}
	die()
}

// strictWorld makes worlds whose collectives fail when a PE has died.
var strictWorld = shmemtest.Init(shmem.WorldMode(shmem.ModeStrict))

// wantDeathError checks that err is a PEError of op that names exactly these PEs, all killed by
// SIGKILL.
func wantDeathError(t *testing.T, op string, err error, pes ...int) {
	t.Helper()
	e, is := errors.AsType[*shmem.PEError](err)
	if !is || !slices.Equal(e.PEs, pes) || e.Op != op || !errors.Is(err, shmem.ErrPEDied) {
		t.Errorf("error %v, want a PEError of %s with PEs %v that have died", err, op, pes)
		return
	}
	if cause, is := errors.AsType[failure.Cause](err); !is || cause.Signal() != syscall.SIGKILL {
		t.Errorf("error %v has cause %v, want SIGKILL", err, cause)
	}
	if !strings.Contains(err.Error(), "killed by signal 9 (SIGKILL)") {
		t.Errorf("error %q does not name SIGKILL", err)
	}
}

// A PE is killed while the others wait in a call. Each of them gets an error that names the dead
// PE, at once and again at the next call, and the heap is unchanged. This holds for all calls in a
// strict world, and for allocation calls in any world.
func TestDeathEndsCalls(t *testing.T) {
	const npes, victim = 4, 2
	type env struct {
		w    *shmem.World
		a, b shmem.Sym[uint64]
	}
	for op, call := range map[string]func(e env) error{
		"WaitUntil":           func(e env) error { return shmem.WaitUntil(e.w.Ctx(), e.a, shmem.NE, 0) },
		"Ctx.SignalWaitUntil": func(e env) error { return errOf(e.w.Ctx().SignalWaitUntil(e.a, shmem.GT, 0)) },
		"Barrier":             func(e env) error { return e.w.Barrier() },
		"Team.Sync":           func(e env) error { return e.w.Team().Sync() },
		"Broadcast":           func(e env) error { return shmem.Broadcast(e.w.Team(), e.a, e.b, victim) },
		"Reduce":              func(e env) error { return shmem.Reduce(e.w.Team(), e.a, e.b, shmem.Sum) },
		"ReduceValue":         func(e env) error { return errOf(shmem.ReduceValue(e.w.Team(), 1, shmem.Sum)) },
		"BroadcastValue":      func(e env) error { return errOf(shmem.BroadcastValue(e.w.Team(), immense{}, victim)) },
		"FCollect":            func(e env) error { return shmem.FCollect(e.w.Team(), e.a, e.b.Slice(0, 1000)) },
		"Alltoall":            func(e env) error { return shmem.Alltoall(e.w.Team(), e.a, e.b) },
		"Alloc":               func(e env) error { return errOf(shmem.Alloc[byte](e.w, 100)) },
		"Calloc":              func(e env) error { return errOf(shmem.Calloc[byte](e.w, 100)) },
		"Realloc":             func(e env) error { return errOf(shmem.Realloc(e.w, e.a, 100_000)) },
		"Free":                func(e env) error { return shmem.Free(e.w, e.a) },
	} {
		test := func(t *testing.T, tolerant bool, opts ...shmemtest.Option) {
			t.Helper()
			shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
				e := env{w, must(shmem.Calloc[uint64](w, 4000))(t), must(shmem.Calloc[uint64](w, 4000))(t)}
				heap := w.Heap()
				if w.MyPE() == victim {
					dieWhenAsleep(w, 0, 1, 3)
				}
				wantDeathError(t, op, call(e), victim)
				wantDeathError(t, op, call(e), victim)
				if err := w.Barrier(); tolerant {
					ok(t, err)
				} else {
					wantDeathError(t, "Barrier", err, victim)
				}
				if w.Heap() != heap {
					t.Errorf("heap %+v, want it unchanged: %+v", w.Heap(), heap)
				}
				if slices.Max(e.a.Local()) != 0 && strings.Contains(op, "Wait") {
					t.Error("the flag was changed")
				}
				if got := w.Failed(); !slices.Equal(got, []int{victim}) {
					t.Errorf("Failed() = %v, want PE %d", got, victim)
				}
				ok(t, shmem.P(w.Ctx(), e.a, 5, w.MyPE())) // the objects are still usable
			}, append(opts, shmemtest.Recover(victim))...)
		}
		t.Run(op, func(t *testing.T) { test(t, false, strictWorld) })
		if !slices.Contains([]string{"Barrier", "Team.Sync", "Broadcast", "Reduce", "ReduceValue", "BroadcastValue", "FCollect", "Alltoall"}, op) {
			t.Run(op+" in a tolerant world", func(t *testing.T) { test(t, true) })
		}
	}
}

// After a death has been acknowledged, waits wait again. Operations on the dead PE fail; those on
// others work as before and do not allocate.
func TestAckFailed(t *testing.T) {
	const npes, victim = 4, 1
	shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
		x := must(shmem.Calloc[uint64](w, 64))(t)
		c, me := w.Ctx(), w.MyPE()
		if me == victim {
			dieWhenAsleep(w, 0, 2, 3)
		}
		wantDeathError(t, "WaitUntil", shmem.WaitUntil(c, x, shmem.EQ, 7), victim)
		wantDeathError(t, "WaitUntil", shmem.WaitUntil(c, x, shmem.EQ, 7), victim)
		ok(t, shmem.WaitUntil(c, x.At(1), shmem.EQ, 0)) // a condition that holds comes before the failure
		if got := w.AckFailed(); !slices.Equal(got, []int{victim}) {
			t.Errorf("AckFailed() = %v, want only PE %d", got, victim)
		}
		// The survivors pass a token around a ring, so each of them waits.
		next := map[int]int{0: 2, 2: 3, 3: 0}[me]
		const rounds = 200
		for r := uint64(1); r <= rounds; r++ {
			if me == 0 {
				ok(t, c.SignalSet(x, r, next))
			}
			ok(t, shmem.WaitUntil(c, x, shmem.GE, r))
			if me != 0 {
				ok(t, c.SignalSet(x, r, next))
			}
		}
		checkEveryOperation(t, w, x, next)
		checkDeadOperations(t, w, x, victim)
		if got := w.AckFailed(); !slices.Equal(got, []int{victim}) {
			t.Errorf("second AckFailed() = %v, want only PE %d", got, victim)
		}
	}, shmemtest.Recover(victim))
}

// checkEveryOperation makes all operations on a living PE through the slow half.
func checkEveryOperation(t *testing.T, w *shmem.World, x shmem.Sym[uint64], pe int) {
	t.Helper()
	for !shmem.Noticed(w) {
		runtime.Gosched()
	}
	c, me := w.Ctx(), uint64(w.MyPE())
	y := x.At(8 + w.MyPE()) // an element that no other PE uses
	buf, got := []uint64{me, me}, make([]uint64, 2)
	two := x.Slice(16+2*int(me), 18+2*int(me))
	check := func(what string, v, want uint64, err error) {
		t.Helper()
		if err != nil || v != want {
			t.Errorf("%s: got %d, %v, want %d", what, v, err, want)
		}
	}
	ok(t, shmem.P(c, y, 40, pe))
	v, err := shmem.G(c, y, pe)
	check("G", v, 40, err)
	ok(t, shmem.Put(c, two, buf, pe))
	ok(t, shmem.Get(c, got, two, pe))
	check("Get", got[1], me, nil)
	ok(t, shmem.PutNBI(c, two, []uint64{3, 4}, pe))
	p, err := shmem.GetNBI(c, got, two, pe)
	ok(t, err)
	all, err := p.Wait()
	check("GetNBI", all[1], 4, err)
	ok(t, shmem.Put(c, x.Slice(3, 3), nil, pe)) // no elements
	ok(t, shmem.AtomicSet(c, y, 1, pe))
	v, err = shmem.AtomicFetch(c, y, pe)
	check("AtomicFetch", v, 1, err)
	v, err = shmem.AtomicSwap(c, y, 2, pe)
	check("AtomicSwap", v, 1, err)
	v, err = shmem.AtomicCompareSwap(c, y, 2, 3, pe)
	check("AtomicCompareSwap", v, 2, err)
	v, err = shmem.AtomicFetchInc(c, y, pe)
	check("AtomicFetchInc", v, 3, err)
	ok(t, shmem.AtomicInc(c, y, pe))
	v, err = shmem.AtomicFetchAdd(c, y, 2, pe)
	check("AtomicFetchAdd", v, 5, err)
	ok(t, shmem.AtomicAdd(c, y, 1, pe)) // 8
	v, err = shmem.AtomicFetchOr(c, y, 7, pe)
	check("AtomicFetchOr", v, 8, err)
	ok(t, shmem.AtomicAnd(c, y, 14, pe))
	v, err = shmem.AtomicFetchXor(c, y, 1, pe)
	check("AtomicFetchXor", v, 14, err)
	ok(t, shmem.AtomicOr(c, y, 16, pe))
	ok(t, shmem.AtomicXor(c, y, 1, pe))
	v, err = shmem.AtomicFetchAnd(c, y, 1, pe)
	check("AtomicFetchAnd", v, 30, err)
	ok(t, shmem.PutSignal(c, two, []uint64{5, 6}, y, 9, shmem.SignalSet, pe))
	ok(t, c.SignalAdd(y, 1, pe))
	v, err = shmem.G(c, y, pe)
	check("signals", v, 10, err)
	v, err = shmem.G(c, two.At(1), pe)
	check("PutSignal", v, 6, err)
	if s, reachable := y.Peer(pe); reachable != isNear(w, pe) || reachable && s[0] != 10 {
		t.Errorf("Peer(%d) = %v, %v, want 10 in the first element, on this node", pe, s, reachable)
	}
	if len(y.Local()) != 1 {
		t.Error("Local returns nil")
	}
	wantError(t, shmem.P(c, x.At(64), 1, pe), shmem.ErrBounds)
	wantError(t, shmem.P(c, x, 1, w.NPEs()), shmem.ErrPERange)
	if n := testing.AllocsPerRun(100, func() {
		if shmem.P(c, y, 1, pe) != nil || shmem.Put(c, two, buf, pe) != nil || shmem.AtomicAdd(c, y, 1, pe) != nil {
			t.Error("an operation on a living PE was refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// checkDeadOperations checks that all operations on a dead PE return its death.
func checkDeadOperations(t *testing.T, w *shmem.World, x shmem.Sym[uint64], pe int) {
	t.Helper()
	c, buf := w.Ctx(), make([]uint64, 2)
	for op, call := range map[string]func() error{
		"P":                 func() error { return shmem.P(c, x, 1, pe) },
		"G":                 func() error { return errOf(shmem.G(c, x, pe)) },
		"Put":               func() error { return shmem.Put(c, x, buf, pe) },
		"Get":               func() error { return shmem.Get(c, buf, x, pe) },
		"PutNBI":            func() error { return shmem.PutNBI(c, x, buf, pe) },
		"GetNBI":            func() error { return errOf(shmem.GetNBI(c, buf, x, pe)) },
		"PutSignal":         func() error { return shmem.PutSignal(c, x, buf, x, 1, shmem.SignalAdd, pe) },
		"Ctx.SignalAdd":     func() error { return c.SignalAdd(x, 1, pe) },
		"Ctx.SignalSet":     func() error { return c.SignalSet(x, 1, pe) },
		"AtomicFetch":       func() error { return errOf(shmem.AtomicFetch(c, x, pe)) },
		"AtomicSet":         func() error { return shmem.AtomicSet(c, x, 1, pe) },
		"AtomicCompareSwap": func() error { return errOf(shmem.AtomicCompareSwap(c, x, 1, 2, pe)) },
		"AtomicInc":         func() error { return shmem.AtomicInc(c, x, pe) },
		"AtomicFetchAdd":    func() error { return errOf(shmem.AtomicFetchAdd(c, x, 1, pe)) },
		"AtomicXor":         func() error { return shmem.AtomicXor(c, x, 1, pe) },
	} {
		wantDeathError(t, op, call(), pe)
	}
	if _, reachable := x.Peer(pe); reachable {
		t.Error("the memory of a dead PE is reachable")
	}
}

// A PE that never waits learns of a death as well, so its loops of operations end.
func TestDeathEndsLoops(t *testing.T) {
	const npes, victim = 4, 3
	shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
		x := must(shmem.Calloc[uint64](w, 4))(t)
		c := w.Ctx()
		op, call := "P", func() error { return shmem.P(c, x.At(1), 1, victim) }
		switch w.MyPE() {
		case victim:
			ok(t, shmem.WaitUntil(c, x, shmem.EQ, npes-1))
			die()
		case 1:
			op, call = "G", func() error { return errOf(shmem.G(c, x, victim)) }
		case 2:
			op, call = "AtomicFetchAdd", func() error { return errOf(shmem.AtomicFetchAdd(c, x.At(2), 1, victim)) }
		}
		ok(t, shmem.AtomicAdd(c, x, 1, victim))
		var err error
		for err == nil {
			err = call()
		}
		wantDeathError(t, op, err, victim)
		y := must(shmem.G(c, x, 0))(t)
		if y != 0 {
			t.Errorf("the element on PE 0 is %d, want 0", y)
		}
	}, shmemtest.Recover(victim))
}

// Several PEs die one after the other. Each callback runs once per death, including callbacks that
// are registered late, and waits name all deaths that are not acknowledged.
func TestOnFailure(t *testing.T) {
	const npes = 5
	shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
		x := must(shmem.Calloc[uint64](w, 4))(t)
		c, me := w.Ctx(), w.MyPE()
		told := make(chan shmem.Failure, npes)
		cancel := w.OnFailure(func(f shmem.Failure) { told <- f })
		defer cancel()
		ok(t, w.Barrier())
		if me == 1 {
			die()
		}
		if me == 3 {
			wantDeathError(t, "WaitUntil", shmem.WaitUntil(c, x.At(1), shmem.EQ, 1), 1)
			w.AckFailed()
			ok(t, shmem.WaitUntil(c, x, shmem.EQ, 3)) // all other PEs know of the death of PE 1
			die()
		}
		first := <-told
		if !slices.Equal(first.PEs, []int{1}) || first.Epoch != 1 || len(first.Causes) != 1 || first.Causes[0].Signal() != syscall.SIGKILL {
			t.Errorf("callback got %+v, want PE 1 in epoch 1", first)
		}
		ok(t, shmem.AtomicAdd(c, x, 1, 3))
		second := <-told
		if !slices.Equal(second.PEs, []int{3}) || second.Epoch != 2 {
			t.Errorf("callback got %+v, want PE 3 in epoch 2", second)
		}
		wantDeathError(t, "WaitUntil", shmem.WaitUntil(c, x, shmem.EQ, 1), 1, 3)
		late := make(chan shmem.Failure, npes)
		defer w.OnFailure(func(f shmem.Failure) { late <- f })()
		if f := <-late; !slices.Equal(f.PEs, []int{1, 3}) || f.Epoch != 2 {
			t.Errorf("late callback got %+v, want PEs 1 and 3", f)
		}
		err := w.Barrier()
		wantDeathError(t, "Barrier", err, 1, 3)
		if want := "PE 1 was killed by signal 9 (SIGKILL), PE 3 was killed"; !strings.Contains(err.Error(), want) {
			t.Errorf("error %q, want it to contain %q", err, want)
		}
		if got := w.AckFailed(); !slices.Equal(got, []int{1, 3}) {
			t.Errorf("AckFailed() = %v, want 1 and 3", got)
		}
		if len(told)+len(late) > 0 {
			t.Error("a callback ran more than once for one death")
		}
		wantDeathError(t, "Barrier", w.Barrier(), 1, 3) // acknowledged or not
	}, strictWorld, shmemtest.Recover(1, 3))
}

// Survivors finalize, in nested worlds as well, whether they learn of the death in Finalize or
// before. The world has then ended for them.
func TestFinalizeWithDead(t *testing.T) {
	t.Run("strict", func(t *testing.T) { testFinalizeWithDead(t, true, strictWorld) })
	t.Run("tolerant", func(t *testing.T) { testFinalizeWithDead(t, false) })
}

func testFinalizeWithDead(t *testing.T, fails bool, opts ...shmemtest.Option) {
	t.Helper()
	const npes, victim = 4, 0
	shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
		if must(shmem.Init())(t) != w {
			t.Fatal("nested Init returns another World")
		}
		if w.MyPE() == victim {
			dieWhenAsleep(w, 1, 2, 3)
		}
		ok(t, w.Finalize()) // the inner one
		if err := w.Barrier(); fails {
			wantDeathError(t, "Barrier", err, victim)
		} else {
			ok(t, err)
		}
		if must(shmem.Init())(t) != w {
			t.Fatal("nested Init returns another World")
		}
		ok(t, w.Finalize())
		called := false
		w.OnFailure(func(shmem.Failure) { called = true })
		ok(t, w.Finalize())
		wantError(t, w.Barrier(), shmem.ErrFinalized)
		if called && len(w.Failed()) == 0 {
			t.Error("the dead PE is no longer listed as failed")
		}
		// Nothing that needs all PEs can begin again.
		_, err := shmem.Init()
		wantDeathError(t, "Init", err, victim)
	}, append(opts, shmemtest.Recover(victim))...)
}

// When Finalize of a process that noticed a death returns, all registered callbacks have been told
// of it.
func TestFinalizeTells(t *testing.T) {
	const npes, victim = 4, 2
	shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
		var told [3][]int
		for i := range told {
			w.OnFailure(func(f shmem.Failure) { told[i] = f.PEs })
		}
		if w.MyPE() == victim {
			dieWhenAsleep(w, 0, 1, 3)
		}
		wantDeathError(t, "Barrier", w.Barrier(), victim)
		ok(t, w.Finalize())
		for i, pes := range told {
			if !slices.Equal(pes, []int{victim}) {
				t.Errorf("callback %d got %v before Finalize returned, want only PE %d", i, pes, victim)
			}
		}
	}, strictWorld, shmemtest.Recover(victim))
}

// A survivor can end the job.
func TestGlobalExitWithDead(t *testing.T) {
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		if w.MyPE() == 1 {
			die()
		}
		wantDeathError(t, "Barrier", w.Barrier(), 1)
		if w.MyPE() == 0 {
			w.GlobalExit(9)
		}
		wantDeathError(t, "WaitUntil", shmem.WaitUntil(w.Ctx(), shmem.Sym[int]{}, shmem.EQ, 0), 1) // never gets here
	}, strictWorld, shmemtest.Recover(0, 1, 2), shmemtest.Status(9))
}

// If a PE dies before or in Init, the others' Init fails and names it.
func TestInitWithDead(t *testing.T) {
	const npes, victim = 3, 1
	jobs := 12
	if testing.Short() {
		jobs = 3
	}
	if os.Getenv("GOSHMEM_SHMEMTEST_CALL") != "" {
		if os.Getenv("PMIX_RANK") == fmt.Sprint(victim) {
			late, err := time.ParseDuration(os.Getenv("TEST_DIE_AFTER"))
			ok(t, err)
			if late == 0 {
				die()
			}
			time.AfterFunc(late, die) // at any point of Init
			_, _ = shmem.Init()
			die()
		}
		w, err := shmem.Init(shmem.WorldMode(shmem.ModeStrict))
		if err == nil { // the victim died after its Init
			err = w.Barrier()
			wantDeathError(t, "Barrier", err, victim)
			ok(t, w.Finalize())
		} else {
			wantDeathError(t, "Init", err, victim)
		}
		if !t.Failed() {
			fmt.Fprintln(os.Stdout, "survived")
			t.SkipNow()
		}
		return
	}
	for i := range jobs {
		var outputs jobOutputs
		shmemtest.Run(t, npes, nil, shmemtest.Recover(0, 1, 2), shmemtest.Output(&outputs),
			shmemtest.Env("TEST_DIE_AFTER="+(time.Duration(i)*4*time.Millisecond).String()))
		for _, out := range outputs {
			if n := strings.Count(out, "survived\n"); n != npes-1 {
				t.Errorf("victim died after %d ms: %d of %d survivors ended without an error:\n%s", 4*i, n, npes-1, out)
			}
		}
	}
}

// PEs are killed anywhere in a mixture of calls. Every survivor reaches an error that names some
// of them, and finalizes.
func TestDeathsAnywhere(t *testing.T) {
	jobs := 8
	if testing.Short() {
		jobs = 2
	}
	const npes = 6
	victims := []int{1, 4}
	for seed := range uint64(jobs) {
		shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
			x, y := must(shmem.Calloc[uint64](w, 3000))(t), must(shmem.Calloc[uint64](w, 3000))(t)
			c, me := w.Ctx(), w.MyPE()
			if slices.Contains(victims, me) {
				// The victim dies in the middle of whatever it does at that moment.
				time.AfterFunc(time.Duration(rand.Uint64N(20_000))*time.Microsecond, die)
			}
			rng := rand.New(rand.NewPCG(seed, 0)) // the same for all PEs
			var err error
			for r := uint64(1); err == nil; r++ {
				n := 1 + rng.IntN(3000/npes)
				switch rng.IntN(6) {
				case 0:
					err = w.Barrier()
				case 1:
					err = shmem.Broadcast(w.Team(), x.Slice(0, n), y.Slice(0, n), rng.IntN(npes))
				case 2:
					err = shmem.Reduce(w.Team(), x.Slice(0, n), y.Slice(0, n), shmem.Sum)
				case 3:
					err = shmem.FCollect(w.Team(), x.Slice(0, n*npes), y.Slice(0, n))
				case 4:
					var z shmem.Sym[byte]
					if z, err = shmem.Alloc[byte](w, n); err == nil {
						err = shmem.Free(w, z)
					}
				default:
					if err = c.SignalSet(y.At(2999), r, (me+1)%npes); err == nil {
						_, err = c.SignalWaitUntil(y.At(2999), shmem.GE, r)
					}
				}
			}
			e, is := errors.AsType[*shmem.PEError](err)
			if !is || slices.ContainsFunc(e.PEs, func(pe int) bool { return !slices.Contains(victims, pe) }) {
				t.Errorf("error %v, want a PEError with some of %v", err, victims)
			}
			if slices.Contains(victims, me) {
				select {} // until the timer kills it
			}
		}, strictWorld, shmemtest.Recover(victims...))
	}
}
