package shmem_test

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/goshmem/goshmem/shmem"
)

// hedged is an object of which a test uses the first elements but one: the one
// before them and those behind them must stay as they are.
type hedged[T comparable] struct {
	whole shmem.Sym[T]
	guard T
}

func newHedged[T comparable](t *testing.T, w *shmem.World, room int, guard T) hedged[T] {
	t.Helper()
	return hedged[T]{whole: must(shmem.Alloc[T](w, room+2))(t), guard: guard}
}

// about returns n elements with those around them that are looked at.
func (g hedged[T]) about(n int) []T {
	const behind = 64
	x := g.whole.Local()
	return x[:min(1+n+behind, len(x))]
}

// of returns n elements that hold, like those around them, the guard.
func (g hedged[T]) of(n int) shmem.Sym[T] {
	x := g.about(n)
	for i := range x {
		x[i] = g.guard
	}
	return g.whole.Slice(1, 1+n)
}

// filled is of, with values in the n elements.
func (g hedged[T]) filled(n int, value func(i int) T) shmem.Sym[T] {
	x := g.of(n)
	for i := range n {
		g.whole.Local()[1+i] = value(i)
	}
	return x
}

// holds checks the first n elements, and that those around them are the guard.
func (g hedged[T]) holds(t *testing.T, n int, want func(i int) T) {
	t.Helper()
	for i, v := range g.about(n) {
		expected := g.guard
		if i >= 1 && i <= n {
			expected = want(i - 1)
		}
		if v != expected {
			t.Fatalf("%T: of %d elements, number %d is %v, want %v", v, n, i-1, v, expected)
		}
	}
}

func (g hedged[T]) free(t *testing.T, w *shmem.World) {
	t.Helper()
	ok(t, shmem.Free(w, g.whole))
}

// borders are numbers of elements around those of cells and slots, and few.
func borders[T any]() []int {
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

func mostOf[T any]() int { return 9_000 / int(unsafe.Sizeof(*new(T))) }

// A few types of elements, of all sizes and with gaps, and how PE pe makes number i.
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

// late makes one PE after the other later than the others, so that who does not wait
// for it is found out.
func late(w *shmem.World, round int) {
	if round%w.NPEs() == w.MyPE() {
		for range 300 {
			runtime.Gosched()
		}
	}
}

// meets checks that sync waits for all PEs: each one counts itself on all others
// before, and finds all counted behind it.
func meets(t *testing.T, w *shmem.World, sync func() error) {
	t.Helper()
	n := w.NPEs()
	counts := must(shmem.Calloc[uint64](w, n))(t)
	for round := 1; round <= 200; round++ {
		late(w, round)
		for pe := range n {
			ok(t, shmem.AtomicSet(w.Ctx(), counts.At(w.MyPE()), uint64(round), pe))
		}
		ok(t, sync())
		for pe := range n {
			if v := must(shmem.AtomicFetch(w.Ctx(), counts.At(pe), w.MyPE()))(t); v < uint64(round) || v > uint64(round)+1 {
				t.Fatalf("round %d: PE %d was at %d", round, pe, v)
			}
		}
	}
	ok(t, shmem.Free(w, counts))
}

var _ = routine("shmem_barrier_all", func(t *testing.T, w *shmem.World) {
	meets(t, w, w.Barrier)
	// What was begun before is complete behind it.
	x := newHedged(t, w, 3000, -1)
	for round, n := range []int{1, 2, 3000} {
		x.of(n)
		ok(t, w.Barrier())
		src := make([]int, n)
		for i := range src {
			src[i] = round + w.MyPE() + i
		}
		late(w, round)
		ok(t, shmem.PutNBI(w.Ctx(), x.whole.Slice(1, 1+n), src, (w.MyPE()+1)%w.NPEs()))
		ok(t, w.Barrier())
		left := (w.MyPE() + w.NPEs() - 1) % w.NPEs()
		x.holds(t, n, func(i int) int { return round + left + i })
	}
	x.free(t, w)
})

var _ = routine("shmem_sync_all", func(t *testing.T, w *shmem.World) {
	meets(t, w, w.Sync)
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
	src, dst := newHedged(t, w, mostOf[T](), guard), newHedged(t, w, mostOf[T](), guard)
	for _, n := range borders[T]() {
		for root := range w.NPEs() {
			mine := func(i int) T { return value(w.MyPE(), i) }
			from, to := src.filled(n, mine), dst.of(n)
			late(w, root)
			ok(t, shmem.Broadcast(w.Team(), to, from, root))
			dst.holds(t, n, func(i int) T { return value(root, i) })
			src.holds(t, n, mine)
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
	src, dst := newHedged(t, w, mostOf[T](), guard), newHedged(t, w, mostOf[T]()*w.NPEs(), guard)
	for round, n := range borders[T]() {
		mine := func(i int) T { return value(w.MyPE(), i) }
		from, to := src.filled(n, mine), dst.of(n*w.NPEs())
		late(w, round)
		ok(t, shmem.FCollect(w.Team(), to, from))
		dst.holds(t, n*w.NPEs(), func(i int) T { return value(i/n, i%n) })
		src.holds(t, n, mine)
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
	most := mostOf[T]()
	src, dst := newHedged(t, w, most, guard), newHedged(t, w, most*w.NPEs(), guard)
	for round, n := range borders[T]() {
		for _, counts := range []func(pe int) int{
			func(int) int { return n },
			func(pe int) int { return n * ((pe + round) % 3) / 2 },                // none from some
			func(pe int) int { return min(n, 1+(pe*n/3+round)%(n+1)) },            // small and large
			func(pe int) int { return max(0, n-(pe+round)%2) },                    // about a border
			func(pe int) int { return n * max(0, 1-(pe+round+1)%w.NPEs()*1_000) }, // from one alone
		} {
			var from []int // who gives element i
			var number []int
			for pe := range w.NPEs() {
				for i := range min(counts(pe), most) {
					from, number = append(from, pe), append(number, i)
				}
			}
			mine := func(i int) T { return value(w.MyPE(), i) }
			x := src.filled(min(counts(w.MyPE()), most), mine)
			room := min(len(from)+round%2, most*w.NPEs()) // all that is needed, or one more
			to := dst.of(room)
			late(w, round)
			ok(t, shmem.Collect(w.Team(), to, x))
			dst.holds(t, len(from), func(i int) T { return value(from[i], number[i]) })
			src.holds(t, x.Len(), mine)
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
	room := mostOf[T]() + npes
	src, dst := newHedged(t, w, room, guard), newHedged(t, w, room, guard)
	for round, all := range borders[T]() {
		n := (all + npes - 1) / npes
		mine := func(i int) T { return value(me, i) }
		from, to := src.filled(n*npes, mine), dst.of(n*npes)
		late(w, round)
		ok(t, shmem.Alltoall(w.Team(), to, from))
		dst.holds(t, n*npes, func(i int) T { return value(i/n, me*n+i%n) })
		src.holds(t, n*npes, mine)
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
	room := (mostOf[T]() + npes) * 3
	src, dst := newHedged(t, w, room, guard), newHedged(t, w, room, guard)
	for round, all := range borders[T]() {
		n := (all + npes - 1) / npes
		for _, s := range []shmem.Stride{{Dst: 1, Src: 1}, {Dst: 2, Src: 1}, {Dst: 1, Src: 3}, {Dst: 3, Src: 2, Block: 1}} {
			s.N = n
			length := func(stride int) int { return max(0, (n*npes-1)*stride+1) }
			mine := func(i int) T { return value(me, i) }
			from, to := src.filled(length(s.Src), mine), dst.of(length(s.Dst))
			late(w, round)
			ok(t, shmem.AlltoallS(w.Team(), to, from, s))
			dst.holds(t, to.Len(), func(i int) T {
				if i%s.Dst != 0 {
					return guard
				}
				k := i / s.Dst
				return value(k/n, (me*n+k%n)*s.Src)
			})
			src.holds(t, from.Len(), mine)
		}
	}
	src.free(t, w)
	dst.free(t, w)
}
