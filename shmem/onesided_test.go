package shmem_test

import (
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// oneSided lists all operations on one PE, by the names that errors give them. Each works on
// elements of x, which has at least eight.
var oneSided = map[string]func(c *shmem.Ctx, x shmem.Sym[uint64], buf []uint64, pe int) error{
	"P":   func(c *shmem.Ctx, x shmem.Sym[uint64], _ []uint64, pe int) error { return shmem.P(c, x, 1, pe) },
	"G":   func(c *shmem.Ctx, x shmem.Sym[uint64], _ []uint64, pe int) error { return errOf(shmem.G(c, x, pe)) },
	"Put": func(c *shmem.Ctx, x shmem.Sym[uint64], buf []uint64, pe int) error { return shmem.Put(c, x, buf, pe) },
	"Get": func(c *shmem.Ctx, x shmem.Sym[uint64], buf []uint64, pe int) error { return shmem.Get(c, buf, x, pe) },
	"PutNBI": func(c *shmem.Ctx, x shmem.Sym[uint64], buf []uint64, pe int) error {
		return shmem.PutNBI(c, x, buf, pe)
	},
	"GetNBI": func(c *shmem.Ctx, x shmem.Sym[uint64], buf []uint64, pe int) error {
		return errOf(waitResult(shmem.GetNBI(c, buf, x, pe)))
	},
	"IPut": func(c *shmem.Ctx, x shmem.Sym[uint64], buf []uint64, pe int) error {
		return shmem.IPut(c, x, buf, shmem.Stride{Dst: 3, Src: 1, N: 2}, pe)
	},
	"IGet": func(c *shmem.Ctx, x shmem.Sym[uint64], buf []uint64, pe int) error {
		return shmem.IGet(c, buf, x, shmem.Stride{Dst: 1, Src: 3, N: 2}, pe)
	},
	"IBPut": func(c *shmem.Ctx, x shmem.Sym[uint64], buf []uint64, pe int) error {
		return shmem.IBPut(c, x, buf, shmem.Stride{Dst: 3, Src: 2, Block: 2, N: 1}, pe)
	},
	"IBGet": func(c *shmem.Ctx, x shmem.Sym[uint64], buf []uint64, pe int) error {
		return shmem.IBGet(c, buf, x, shmem.Stride{Dst: 2, Src: 3, Block: 2, N: 1}, pe)
	},
	"PutSignal": func(c *shmem.Ctx, x shmem.Sym[uint64], buf []uint64, pe int) error {
		return shmem.PutSignal(c, x, buf[:1], x.Slice(min(1, x.Len()), x.Len()), 1, shmem.SignalSet, pe)
	},
	"PutSignalNBI": func(c *shmem.Ctx, x shmem.Sym[uint64], buf []uint64, pe int) error {
		return shmem.PutSignalNBI(c, x, buf[:1], x.Slice(min(1, x.Len()), x.Len()), 1, shmem.SignalAdd, pe)
	},
	"Ctx.SignalAdd": func(c *shmem.Ctx, x shmem.Sym[uint64], _ []uint64, pe int) error { return c.SignalAdd(x, 1, pe) },
	"Ctx.SignalSet": func(c *shmem.Ctx, x shmem.Sym[uint64], _ []uint64, pe int) error { return c.SignalSet(x, 1, pe) },
	"AtomicFetch": func(c *shmem.Ctx, x shmem.Sym[uint64], _ []uint64, pe int) error {
		return errOf(shmem.AtomicFetch(c, x, pe))
	},
	"AtomicSet": func(c *shmem.Ctx, x shmem.Sym[uint64], _ []uint64, pe int) error { return shmem.AtomicSet(c, x, 1, pe) },
	"AtomicSwap": func(c *shmem.Ctx, x shmem.Sym[uint64], _ []uint64, pe int) error {
		return errOf(shmem.AtomicSwap(c, x, 1, pe))
	},
	"AtomicCompareSwap": func(c *shmem.Ctx, x shmem.Sym[uint64], _ []uint64, pe int) error {
		return errOf(shmem.AtomicCompareSwap(c, x, 1, 2, pe))
	},
	"AtomicFetchInc": func(c *shmem.Ctx, x shmem.Sym[uint64], _ []uint64, pe int) error {
		return errOf(shmem.AtomicFetchInc(c, x, pe))
	},
	"AtomicInc": func(c *shmem.Ctx, x shmem.Sym[uint64], _ []uint64, pe int) error { return shmem.AtomicInc(c, x, pe) },
	"AtomicFetchAdd": func(c *shmem.Ctx, x shmem.Sym[uint64], _ []uint64, pe int) error {
		return errOf(shmem.AtomicFetchAdd(c, x, 1, pe))
	},
	"AtomicAdd": func(c *shmem.Ctx, x shmem.Sym[uint64], _ []uint64, pe int) error { return shmem.AtomicAdd(c, x, 1, pe) },
	"AtomicFetchAnd": func(c *shmem.Ctx, x shmem.Sym[uint64], _ []uint64, pe int) error {
		return errOf(shmem.AtomicFetchAnd(c, x, 1, pe))
	},
	"AtomicAnd": func(c *shmem.Ctx, x shmem.Sym[uint64], _ []uint64, pe int) error { return shmem.AtomicAnd(c, x, 1, pe) },
	"AtomicFetchOr": func(c *shmem.Ctx, x shmem.Sym[uint64], _ []uint64, pe int) error {
		return errOf(shmem.AtomicFetchOr(c, x, 1, pe))
	},
	"AtomicOr": func(c *shmem.Ctx, x shmem.Sym[uint64], _ []uint64, pe int) error { return shmem.AtomicOr(c, x, 1, pe) },
	"AtomicFetchXor": func(c *shmem.Ctx, x shmem.Sym[uint64], _ []uint64, pe int) error {
		return errOf(shmem.AtomicFetchXor(c, x, 1, pe))
	},
	"AtomicXor": func(c *shmem.Ctx, x shmem.Sym[uint64], _ []uint64, pe int) error { return shmem.AtomicXor(c, x, 1, pe) },
	"AtomicFetchNBI": func(c *shmem.Ctx, x shmem.Sym[uint64], _ []uint64, pe int) error {
		return errOf(waitResult(shmem.AtomicFetchNBI(c, x, pe)))
	},
	"AtomicSwapNBI": func(c *shmem.Ctx, x shmem.Sym[uint64], _ []uint64, pe int) error {
		return errOf(waitResult(shmem.AtomicSwapNBI(c, x, 1, pe)))
	},
	"AtomicCompareSwapNBI": func(c *shmem.Ctx, x shmem.Sym[uint64], _ []uint64, pe int) error {
		return errOf(waitResult(shmem.AtomicCompareSwapNBI(c, x, 1, 2, pe)))
	},
	"AtomicFetchIncNBI": func(c *shmem.Ctx, x shmem.Sym[uint64], _ []uint64, pe int) error {
		return errOf(waitResult(shmem.AtomicFetchIncNBI(c, x, pe)))
	},
	"AtomicFetchAddNBI": func(c *shmem.Ctx, x shmem.Sym[uint64], _ []uint64, pe int) error {
		return errOf(waitResult(shmem.AtomicFetchAddNBI(c, x, 1, pe)))
	},
	"AtomicFetchAndNBI": func(c *shmem.Ctx, x shmem.Sym[uint64], _ []uint64, pe int) error {
		return errOf(waitResult(shmem.AtomicFetchAndNBI(c, x, 1, pe)))
	},
	"AtomicFetchOrNBI": func(c *shmem.Ctx, x shmem.Sym[uint64], _ []uint64, pe int) error {
		return errOf(waitResult(shmem.AtomicFetchOrNBI(c, x, 1, pe)))
	},
	"AtomicFetchXorNBI": func(c *shmem.Ctx, x shmem.Sym[uint64], _ []uint64, pe int) error {
		return errOf(waitResult(shmem.AtomicFetchXorNBI(c, x, 1, pe)))
	},
}

// isPending reports whether an operation returns a Pending.
func isPending(op string) bool {
	return op == "GetNBI" || strings.HasPrefix(op, "Atomic") && strings.HasSuffix(op, "NBI")
}

// Every operation refuses bad arguments and says why.
func TestOneSidedRefusals(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		c, buf := w.Ctx(), make([]uint64, 2)
		x, gone := must(shmem.Calloc[uint64](w, 8))(t), must(shmem.Calloc[uint64](w, 8))(t)
		ok(t, shmem.Free(w, gone))
		for op, call := range oneSided {
			mustNotPanic(t, op, func() {
				ok(t, call(c, x, buf, 1-w.MyPE()))
				for _, pe := range []int{-1, 2, 1 << 40} {
					wantError(t, call(c, x, buf, pe), shmem.ErrPERange, "shmem."+op+":", "want 0 to 1")
				}
				for _, none := range []*shmem.Ctx{nil, {}, (&shmem.Ctx{}).With(t.Context())} {
					wantUsageError(t, op, call(none, x, buf, 0))
					wantUsageError(t, op, call(none, shmem.Sym[uint64]{}, buf, 0))
				}
				wantError(t, call(c, shmem.Sym[uint64]{}, buf, 0), shmem.ErrForeignHandle, "shmem."+op+":", "zero value")
				wantError(t, call(c, gone, buf, 0), shmem.ErrFreed, "shmem."+op+":")
				wantError(t, call(c, x.At(8), buf, 0), shmem.ErrBounds, "shmem."+op+":", "index 8")
				wantError(t, call(c, x.Slice(3, 3), buf, 0), shmem.ErrBounds, "shmem."+op+":")
				if isPending(op) && !isNear(w, 0) {
					return // what its Pending points to is allocated
				}
				if n := testing.AllocsPerRun(10, func() { _ = call(c, x, buf, 0) }); n != 0 {
					t.Errorf("%s: %v allocations, want none", op, n)
				}
			})
		}
		ok(t, w.Finalize())
		for op, call := range oneSided {
			wantError(t, call(c, x, buf, 0), shmem.ErrFinalized, "shmem."+op+":")
		}
		wantError(t, c.QuietPE(0), shmem.ErrFinalized, "Ctx.QuietPE")
	})
}

// Every operation on a PE that dies ends, and from then on is refused at once. What was fetched
// before the death stays.
func TestOneSidedDead(t *testing.T) {
	const npes, victim = 4, 2
	shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
		x := must(shmem.Calloc[uint64](w, 64))(t)
		c, me, buf := w.Ctx(), w.MyPE(), make([]uint64, 2)
		x.Local()[9] = uint64(me + 1)
		ok(t, w.Barrier())
		if me == victim {
			ok(t, shmem.WaitUntil(c, x.At(10), shmem.EQ, npes-1))
			die()
		}
		early := must(shmem.AtomicFetchNBI(c, x.At(9), victim))(t)
		got := make([]uint64, 1)
		all := must(shmem.GetNBI(c, got, x.At(9), victim))(t)
		ok(t, shmem.AtomicInc(c, x.At(10), victim))
		for op, call := range oneSided { // the first of them notices the death
			var err error
			for err == nil {
				err = call(c, x, buf, victim)
			}
			wantDeathError(t, op, err, victim)
			wantDeathError(t, op, call(c, x, buf, victim), victim)
		}
		for _, pes := range [][]int{{victim}, {me, victim, victim, me}} {
			wantDeathError(t, "Ctx.QuietPE", c.QuietPE(pes...), victim)
		}
		if v := must(early.Wait())(t); v != victim+1 {
			t.Errorf("fetched %d before the death, want %d", v, victim+1)
		}
		checkElements(t, "values got before the death", must(all.Wait())(t), []uint64{victim + 1})
		ok(t, c.QuietPE(me, (victim+1)%npes))
		wantError(t, c.QuietPE(victim, npes), shmem.ErrPERange)
		checkAfterDeath(t, w, x.Slice(16, 64), me)
	}, shmemtest.Recover(victim))
}

// checkAfterDeath makes all operations on this PE itself when another PE has died. They work as
// before, and do not allocate.
func checkAfterDeath(t *testing.T, w *shmem.World, x shmem.Sym[uint64], me int) {
	t.Helper()
	for !shmem.Noticed(w) {
		runtime.Gosched()
	}
	c, buf := w.Ctx(), make([]uint64, 12)
	for op, call := range oneSided {
		if n := testing.AllocsPerRun(10, func() { ok(t, call(c, x, buf[:2], me)) }); n != 0 {
			t.Errorf("%s after a death: %v allocations, want none", op, n)
		}
		wantError(t, call(c, x, buf[:2], w.NPEs()), shmem.ErrPERange, "shmem."+op+":")
		wantError(t, call(c, x.At(x.Len()), buf[:2], me), shmem.ErrBounds, "shmem."+op+":")
	}
	clear(x.Local())
	want := make([]uint64, x.Len())
	src := values[uint64](me, 0, 40)
	for _, s := range []shmem.Stride{{3, 2, 1, 4}, {1, 1, 0, 12}} {
		ok(t, shmem.IPut(c, x, src, s, me))
		scatter(want, src, s)
		clear(buf)
		back := shmem.Stride{Dst: 1, Src: s.Dst, N: s.N}
		ok(t, shmem.IGet(c, buf, x, back, me))
		scatter(src[:12], want, back)
		checkElements(t, "a strided get after a death", buf[:s.N], src[:s.N])
	}
	s := shmem.Stride{Dst: 9, Src: 7, Block: 5, N: 3}
	ok(t, shmem.IBPut(c, x, src, s, me))
	scatter(want, src, s)
	checkElements(t, "strided puts after a death", x.Local(), want)
	back := shmem.Stride{Dst: 5, Src: 9, Block: 5, N: 2}
	ok(t, shmem.IBGet(c, buf, x, back, me))
	scatter(src, want, back)
	checkElements(t, "a block-strided get after a death", buf[:10], src[:10])
	wantError(t, shmem.IBPut(c, x, src, shmem.Stride{Dst: 1, Src: 1, Block: 2, N: 1}, me), shmem.ErrArgument)
	wantError(t, shmem.IBGet(c, buf, x, shmem.Stride{Dst: 9, Src: 9, Block: 9, N: 2}, me), shmem.ErrBounds)
	ok(t, shmem.IPut(c, x.Slice(3, 3), nil, shmem.Stride{Dst: 1, Src: 1}, me))

	fetched := func(name string, p shmem.Pending[uint64], err error, old, now uint64) {
		t.Helper()
		if v, err := waitResult(p, err); err != nil || v != old || x.Local()[40] != now {
			t.Errorf("%s after a death: got %d, %v and left %d, want %d and %d", name, v, err, x.Local()[40], old, now)
		}
	}
	y := x.At(40)
	ok(t, shmem.PutSignalNBI(c, x, []uint64{77}, y, 3, shmem.SignalAdd, me))
	ok(t, shmem.PutSignalNBI(c, x.Slice(5, 5), nil, y, 4, shmem.SignalAdd, me))
	if x.Local()[0] != 77 {
		t.Error("a put with a signal after a death had no effect")
	}
	p, err := shmem.AtomicFetchNBI(c, y, me)
	fetched("fetch", p, err, 7, 7)
	p, err = shmem.AtomicSwapNBI(c, y, 8, me)
	fetched("swap", p, err, 7, 8)
	p, err = shmem.AtomicCompareSwapNBI(c, y, 8, 9, me)
	fetched("compare and swap", p, err, 8, 9)
	p, err = shmem.AtomicFetchIncNBI(c, y, me)
	fetched("fetch and inc", p, err, 9, 10)
	p, err = shmem.AtomicFetchAddNBI(c, y, 5, me)
	fetched("fetch and add", p, err, 10, 15)
	p, err = shmem.AtomicFetchAndNBI(c, y, 6, me)
	fetched("fetch and and", p, err, 15, 6)
	p, err = shmem.AtomicFetchOrNBI(c, y, 8, me)
	fetched("fetch and or", p, err, 6, 14)
	p, err = shmem.AtomicFetchXorNBI(c, y, 4, me)
	fetched("fetch and xor", p, err, 14, 10)
}

// A Pending is a value. Any goroutine may wait for it, any number of times and in any order, or
// never.
func TestPending(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		const many = 50
		c, me := w.Ctx(), w.MyPE()
		x := must(shmem.Calloc[int64](w, 2))(t)
		var all []shmem.Pending[int64]
		for range many {
			all = append(all, must(shmem.AtomicFetchAddNBI(c, x.At(me), 1, 1-me))(t))
		}
		_ = must(shmem.AtomicFetchAddNBI(c, x.At(me), 1, 1-me))(t) // its result is never used
		var waiting sync.WaitGroup
		for range 4 {
			waiting.Go(func() {
				for i := many - 1; i >= 0; i-- {
					if v, err := all[i].Wait(); err != nil || v != int64(i) {
						t.Errorf("operation %d returned %d, %v", i, v, err)
					}
				}
			})
		}
		waiting.Wait()
		ok(t, w.Barrier())
		if v := x.Local()[1-me]; v != many+1 {
			t.Errorf("the sum is %d, want %d", v, many+1)
		}
		failed, err := shmem.AtomicFetchAddNBI(c, x, 1, 2)
		wantError(t, err, shmem.ErrPERange)
		for _, p := range []shmem.Pending[int64]{failed, {}} {
			for range 2 {
				wantUsageError(t, "Pending.Wait", errOf(p.Wait()))
			}
		}
		ok(t, w.Finalize())
		wantError(t, errOf(all[0].Wait()), shmem.ErrFinalized)
	})
}

// Goroutines of one PE put and add side by side on one context. One Quiet after all of them
// completes everything.
func TestOneSidedGoroutines(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		const workers, each = 8, 200
		c, me := w.Ctx(), w.MyPE()
		x := must(shmem.Calloc[[3]int32](w, workers*each))(t)
		sum := must(shmem.Calloc[uint64](w, 1))(t)
		var all sync.WaitGroup
		for g := range workers {
			all.Go(func() {
				for i := range each {
					at := g + i*workers
					if err := shmem.IPut(c, x.Slice(at, at+1), []([3]int32){elem[[3]int32](me, at)}, shmem.Stride{Dst: 1, Src: 1, N: 1}, 1-me); err != nil {
						t.Error(err)
					}
					if _, err := waitResult(shmem.AtomicFetchAddNBI(c, sum, 1, 1-me)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		ok(t, c.Quiet())
		quietAndCheck(t, w, "puts of all goroutines", x, values[[3]int32](1-me, 0, workers*each))
		quietAndCheck(t, w, "sum of all goroutines", sum, []uint64{workers * each})
	})
}
