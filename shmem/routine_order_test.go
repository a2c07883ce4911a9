package shmem_test

import (
	"testing"

	"github.com/goshmem/goshmem/shmem"
)

// The effect of a fence is visible only where a processor reorders stores. amd64 does not: there a
// fence is no instruction, and testMessagePassing would pass without it, but would fail on arm64.
// So this test also checks what else the routine promises. testStoreBuffering shows the effect of
// quiet on both, where two PEs run at the same time.

var _ = routine("shmem_fence", func(t *testing.T, w *shmem.World) {
	ok(t, (*shmem.Ctx)(nil).Fence())
	wantError(t, (&shmem.Ctx{}).Fence(), shmem.ErrArgument, "Ctx.Fence", "context is nil")
	testMessagePassing(t, w, (*shmem.Ctx).Fence)
})

var _ = routine("shmem_quiet", func(t *testing.T, w *shmem.World) {
	ok(t, (*shmem.Ctx)(nil).Quiet())
	wantError(t, (&shmem.Ctx{}).Quiet(), shmem.ErrArgument, "Ctx.Quiet", "context is nil")
	testMessagePassing(t, w, (*shmem.Ctx).Quiet)
	testStoreBuffering(t, w, func(c *shmem.Ctx, _ int) error { return c.Quiet() })
	testAfterQuiet(t, w, func(c *shmem.Ctx, _ int) error { return c.Quiet() })
})

var _ = routine("shmem_pe_quiet", func(t *testing.T, w *shmem.World) {
	c, me, n := w.Ctx(), w.MyPE(), w.NPEs()
	ok(t, (*shmem.Ctx)(nil).QuietPE(0))
	ok(t, (*shmem.Ctx)(nil).QuietPE())
	wantError(t, (&shmem.Ctx{}).QuietPE(0), shmem.ErrArgument, "Ctx.QuietPE", "context is nil")
	wantError(t, c.QuietPE(me, n), shmem.ErrPERange, "Ctx.QuietPE")
	wantError(t, c.QuietPE(-1), shmem.ErrPERange, "Ctx.QuietPE")
	ok(t, c.QuietPE())
	testMessagePassing(t, w, func(c *shmem.Ctx) error { return c.QuietPE(me, (me+1)%n) })
	testStoreBuffering(t, w, func(c *shmem.Ctx, pe int) error { return c.QuietPE(pe) })
	testAfterQuiet(t, w, func(c *shmem.Ctx, pe int) error { return c.QuietPE(pe, pe, me) })
})

// testMessagePassing: each PE puts data, calls order, then puts a flag. A PE that sees the flag
// sees the data.
func testMessagePassing(t *testing.T, w *shmem.World, order func(c *shmem.Ctx) error) {
	t.Helper()
	const rounds, room = 100, 9
	c, me := w.Ctx(), w.MyPE()
	left, right := neighbors(w)
	data := must(shmem.Calloc[uint64](w, rounds*room))(t)
	flag := must(shmem.Calloc[int32](w, rounds))(t)
	for r := range rounds {
		ok(t, shmem.Put(c, data.Slice(r*room, (r+1)*room), values[uint64](me, r, room), right))
		ok(t, order(c))
		ok(t, shmem.P(c, flag.At(r), 1, right))
		ok(t, shmem.WaitUntil(c, flag.At(r), shmem.EQ, 1))
		checkElements(t, "data after the flag was seen", data.Local()[r*room:(r+1)*room], values[uint64](left, r, room))
	}
	ok(t, w.Barrier())
	ok(t, shmem.Free(w, flag))
	ok(t, shmem.Free(w, data))
}

// testStoreBuffering: PEs in pairs put to each other, call quiet, and read their own words. At
// least one of the two sees the other's put.
func testStoreBuffering(t *testing.T, w *shmem.World, quiet func(c *shmem.Ctx, pe int) error) {
	t.Helper()
	const cells, line = 512, 8
	batches := uint64(300)
	if w.Shared().NPEs() < w.NPEs() {
		batches = 3 // each quiet of a pair on two nodes takes a round trip
	}
	c, me := w.Ctx(), w.MyPE()
	other := me ^ 1
	if other == w.NPEs() {
		other = me
	}
	x := must(shmem.Calloc[uint64](w, cells*line))(t)
	saw := must(shmem.Calloc[uint64](w, cells))(t)
	theirs := make([]uint64, cells)
	for b := uint64(1); b <= batches; b++ {
		ok(t, w.Barrier())
		for i := range cells {
			cell := x.At(i * line)
			_ = shmem.P(c, cell, b, other)
			_ = quiet(c, other)
			saw.Local()[i], _ = shmem.G(c, cell, me)
		}
		ok(t, w.Barrier())
		ok(t, shmem.Get(c, theirs, saw, other))
		for i, v := range saw.Local() {
			if v < b && theirs[i] < b {
				t.Fatalf("batch %d, cell %d: of PEs %d and %d neither saw the other's put after quiet", b, i, me, other)
			}
		}
	}
	ok(t, w.Barrier())
	ok(t, shmem.Free(w, saw))
	ok(t, shmem.Free(w, x))
}

// testAfterQuiet: after quiet the sources of nonblocking operations may be reused and the results
// are there, with and without Wait.
func testAfterQuiet(t *testing.T, w *shmem.World, quiet func(c *shmem.Ctx, pe int) error) {
	t.Helper()
	const room = 40
	c, me := w.Ctx(), w.MyPE()
	left, right := neighbors(w)
	x := must(shmem.Calloc[int64](w, 2*room))(t)
	copy(x.Local()[room:], values[int64](me, 0, room))
	ok(t, w.Barrier())
	src, dst := values[int64](me, 500, room), make([]int64, room)
	ok(t, shmem.PutNBI(c, x.Slice(0, room), src, right))
	p := must(shmem.GetNBI(c, dst, x.Slice(room, 2*room), right))(t)
	q := must(shmem.AtomicFetchNBI(c, x.At(room+3), right))(t)
	ok(t, quiet(c, right))
	clear(src)
	checkElements(t, "after quiet", dst, values[int64](right, 0, room))
	checkElements(t, "result of Wait after quiet", must(p.Wait())(t), dst)
	if v := must(q.Wait())(t); v != elem[int64](right, 3) {
		t.Errorf("fetched value is %d after quiet, want %d", v, elem[int64](right, 3))
	}
	quietAndCheck(t, w, "after quiet", x, append(values[int64](left, 500, room), values[int64](me, 0, room)...))
	ok(t, shmem.Free(w, x))
}
