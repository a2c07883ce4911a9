package shmem_test

import (
	"errors"
	"runtime"
	"testing"
	"unsafe"

	"github.com/goshmem/goshmem/shmem"
)

// guarded is an object of which a test uses the elements from the second on. The first element and
// those after the used ones must stay unchanged.
type guarded[T comparable] struct {
	whole shmem.Sym[T]
	guard T
}

func newGuarded[T comparable](t *testing.T, w *shmem.World, room int, guard T) guarded[T] {
	t.Helper()
	return guarded[T]{whole: must(shmem.Alloc[T](w, room+2))(t), guard: guard}
}

// withGuards returns n elements together with the guards around them.
func (g guarded[T]) withGuards(n int) []T {
	const behind = 64
	x := g.whole.Local()
	return x[:min(1+n+behind, len(x))]
}

// reset sets n elements and the guards around them to the guard value, and returns the n elements.
func (g guarded[T]) reset(n int) shmem.Sym[T] {
	x := g.withGuards(n)
	for i := range x {
		x[i] = g.guard
	}
	return g.whole.Slice(1, 1+n)
}

// fill is reset that then sets the n elements to values.
func (g guarded[T]) fill(n int, value func(i int) T) shmem.Sym[T] {
	x := g.reset(n)
	for i := range n {
		g.whole.Local()[1+i] = value(i)
	}
	return x
}

// check checks the first n elements, and that the elements around them still hold the guard value.
func (g guarded[T]) check(t *testing.T, n int, want func(i int) T) {
	t.Helper()
	for i, v := range g.withGuards(n) {
		expected := g.guard
		if i >= 1 && i <= n {
			expected = want(i - 1)
		}
		if v != expected {
			t.Fatalf("%T: of %d elements, number %d is %v, want %v", v, n, i-1, v, expected)
		}
	}
}

func (g guarded[T]) free(t *testing.T, w *shmem.World) {
	t.Helper()
	ok(t, shmem.Free(w, g.whole))
}

// borderSizes are numbers of elements around the capacities of cells and slots, and a few small
// ones.
func borderSizes[T any]() []int {
	size := int(unsafe.Sizeof(*new(T)))
	if testing.Short() {
		return []int{0, 3, 256/size + 1, 1024/size + 1, 8192/size + 1}
	}
	counts := []int{0, 1, 2, 5}
	for _, bytes := range []int{256, 1024, 8192} {
		counts = append(counts, bytes/size, bytes/size+1)
	}
	return append(counts, 9_000/size)
}

func maxElements[T any]() int { return 9_000 / int(unsafe.Sizeof(*new(T))) }

// These are element types of all sizes, also with gaps. makeX makes element i of PE pe.
type pair struct {
	A uint16
	B complex128
}

func makeByte(pe, i int) uint8    { return uint8(1 + pe*31 + i*7) }
func makeInt16(pe, i int) int16   { return int16(1 + pe*3100 - i*7) }
func makeFloat(pe, i int) float32 { return 0.5 + float32(pe*100_000+i) }
func makeInt(pe, i int) int64     { return 1 + int64(pe)<<40 + int64(i) }
func makeComplex(pe, i int) complex128 {
	return complex(float64(1+pe), float64(i))
}
func makePair(pe, i int) pair { return pair{uint16(1 + pe), complex(float64(i), float64(-pe))} }

// delayInTurn delays one PE after the other, so that a call that does not wait for it is caught.
func delayInTurn(w *shmem.World, round int) {
	if round%w.NPEs() == w.MyPE() {
		for range 300 {
			runtime.Gosched()
		}
	}
}

// checkSyncs checks that sync waits for all PEs. Each PE first counts itself on all others, and
// after sync finds that all have counted themselves.
func checkSyncs(t *testing.T, w *shmem.World, sync func() error) {
	t.Helper()
	n := w.NPEs()
	counts := must(shmem.Calloc[uint64](w, n))(t)
	for round := 1; round <= 200; round++ {
		delayInTurn(w, round)
		for pe := range n {
			ok(t, shmem.AtomicSet(w.Ctx(), counts.At(w.MyPE()), uint64(round), pe))
		}
		ok(t, sync())
		for pe := range n {
			if v := must(shmem.AtomicFetch(w.Ctx(), counts.At(pe), w.MyPE()))(t); v < uint64(round) || v > uint64(round)+1 {
				t.Fatalf("round %d: PE %d is at round %d after sync", round, pe, v)
			}
		}
	}
	ok(t, shmem.Free(w, counts))
}

var _ = routine("shmem_barrier_all", func(t *testing.T, w *shmem.World) {
	checkSyncs(t, w, w.Barrier)
	// Operations that began before the barrier are complete after it.
	x := newGuarded(t, w, 3000, -1)
	for round, n := range []int{1, 2, 3000} {
		x.reset(n)
		ok(t, w.Barrier())
		src := make([]int, n)
		for i := range src {
			src[i] = round + w.MyPE() + i
		}
		delayInTurn(w, round)
		ok(t, shmem.PutNBI(w.Ctx(), x.whole.Slice(1, 1+n), src, (w.MyPE()+1)%w.NPEs()))
		ok(t, w.Barrier())
		left := (w.MyPE() + w.NPEs() - 1) % w.NPEs()
		x.check(t, n, func(i int) int { return round + left + i })
	}
	x.free(t, w)
})

var _ = routine("shmem_sync_all", func(t *testing.T, w *shmem.World) {
	checkSyncs(t, w, func() error { return errors.Join(w.Ctx().Quiet(), w.Sync()) }) // Sync completes no operations
})

var _ = routine("shmem_broadcast", func(t *testing.T, w *shmem.World) {
	broadcastOf(t, w, makeByte)
	broadcastOf(t, w, makeInt16)
	broadcastOf(t, w, makeFloat)
	broadcastOf(t, w, makeInt)
	broadcastOf(t, w, makePair)
})

func broadcastOf[T comparable](t *testing.T, w *shmem.World, value func(pe, i int) T) {
	t.Helper()
	var guard T
	src, dst := newGuarded(t, w, maxElements[T](), guard), newGuarded(t, w, maxElements[T](), guard)
	for _, n := range borderSizes[T]() {
		for root := range w.NPEs() {
			mine := func(i int) T { return value(w.MyPE(), i) }
			from, to := src.fill(n, mine), dst.reset(n)
			delayInTurn(w, root)
			ok(t, shmem.Broadcast(w.Team(), to, from, root))
			dst.check(t, n, func(i int) T { return value(root, i) })
			src.check(t, n, mine)
		}
	}
	src.free(t, w)
	dst.free(t, w)
}

var _ = routine("shmem_fcollect", func(t *testing.T, w *shmem.World) {
	fcollectOf(t, w, makeByte)
	fcollectOf(t, w, makeInt16)
	fcollectOf(t, w, makeFloat)
	fcollectOf(t, w, makeComplex)
	fcollectOf(t, w, makePair)
})

func fcollectOf[T comparable](t *testing.T, w *shmem.World, value func(pe, i int) T) {
	t.Helper()
	var guard T
	src, dst := newGuarded(t, w, maxElements[T](), guard), newGuarded(t, w, maxElements[T]()*w.NPEs(), guard)
	for round, n := range borderSizes[T]() {
		mine := func(i int) T { return value(w.MyPE(), i) }
		from, to := src.fill(n, mine), dst.reset(n*w.NPEs())
		delayInTurn(w, round)
		ok(t, shmem.FCollect(w.Team(), to, from))
		dst.check(t, n*w.NPEs(), func(i int) T { return value(i/n, i%n) })
		src.check(t, n, mine)
	}
	src.free(t, w)
	dst.free(t, w)
}

var _ = routine("shmem_collect", func(t *testing.T, w *shmem.World) {
	collectOf(t, w, makeByte)
	collectOf(t, w, makeInt16)
	collectOf(t, w, makeFloat)
	collectOf(t, w, makeComplex)
	collectOf(t, w, makePair)
})

func collectOf[T comparable](t *testing.T, w *shmem.World, value func(pe, i int) T) {
	t.Helper()
	var guard T
	most := maxElements[T]()
	src, dst := newGuarded(t, w, most, guard), newGuarded(t, w, most*w.NPEs(), guard)
	for round, n := range borderSizes[T]() {
		for _, counts := range []func(pe int) int{
			func(int) int { return n },
			func(pe int) int { return n * ((pe + round) % 3) / 2 },                // some contribute nothing
			func(pe int) int { return min(n, 1+(pe*n/3+round)%(n+1)) },            // small and large parts
			func(pe int) int { return max(0, n-(pe+round)%2) },                    // around a size limit
			func(pe int) int { return n * max(0, 1-(pe+round+1)%w.NPEs()*1_000) }, // one PE alone contributes
		} {
			var from []int // the PE that contributes element i
			var number []int
			for pe := range w.NPEs() {
				for i := range min(counts(pe), most) {
					from, number = append(from, pe), append(number, i)
				}
			}
			mine := func(i int) T { return value(w.MyPE(), i) }
			x := src.fill(min(counts(w.MyPE()), most), mine)
			room := min(len(from)+round%2, most*w.NPEs()) // exactly the room that is needed, or one element more
			to := dst.reset(room)
			delayInTurn(w, round)
			ok(t, shmem.Collect(w.Team(), to, x))
			dst.check(t, len(from), func(i int) T { return value(from[i], number[i]) })
			src.check(t, x.Len(), mine)
		}
	}
	src.free(t, w)
	dst.free(t, w)
}

var _ = routine("shmem_alltoall", func(t *testing.T, w *shmem.World) {
	alltoallOf(t, w, makeByte)
	alltoallOf(t, w, makeInt16)
	alltoallOf(t, w, makeFloat)
	alltoallOf(t, w, makeInt)
	alltoallOf(t, w, makePair)
})

func alltoallOf[T comparable](t *testing.T, w *shmem.World, value func(pe, i int) T) {
	t.Helper()
	var guard T
	npes, me := w.NPEs(), w.MyPE()
	room := maxElements[T]() + npes
	src, dst := newGuarded(t, w, room, guard), newGuarded(t, w, room, guard)
	for round, all := range borderSizes[T]() {
		n := (all + npes - 1) / npes
		mine := func(i int) T { return value(me, i) }
		from, to := src.fill(n*npes, mine), dst.reset(n*npes)
		delayInTurn(w, round)
		ok(t, shmem.Alltoall(w.Team(), to, from))
		dst.check(t, n*npes, func(i int) T { return value(i/n, me*n+i%n) })
		src.check(t, n*npes, mine)
	}
	src.free(t, w)
	dst.free(t, w)
}

var _ = routine("shmem_alltoalls", func(t *testing.T, w *shmem.World) {
	alltoallsOf(t, w, makeByte)
	alltoallsOf(t, w, makeInt16)
	alltoallsOf(t, w, makeFloat)
	alltoallsOf(t, w, makeInt)
	alltoallsOf(t, w, makePair)
})

func alltoallsOf[T comparable](t *testing.T, w *shmem.World, value func(pe, i int) T) {
	t.Helper()
	var guard T
	npes, me := w.NPEs(), w.MyPE()
	room := (maxElements[T]() + npes) * 3
	src, dst := newGuarded(t, w, room, guard), newGuarded(t, w, room, guard)
	for round, all := range borderSizes[T]() {
		n := (all + npes - 1) / npes
		for _, s := range []shmem.Stride{{Dst: 1, Src: 1}, {Dst: 2, Src: 1}, {Dst: 1, Src: 3}, {Dst: 3, Src: 2, Block: 1}} {
			s.N = n
			length := func(stride int) int { return max(0, (n*npes-1)*stride+1) }
			mine := func(i int) T { return value(me, i) }
			from, to := src.fill(length(s.Src), mine), dst.reset(length(s.Dst))
			delayInTurn(w, round)
			ok(t, shmem.AlltoallS(w.Team(), to, from, s))
			dst.check(t, to.Len(), func(i int) T {
				if i%s.Dst != 0 {
					return guard
				}
				k := i / s.Dst
				return value(k/n, (me*n+k%n)*s.Src)
			})
			src.check(t, from.Len(), mine)
		}
	}
	src.free(t, w)
	dst.free(t, w)
}
