package shmem_test

import (
	"testing"

	"github.com/goshmem/goshmem/shmem"
)

var _ = routine("shmem_put_signal", func(t *testing.T, w *shmem.World) {
	for _, e := range rmaTypes {
		e.putSignal(t, w, false)
	}
	badPutSignals(t, w, "PutSignal", shmem.PutSignal[uint64])
})

var _ = routine("shmem_put_signal_nbi", func(t *testing.T, w *shmem.World) {
	for _, e := range rmaTypes {
		e.putSignal(t, w, true)
	}
	badPutSignals(t, w, "PutSignalNBI", shmem.PutSignalNBI[uint64])
})

// putSignal sends data to the right neighbor, which checks them as soon as it sees the signal. The
// signal is set in one object and added to in another.
func (rmaOf[T]) putSignal(t *testing.T, w *shmem.World, nbi bool) {
	t.Helper()
	const room = 300
	c, me := w.Ctx(), w.MyPE()
	left, right := neighbors(w)
	x, sig := must(shmem.Calloc[T](w, room))(t), must(shmem.Calloc[uint64](w, 4))(t)
	want, sum := make([]T, room), uint64(0)
	put := shmem.PutSignal[T]
	if nbi {
		put = shmem.PutSignalNBI[T]
	}
	for r, at := range []struct{ off, n int }{{1, 1}, {5, 0}, {2, 2}, {4, 3}, {7, 7}, {17, 64}, {0, room}, {103, 196}} {
		src, dst := values[T](me, r*room, at.n), x.Slice(at.off, room)
		v := uint64(r+1) << 40
		if r%2 == 0 {
			ok(t, put(c, dst, src, sig.At(1), v, shmem.SignalSet, right))
		} else {
			sum += v
			ok(t, put(c, dst, src, sig.At(2), v, shmem.SignalAdd, right))
		}
		if nbi {
			ok(t, c.Quiet())
		}
		clear(src)
		copy(want[at.off:], values[T](left, r*room, at.n))
		if r%2 == 0 {
			must(c.SignalWaitUntil(sig.At(1), shmem.EQ, v))(t)
		} else {
			must(c.SignalWaitUntil(sig.At(2), shmem.EQ, sum))(t)
		}
		checkElements(t, "data after the signal", x.Local(), want)
		ok(t, w.Barrier())
		if s := sig.Local(); s[0] != 0 || s[3] != 0 {
			t.Fatalf("the signals are %v, want the first and the last unchanged", s)
		}
	}
	ok(t, shmem.Free(w, sig))
	ok(t, shmem.Free(w, x))
}

// badPutSignals checks which arguments both forms refuse, and that a refused call changes nothing.
func badPutSignals(t *testing.T, w *shmem.World, name string, put func(*shmem.Ctx, shmem.Sym[uint64], []uint64, shmem.Sym[uint64], uint64, shmem.SignalOp, int) error) {
	t.Helper()
	c, me := w.Ctx(), w.MyPE()
	x, sig := must(shmem.Calloc[uint64](w, 8))(t), must(shmem.Calloc[uint64](w, 1))(t)
	src := []uint64{1, 2, 3}
	wantError(t, put(c, x.Slice(6, 8), src, sig, 1, shmem.SignalSet, me), shmem.ErrBounds, "shmem."+name)
	wantError(t, put(c, x, src, sig.At(1), 1, shmem.SignalSet, me), shmem.ErrBounds, "shmem."+name)
	wantError(t, put(c, x, src, sig.Slice(0, 0), 1, shmem.SignalSet, me), shmem.ErrBounds, "shmem."+name)
	wantError(t, put(c, x, src, sig, 1, shmem.SignalSet, w.NPEs()), shmem.ErrPERange, "shmem."+name)
	wantError(t, put(c, x, src, sig, 1, shmem.SignalAdd+1, me), shmem.ErrArgument, "signal operation 2")
	wantError(t, put(c, x.Slice(1, 1), nil, sig, 1, shmem.SignalAdd+1, me), shmem.ErrArgument, "signal operation 2")
	wantError(t, put(c, x, src, shmem.Sym[uint64]{}, 1, shmem.SignalSet, me), shmem.ErrForeignHandle)
	wantError(t, put(c, shmem.Sym[uint64]{}, nil, sig, 1, shmem.SignalSet, me), shmem.ErrForeignHandle)
	wantError(t, put(nil, x, src, sig, 1, shmem.SignalSet, me), shmem.ErrArgument, "context is nil")
	for i := 2; i < 5; i++ { // within the three elements that are written
		wantError(t, put(c, x.Slice(2, 8), src, x.At(i), 9, shmem.SignalSet, me), shmem.ErrOverlap, "shmem."+name, "among the 3 elements")
	}
	quietAndCheck(t, w, "after refused calls", x, make([]uint64, 8))
	quietAndCheck(t, w, "after refused calls", sig, []uint64{0})
	_, right := neighbors(w)
	for _, i := range []int{1, 5} { // next to them
		ok(t, put(c, x.Slice(2, 8), src, x.At(i), 9, shmem.SignalSet, right))
	}
	ok(t, put(c, x.Slice(7, 8), nil, x.At(7), 9, shmem.SignalSet, right)) // without data nothing overlaps
	ok(t, put(c, x.Slice(7, 7), nil, x.At(0), 9, shmem.SignalSet, right))
	quietAndCheck(t, w, "a signal next to the data", x, []uint64{9, 9, 1, 2, 3, 9, 0, 9})
	ok(t, shmem.Free(w, sig))
	ok(t, shmem.Free(w, x))
}

var _ = routine("shmem_signal_add", func(t *testing.T, w *shmem.World) {
	c, me, n := w.Ctx(), w.MyPE(), w.NPEs()
	sig := must(shmem.Calloc[uint64](w, 3))(t)
	sum := uint64(0)
	for pe := range n {
		sum += 3 * uint64(pe+1) << 33
		for range 3 {
			ok(t, c.SignalAdd(sig.At(1), uint64(me+1)<<33, pe))
		}
	}
	quietAndCheck(t, w, "after signals of all PEs", sig, []uint64{0, sum, 0})
	left, right := neighbors(w)
	ok(t, c.SignalAdd(sig.At(2), ^uint64(0), right)) // wraps around
	ok(t, c.SignalAdd(sig.Slice(2, 3), uint64(me+8), right))
	quietAndCheck(t, w, "after a signal", sig, []uint64{0, sum, uint64(left + 7)})
	wantError(t, c.SignalAdd(sig, 1, n), shmem.ErrPERange, "Ctx.SignalAdd")
	wantError(t, c.SignalAdd(sig.At(3), 1, me), shmem.ErrBounds, "Ctx.SignalAdd")
	ok(t, shmem.Free(w, sig))
})

var _ = routine("shmem_signal_set", func(t *testing.T, w *shmem.World) {
	c, me := w.Ctx(), w.MyPE()
	sig := must(shmem.Calloc[uint64](w, 3))(t)
	left, right := neighbors(w)
	ok(t, c.SignalSet(sig.At(1), uint64(me+1)<<33, right))
	quietAndCheck(t, w, "after a signal", sig, []uint64{0, uint64(left+1) << 33, 0})
	ok(t, c.SignalSet(sig.Slice(1, 3), 5, right))
	ok(t, c.SignalSet(sig.At(2), 6, me))
	quietAndCheck(t, w, "after a second signal", sig, []uint64{0, 5, 6})
	wantError(t, c.SignalSet(sig, 1, -1), shmem.ErrPERange, "Ctx.SignalSet")
	wantError(t, c.SignalSet(sig.At(3), 1, me), shmem.ErrBounds, "Ctx.SignalSet")
	ok(t, shmem.Free(w, sig))
})

var _ = routine("shmem_signal_fetch", func(t *testing.T, w *shmem.World) {
	c, me := w.Ctx(), w.MyPE()
	sig := must(shmem.Calloc[uint64](w, 3))(t)
	left, right := neighbors(w)
	for i := range 3 {
		ok(t, c.SignalSet(sig.At(i), uint64(10*me+i+1)<<33, right))
	}
	ok(t, w.Barrier())
	for i := range 3 {
		for _, x := range []shmem.Sym[uint64]{sig.At(i), sig.Slice(i, 3)} {
			if v, want := must(c.SignalFetch(x))(t), uint64(10*left+i+1)<<33; v != want {
				t.Errorf("signal %d is %x, want %x", i, v, want)
			}
		}
	}
	wantError(t, errOf(c.SignalFetch(sig.At(3))), shmem.ErrBounds, "Ctx.SignalFetch")
	wantError(t, errOf(c.SignalFetch(shmem.Sym[uint64]{})), shmem.ErrForeignHandle)
	ok(t, w.Barrier())
	ok(t, shmem.Free(w, sig))
})

var _ = routine("shmem_signal_wait_until", func(t *testing.T, w *shmem.World) {
	c := w.Ctx()
	_, right := neighbors(w)
	sig := must(shmem.Calloc[uint64](w, 4))(t)
	copy(sig.Local(), []uint64{1, 1 << 63, 3, 4})
	for cmp, v := range map[shmem.Cmp]uint64{ // conditions that hold already
		shmem.EQ: 1 << 63, shmem.NE: 1, shmem.GT: 1<<63 - 1, shmem.GE: 1 << 63, shmem.LT: ^uint64(0), shmem.LE: 1 << 63,
	} {
		if got := must(c.SignalWaitUntil(sig.At(1), cmp, v))(t); got != 1<<63 {
			t.Errorf("a wait for %s %x returned %x, want %x", cmp, v, got, uint64(1<<63))
		}
	}
	sig.Local()[3] = 0
	ok(t, w.Barrier())
	for r := uint64(1); r <= 20; r++ { // around the ring of PEs, again and again
		if w.MyPE() == 0 {
			ok(t, c.SignalAdd(sig.At(3), 1, right))
		}
		if got := must(c.SignalWaitUntil(sig.At(3), shmem.GE, r))(t); got != r {
			t.Fatalf("round %d: the wait returned %d", r, got)
		}
		if w.MyPE() != 0 {
			ok(t, c.SignalAdd(sig.At(3), 1, right))
		}
	}
	wantError(t, errOf(c.SignalWaitUntil(sig.At(1), shmem.Cmp(6), 1)), shmem.ErrArgument, "comparison 6")
	wantError(t, errOf(c.SignalWaitUntil(sig.At(4), shmem.EQ, 1)), shmem.ErrBounds, "Ctx.SignalWaitUntil")
	quietAndCheck(t, w, "signals after the waits", sig, []uint64{1, 1 << 63, 3, 20})
	ok(t, shmem.Free(w, sig))
})
