package shmem_test

import (
	"math"
	"testing"

	"github.com/goshmem/goshmem/shmem"
)

// strides fit objects of stridedRoom elements. They are contiguous in the source, in the
// destination, in both or in neither; some have one block, some none.
const stridedRoom = 200

var strides = []shmem.Stride{
	{Dst: 1, Src: 1, N: 50},
	{Dst: 3, Src: 1, N: 50},
	{Dst: 1, Src: 3, N: 50},
	{Dst: 2, Src: 5, N: 30, Block: 1},
	{Dst: 7, Src: 2, N: 28},
	{Dst: 1, Src: 1, N: stridedRoom},
	{Dst: stridedRoom - 1, Src: 100, N: 2},
	{Dst: math.MaxInt, Src: math.MaxInt, N: 1},
	{Dst: math.MaxInt, Src: 1, N: 0},
}

var blockStrides = []shmem.Stride{
	{Dst: 1, Src: 1, Block: 1, N: 50},
	{Dst: 2, Src: 3, Block: 1, N: 50},
	{Dst: 2, Src: 2, Block: 2, N: 50},
	{Dst: 5, Src: 2, Block: 2, N: 30},
	{Dst: 3, Src: 6, Block: 3, N: 30},
	{Dst: 11, Src: 9, Block: 7, N: 17},
	{Dst: 90, Src: 66, Block: 64, N: 2},
	{Dst: stridedRoom, Src: stridedRoom, Block: stridedRoom, N: 1},
	{Dst: math.MaxInt, Src: math.MaxInt, Block: 5, N: 1},
	{Dst: math.MaxInt, Src: 9, Block: 9, N: 0},
}

// scatter does what the strided operations do, one element after the other.
func scatter[T any](dst, src []T, s shmem.Stride) {
	for b := range s.N {
		for k := range max(s.Block, 1) {
			dst[b*s.Dst+k] = src[b*s.Src+k]
		}
	}
}

func stridesFor(blocks bool) []shmem.Stride {
	if blocks {
		return blockStrides
	}
	return strides
}

// wantBadStridesRefused checks that an operation refuses strides that reach beyond ten elements of
// the destination or of the source, and invalid strides.
func wantBadStridesRefused(t *testing.T, op string, blocks bool, call func(s shmem.Stride) error) {
	t.Helper()
	one, far := 0, math.MaxInt
	if blocks {
		one = 1
	}
	for _, s := range []shmem.Stride{
		{1, 1, one, 11},
		{3, 1, one, 5},
		{1, 3, one, 5},
		{far, 1, one, 2},
		{1, far, one, 3},
		{far/2 + 1, 1, one, 3}, // the product is 0 in 64 bits
		{1, 1 << 62, one, 5},
		{2, 2, one, far},
		{far, far, one, far},
	} {
		wantError(t, call(s), shmem.ErrBounds, "shmem."+op, "within its 10")
	}
	for _, s := range []shmem.Stride{
		{0, 1, one, 1},
		{1, 0, one, 1},
		{-1, 1, one, 0},
		{1, math.MinInt, one, 2},
		{1, 1, one, -1},
		{1, 1, one, math.MinInt},
		{4, 4, -1, 1},
	} {
		wantError(t, call(s), shmem.ErrArgument, "shmem."+op, "want")
	}
	if !blocks {
		wantError(t, call(shmem.Stride{4, 4, 2, 1}), shmem.ErrArgument, "blocks of 2 elements", "0 or 1")
		return
	}
	for _, s := range []shmem.Stride{{4, 4, 0, 1}, {2, 3, 3, 1}, {3, 2, 3, 1}} {
		wantError(t, call(s), shmem.ErrArgument, "shmem."+op, "want at least")
	}
	for _, s := range []shmem.Stride{{11, 11, 11, 1}, {4, 4, 3, 3}, {8, 3, 3, 2}, {3, 8, 3, 2}, {far, far, far, 1}} {
		wantError(t, call(s), shmem.ErrBounds, "shmem."+op, "within its 10")
	}
}

// testStridedPut tests what all strided puts have in common.
func testStridedPut(t *testing.T, w *shmem.World, blocks bool) {
	t.Helper()
	for _, e := range rmaTypes {
		e.iput(t, w, blocks)
	}
	op, put := "IPut", shmem.IPut[int64]
	if blocks {
		op, put = "IBPut", shmem.IBPut[int64]
	}
	c, x := w.Ctx(), must(shmem.Calloc[int64](w, 20))(t)
	wantBadStridesRefused(t, op, blocks, func(s shmem.Stride) error { return put(c, x.Slice(3, 13), values[int64](9, 0, 10), s, w.MyPE()) })
	good := shmem.Stride{Dst: 1, Src: 1, Block: 1, N: 1}
	wantError(t, put(c, x, make([]int64, 1), good, w.NPEs()), shmem.ErrPERange, op)
	wantError(t, put(c, x.Slice(3, 3), make([]int64, 1), good, 0), shmem.ErrBounds, op)
	wantError(t, put(c, x.At(20), make([]int64, 1), good, 0), shmem.ErrBounds, op, "index 20")
	ok(t, put(c, x.Slice(3, 3), nil, shmem.Stride{Dst: 1, Src: 1, Block: 1}, 0))
	quietAndCheck(t, w, "after refused puts", x, make([]int64, 20))
	ok(t, shmem.Free(w, x))
}

// testStridedGet tests what all strided gets have in common.
func testStridedGet(t *testing.T, w *shmem.World, blocks bool) {
	t.Helper()
	for _, e := range rmaTypes {
		e.iget(t, w, blocks)
	}
	op, get := "IGet", shmem.IGet[int64]
	if blocks {
		op, get = "IBGet", shmem.IBGet[int64]
	}
	c, x := w.Ctx(), must(shmem.Calloc[int64](w, 20))(t)
	dst := values[int64](9, 0, 12)
	wantBadStridesRefused(t, op, blocks, func(s shmem.Stride) error { return get(c, dst[1:11], x.Slice(3, 13), s, w.MyPE()) })
	good := shmem.Stride{Dst: 1, Src: 1, Block: 1, N: 1}
	wantError(t, get(c, dst, x, good, -1), shmem.ErrPERange, op)
	wantError(t, get(c, dst, x.Slice(3, 3), good, 0), shmem.ErrBounds, op)
	ok(t, get(c, nil, x.Slice(3, 3), shmem.Stride{Dst: 1, Src: 1, Block: 1}, 0))
	checkElements(t, "after refused gets", dst, values[int64](9, 0, 12))
	ok(t, shmem.Free(w, x))
}

var _ = routine("shmem_iput", func(t *testing.T, w *shmem.World) { testStridedPut(t, w, false) })

var _ = routine("shmem_ibput", func(t *testing.T, w *shmem.World) { testStridedPut(t, w, true) })

var _ = routine("shmem_iget", func(t *testing.T, w *shmem.World) { testStridedGet(t, w, false) })

var _ = routine("shmem_ibget", func(t *testing.T, w *shmem.World) { testStridedGet(t, w, true) })

// iput tests strided puts to the right neighbor, from one odd offset to another.
func (rmaOf[T]) iput(t *testing.T, w *shmem.World, blocks bool) {
	t.Helper()
	const at = 3
	c, me := w.Ctx(), w.MyPE()
	left, right := neighbors(w)
	x := must(shmem.Calloc[T](w, at+stridedRoom+2))(t)
	want := make([]T, x.Len())
	put := shmem.IPut[T]
	if blocks {
		put = shmem.IBPut[T]
	}
	for r, s := range stridesFor(blocks) {
		src := values[T](me, r*stridedRoom, stridedRoom)
		ok(t, put(c, x.Slice(at, at+stridedRoom), src, s, right))
		clear(src)
		scatter(want[at:], values[T](left, r*stridedRoom, stridedRoom), s)
		quietAndCheck(t, w, "after a strided put", x, want)
	}
	ok(t, shmem.Free(w, x))
}

// iget tests strided gets from the right neighbor and from this PE, into the middle of a slice.
func (rmaOf[T]) iget(t *testing.T, w *shmem.World, blocks bool) {
	t.Helper()
	const at = 3
	c, me := w.Ctx(), w.MyPE()
	_, right := neighbors(w)
	x := must(shmem.Calloc[T](w, at+stridedRoom+2))(t)
	mine := values[T](me, 0, x.Len())
	copy(x.Local(), mine)
	ok(t, w.Barrier())
	get := shmem.IGet[T]
	if blocks {
		get = shmem.IBGet[T]
	}
	for _, pe := range []int{right, me} {
		for _, s := range stridesFor(blocks) {
			got, want := values[T](me, 1000, stridedRoom+2), values[T](me, 1000, stridedRoom+2)
			ok(t, get(c, got[1:1+stridedRoom], x.Slice(at, at+stridedRoom), s, pe))
			scatter(want[1:], values[T](pe, at, stridedRoom), s)
			checkElements(t, "the slice that was read into", got, want)
		}
	}
	quietAndCheck(t, w, "the source after strided gets", x, mine)
	ok(t, shmem.Free(w, x))
}
