package shmem_test

import (
	"testing"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// Realloc returns after all PEs have moved the contents: a slower PE's copy does not overwrite a
// put that follows Realloc.
func TestReallocIsABarrier(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		const n = 1 << 20
		c, me := w.Ctx(), w.MyPE()
		for r := range 40 {
			x := must(shmem.Calloc[byte](w, n))(t)
			block := must(shmem.Alloc[byte](w, 64))(t) // lies in the way, so that x moves
			y := must(shmem.Realloc(w, x, 2*n))(t)
			ok(t, shmem.P(c, y.At(n-1), byte(r+1), 1-me))
			ok(t, w.Barrier())
			if got := y.Local()[n-1]; got != byte(r+1) {
				t.Fatalf("round %d: the put after Realloc was overwritten with %d", r, got)
			}
			ok(t, shmem.Free(w, y))
			ok(t, shmem.Free(w, block))
		}
	})
}

// Free of different objects is an error on all PEs and frees nothing.
func TestFreeMismatch(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		x := must(shmem.Calloc[int](w, 8))(t)
		y := must(shmem.Calloc[int](w, 8))(t)
		mine := x
		if w.MyPE() == 1 {
			mine = y
		}
		wantError(t, shmem.Free(w, mine), shmem.ErrMismatch, "PE 0 called Free of the object at offset", "PE 1 called Free")
		ok(t, shmem.P(w.Ctx(), x, 1, 0))
		ok(t, shmem.P(w.Ctx(), y, 1, 0))
	})
}

// If one PE calls an allocation function with bad arguments, the call fails on all PEs, and
// nothing is allocated or freed. No PE waits for that one or meets it in a later collective.
func TestAllocRefusedOnOne(t *testing.T) {
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		x := must(shmem.Calloc[int64](w, 10))(t)
		before := w.Heap()
		bad := w.MyPE() == 1
		pick := func(good, wrong int) int {
			if bad {
				return wrong
			}
			return good
		}
		option := shmem.Align(8)
		if bad {
			option = nil
		}
		for _, c := range []struct {
			name string
			call func() error
		}{
			{"Alloc", func() error { return errOf(shmem.Alloc[int64](w, pick(5, -1))) }},
			{"Calloc", func() error { return errOf(shmem.Calloc[int64](w, 5, option)) }},
			{"Realloc", func() error { return errOf(shmem.Realloc(w, x, pick(20, -1))) }},
			{"Free", func() error { return shmem.Free(w, x.Slice(0, pick(10, 4))) }},
		} {
			err := c.call()
			if bad {
				wantError(t, err, shmem.ErrArgument, "shmem."+c.name)
			} else {
				wantError(t, err, shmem.ErrMismatch, "shmem."+c.name, "PE 1 called "+c.name+" with bad arguments")
			}
			ok(t, w.Barrier())
			if after := w.Heap(); after != before {
				t.Errorf("heap %+v after a refused %s, want %+v", after, c.name, before)
			}
			ok(t, shmem.P(w.Ctx(), x, 1, (w.MyPE()+1)%3))
		}
		ok(t, shmem.Free(w, x))
	})
}

// If one PE allocates while the other calls another collective, the allocating PE gets an error,
// even if an earlier allocation of the same size has left its words behind.
func TestAllocAgainstBarrier(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		for range 2 {
			must(shmem.Alloc[int64](w, 10))(t)
		}
		called := "another collective"
		if spans(w) { // where a barrier compares calls, too
			called = "a barrier"
		}
		switch {
		case w.MyPE() == 0:
			_, err := shmem.Alloc[int64](w, 10)
			wantError(t, err, shmem.ErrMismatch, "PE 0 called Alloc of 80 bytes", "PE 1 called "+called)
		case spans(w):
			wantError(t, w.Barrier(), shmem.ErrMismatch, "PE 1 of the team called another collective", "than PE 0")
		default:
			ok(t, w.Barrier())
		}
		x := must(shmem.Calloc[int64](w, 4))(t)
		y := must(shmem.Calloc[int64](w, 4))(t)
		ok(t, shmem.P(w.Ctx(), y, 5, 1-w.MyPE()))
		ok(t, w.Barrier())
		if x.Local()[0] != 0 || y.Local()[0] != 5 {
			t.Errorf("heaps differ: %v and %v", x.Local(), y.Local())
		}
	})
}

// Finalize ends the wait of a goroutine for a value that never comes.
func TestFinalizeEndsWaits(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		x := must(shmem.Calloc[int](w, 1))(t)
		done := make(chan error)
		go func() { done <- shmem.WaitUntil(w.Ctx(), x, shmem.EQ, 1) }()
		ok(t, w.Finalize())
		wantError(t, <-done, shmem.ErrFinalized, "WaitUntil")
	})
}
