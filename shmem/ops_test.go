package shmem_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// Puts and gets of all sizes and element types move exactly the right bytes.
func TestPutGet(t *testing.T) {
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		testPutGet(t, w, func(i int) byte { return byte(i*7 + 1) })
		testPutGet(t, w, func(i int) int16 { return int16(i*7 + 1) })
		testPutGet(t, w, func(i int) float32 { return float32(i) + 0.5 })
		testPutGet(t, w, func(i int) complex128 { return complex(float64(i), -1) })
		testPutGet(t, w, func(i int) struct {
			A int32
			B [3]uint16
		} {
			return struct {
				A int32
				B [3]uint16
			}{int32(i), [3]uint16{1, uint16(i), 3}}
		})
	})
}

func testPutGet[T comparable](t *testing.T, w *shmem.World, value func(int) T) {
	t.Helper()
	const room = 5000
	c, me, n := w.Ctx(), w.MyPE(), w.NPEs()
	right := (me + 1) % n
	x := must(shmem.Calloc[T](w, room))(t)
	var zero T
	for _, size := range []int{0, 1, 2, 3, 17, 255, 4096, 4999} {
		for _, nbi := range []bool{false, true} {
			src := make([]T, size)
			for i := range src {
				src[i] = value(me*room + i)
			}
			put := shmem.Put[T]
			if nbi {
				put = shmem.PutNBI[T]
			}
			ok(t, put(c, x.Slice(1, room), src, right)) // an odd offset
			ok(t, w.Barrier())
			left := (me + n - 1) % n
			for i, v := range x.Local() {
				want := zero
				if i >= 1 && i <= size {
					want = value(left*room + i - 1)
				}
				if v != want {
					t.Fatalf("%T: after a put of %d, element %d is %v, want %v", zero, size, i, v, want)
				}
			}
			dst := make([]T, size)
			if nbi {
				got, err := must(shmem.GetNBI(c, dst, x.Slice(1, room), right))(t).Wait()
				ok(t, err)
				dst = got
			} else {
				ok(t, shmem.Get(c, dst, x.Slice(1, room), right))
			}
			for i, v := range dst {
				if v != src[i] {
					t.Fatalf("%T: after a get of %d, %v is element %d, want %v", zero, size, v, i, src[i])
				}
			}
			ok(t, w.Barrier())
			clear(x.Local())
			ok(t, w.Barrier())
		}
	}
	ok(t, shmem.P(c, x.At(7), value(7), right))
	ok(t, w.Barrier())
	if v, err := shmem.G(c, x.At(7), right); err != nil || v != value(7) || x.Local()[7] != value(7) {
		t.Errorf("%T: P then G returned %v, %v, want %v", zero, v, err, value(7))
	}
	ok(t, shmem.Free(w, x))
}

// Atomic operations of all PEs on one word lose nothing, whatever the type.
func TestAtomicsCount(t *testing.T) {
	shmemtest.Run(t, 4, func(t *testing.T, w *shmem.World) {
		testAtomicsCount[int32](t, w)
		testAtomicsCount[uint32](t, w)
		testAtomicsCount[int64](t, w)
		testAtomicsCount[uint64](t, w)
		testAtomicsCount[uint](t, w)
		testAdds[int](t, w)
		testAdds[uintptr](t, w)
	})
}

func testAdds[T shmem.AMO](t *testing.T, w *shmem.World) {
	t.Helper()
	const rounds = 2000
	c := w.Ctx()
	x := must(shmem.Calloc[T](w, 2))(t)
	for range rounds {
		ok(t, shmem.AtomicAdd(c, x, 2, 0))
		_, err := shmem.AtomicFetchAdd(c, x, 3, 0)
		ok(t, err)
		ok(t, shmem.AtomicInc(c, x, 0))
		_, err = shmem.AtomicFetchInc(c, x, 0)
		ok(t, err)
		for { // counts by compare-and-swap
			old, err := shmem.AtomicFetch(c, x.At(1), 0)
			ok(t, err)
			got, err := shmem.AtomicCompareSwap(c, x.At(1), old, old+1, 0)
			ok(t, err)
			if got == old {
				break
			}
		}
	}
	ok(t, w.Barrier())
	n := T(w.NPEs() * rounds)
	if v, _ := shmem.AtomicFetch(c, x, 0); v != 7*n {
		t.Errorf("%T: the sum of all adds is %d, want %d", v, v, 7*n)
	}
	if v, _ := shmem.G(c, x.At(1), 0); v != n {
		t.Errorf("%T: the counter by compare-and-swap is %d, want %d", v, v, n)
	}
	ok(t, shmem.Free(w, x))
}

func testAtomicsCount[T interface {
	shmem.AMO
	shmem.AMOBits
}](t *testing.T, w *shmem.World) {
	t.Helper()
	testAdds[T](t, w)
	c, me, n := w.Ctx(), w.MyPE(), w.NPEs()
	x := must(shmem.Calloc[T](w, 4))(t)
	bit := T(1) << me
	ok(t, shmem.AtomicOr(c, x, bit, 0))
	for range 101 { // an odd number
		ok(t, shmem.AtomicXor(c, x.At(1), bit, 0))
		_, err := shmem.AtomicFetchXor(c, x.At(2), bit, 0)
		ok(t, err)
	}
	ok(t, shmem.AtomicSet(c, x.At(3), ^T(0), me))
	ok(t, w.Barrier())
	all := T(1)<<n - 1
	for i := range 3 {
		if v, _ := shmem.G(c, x.At(i), 0); v != all {
			t.Errorf("%T: word %d is %x, want %x", v, i, v, all)
		}
	}
	ok(t, w.Barrier())
	ok(t, shmem.AtomicAnd(c, x, ^bit, 0))
	old, err := shmem.AtomicFetchAnd(c, x.At(1), ^bit, 0)
	ok(t, err)
	if old&bit == 0 {
		t.Errorf("%T: fetch-and returned %x without bit %x", old, old, bit)
	}
	old, err = shmem.AtomicFetchOr(c, x.At(3), 1, me)
	ok(t, err)
	if old != ^T(0) {
		t.Errorf("%T: fetch-or returned %x", old, old)
	}
	ok(t, w.Barrier())
	for i := range 2 {
		if v, _ := shmem.G(c, x.At(i), 0); v != 0 {
			t.Errorf("%T: word %d is %x after and, want 0", v, i, v)
		}
	}
	ok(t, w.Barrier())
	ok(t, shmem.Free(w, x))
}

// Swap hands every value on exactly once, and floats keep their bits.
func TestAtomicSwap(t *testing.T) {
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		c, me, n := w.Ctx(), w.MyPE(), w.NPEs()
		x := must(shmem.Calloc[int64](w, 1))(t)
		sum := must(shmem.Calloc[int64](w, 1))(t)
		const rounds = 3000
		for r := range rounds {
			got, err := shmem.AtomicSwap(c, x, int64(me*rounds+r+1), 0)
			ok(t, err)
			sum.Local()[0] += got
		}
		ok(t, shmem.Reduce(w.Team(), sum, sum, shmem.Sum))
		last, err := shmem.AtomicFetch(c, x, 0)
		ok(t, err)
		total := int64(n*rounds) * int64(n*rounds+1) / 2
		if got := sum.Local()[0] + last; got != total {
			t.Errorf("the sum of the values handed on is %d, want %d", got, total)
		}
		f := must(shmem.Calloc[float64](w, 1))(t)
		g := must(shmem.Calloc[float32](w, 1))(t)
		ok(t, shmem.AtomicSet(c, f, math.Inf(-1), me))
		ok(t, shmem.AtomicSet(c, g, float32(1.5), me))
		if v, err := shmem.AtomicSwap(c, f, 2, me); err != nil || !math.IsInf(v, -1) {
			t.Errorf("swap of a float64 returned %v, %v, want -Inf", v, err)
		}
		if v, err := shmem.AtomicFetch(c, g, me); err != nil || v != 1.5 {
			t.Errorf("fetch of a float32 returned %v, %v, want 1.5", v, err)
		}
	})
}

// Waits work on every type and at odd offsets, while neighboring elements change.
func TestWaitTypes(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		testWaits[int16](t, w, -5)
		testWaits[uint16](t, w, 65530)
		testWaits[int32](t, w, -5)
		testWaits[uint32](t, w, 1<<31)
		testWaits[int64](t, w, math.MinInt64)
		testWaits[uint64](t, w, 1<<63)
		testWaits[int](t, w, -1)
		testWaits[uint](t, w, 5)
		testWaits[uintptr](t, w, 5)
	})
}

func testWaits[T shmem.Waiter](t *testing.T, w *shmem.World, v T) {
	t.Helper()
	c, me := w.Ctx(), w.MyPE()
	x := must(shmem.Calloc[T](w, 4))(t)
	for i := range 4 {
		before, err := shmem.Test(c, x.At(i), shmem.NE, 0)
		if ok(t, err); before {
			t.Errorf("%T: element %d is already set before the put", v, i)
		}
		ok(t, w.Barrier())
		if me == 0 {
			for k := range 4 { // the other elements change as well
				if k != i {
					ok(t, shmem.P(c, x.At(k), 77, 1))
				}
			}
			ok(t, shmem.P(c, x.At(i), v, 1))
		} else {
			ok(t, shmem.WaitUntil(c, x.At(i), shmem.EQ, v))
			for cmp, want := range map[shmem.Cmp]bool{
				shmem.EQ: true, shmem.NE: false, shmem.GT: false, shmem.GE: true, shmem.LT: false, shmem.LE: true,
			} {
				if got, err := shmem.Test(c, x.At(i), cmp, v); err != nil || got != want {
					t.Errorf("%T: %d %v %d is %v, %v", v, v, cmp, v, got, err)
				}
			}
			clear(x.Local())
		}
		ok(t, w.Barrier())
	}
	ok(t, shmem.Free(w, x))
}

// Signals can be set, added to, fetched and waited for.
func TestSignals(t *testing.T) {
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		c, me, n := w.Ctx(), w.MyPE(), w.NPEs()
		sig := must(shmem.Calloc[uint64](w, 2))(t)
		data := must(shmem.Calloc[int](w, n))(t)
		for pe := range n {
			ok(t, shmem.PutSignal(c, data.At(me), []int{me + 1}, sig, 1, shmem.SignalAdd, pe))
			ok(t, c.SignalAdd(sig.At(1), 10, pe))
		}
		if v := must(c.SignalWaitUntil(sig, shmem.EQ, uint64(n)))(t); v != uint64(n) {
			t.Errorf("signal satisfied the wait with %d, want %d", v, n)
		}
		for pe, v := range data.Local() {
			if v != pe+1 {
				t.Errorf("the data of PE %d are %d after all signals, want %d", pe, v, pe+1)
			}
		}
		ok(t, shmem.WaitUntil(c, sig.At(1), shmem.EQ, uint64(10*n)))
		ok(t, w.Barrier())
		ok(t, c.SignalSet(sig, 5, (me+1)%n))
		ok(t, shmem.PutSignal(c, data, nil, sig.At(1), 6, shmem.SignalSet, (me+1)%n)) // a signal without data
		ok(t, w.Barrier())
		if a, b := must(c.SignalFetch(sig))(t), must(c.SignalFetch(sig.At(1)))(t); a != 5 || b != 6 {
			t.Errorf("signals are %d and %d, want 5 and 6", a, b)
		}
	})
}

// The output that SHMEM_VERSION and SHMEM_INFO ask for is printed once.
func TestAnnouncements(t *testing.T) {
	var outputs jobOutputs
	shmemtest.Run(t, 2, func(*testing.T, *shmem.World) {}, shmemtest.Output(&outputs),
		shmemtest.Env("SHMEM_VERSION=", "SHMEM_INFO=1", "SHMEM_SYMMETRIC_SIZE=3M"))
	if os.Getenv("PMIX_RANK") != "" {
		return
	}
	for _, out := range outputs {
		for _, want := range []string{", OpenSHMEM 1.6", "SHMEM_SYMMETRIC_SIZE=3M (environment)"} {
			if n := strings.Count(out, want); n != 1 {
				t.Errorf("%q is %d times in the output, want once:\n%s", want, n, out)
			}
		}
	}
}

// Allocations are aligned as asked and at the same offset on all PEs. Realloc keeps the contents,
// and Calloc clears memory that was used before.
func TestMemory(t *testing.T) {
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		c, me, n := w.Ctx(), w.MyPE(), w.NPEs()
		right := (me + 1) % n
		a := must(shmem.Alloc[byte](w, 100, shmem.Align(1<<16)))(t)
		ok(t, shmem.Put(c, a, bytes.Repeat([]byte{0xee}, 100), right))
		ok(t, w.Barrier())
		b := must(shmem.Realloc(w, a, 300_000))(t)
		for i, v := range b.Local()[:100] {
			if v != 0xee {
				t.Fatalf("byte %d is %x after Realloc, want ee", i, v)
			}
		}
		b = must(shmem.Realloc(w, b, 10))(t)
		ok(t, shmem.Free(w, b))
		z := must(shmem.Calloc[byte](w, 300_000))(t)
		for i, v := range z.Local() {
			if v != 0 {
				t.Fatalf("byte %d of Calloc is %x, want 0", i, v)
			}
		}
		if theirs, reachable := z.Peer(right); reachable != isNear(w, right) || reachable && len(theirs) != 300_000 {
			t.Errorf("the neighbor's copy has %d bytes, reachable %v, want 300000 and %v", len(theirs), reachable, isNear(w, right))
		}
		none := must(shmem.Alloc[int](w, 0))(t)
		ok(t, shmem.Put(c, none, nil, right))
		wantError(t, shmem.P(c, none, 1, right), shmem.ErrBounds)
		ok(t, shmem.Free(w, none))
		grown := must(shmem.Realloc(w, none, 4))(t)
		gone := must(shmem.Realloc(w, grown, 0))(t)
		if gone.Len() != 0 {
			t.Error("Realloc to 0 left elements")
		}
		_, err := shmem.Alloc[int](w, -1)
		wantError(t, err, shmem.ErrArgument, "-1 elements")
		_, err = shmem.Alloc[int](w, 1<<62)
		wantError(t, err, shmem.ErrArgument)
		_, err = shmem.Alloc[int](w, 1, shmem.Align(3))
		wantError(t, err, shmem.ErrArgument, "power of two")
		if h := w.Heap(); h.Free != h.Size-300_032 {
			t.Errorf("heap %+v, want 300032 bytes in use", h)
		}
	})
}

// A program that oshrun did not start is a job of one PE, and may initialize and finalize more
// than once.
func TestAlone(t *testing.T) {
	if os.Getenv("PMIX_RANK") != "" {
		t.Skip("a PE of another test")
	}
	for range 2 {
		w, err := shmem.Init()
		ok(t, err)
		if w.NPEs() != 1 || w.MyPE() != 0 {
			t.Errorf("PE %d of %d, want 0 of 1", w.MyPE(), w.NPEs())
		}
		x := must(shmem.Calloc[int](w, 10))(t)
		ok(t, shmem.P(w.Ctx(), x.At(3), 5, 0))
		ok(t, shmem.Reduce(w.Team(), x, x, shmem.Sum))
		ok(t, w.Barrier())
		if fmt.Sprint(x.Local()) != "[0 0 0 5 0 0 0 0 0 0]" {
			t.Errorf("got %v", x.Local())
		}
		ok(t, w.Finalize())
	}
}
