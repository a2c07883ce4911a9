package shmem_test

import (
	"fmt"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// peCounts are the job sizes that collectives are tested with.
var peCounts = testenv.JobSizes()

// sizes are element counts around the limits of slots (1024 and 8192 bytes of int64) and of parts
// that do not divide evenly.
var sizes = []int{0, 1, 2, 7, 1023, 1024, 1025, 5000}

func TestCollectives(t *testing.T) {
	for _, n := range peCounts {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			shmemtest.Run(t, n, func(t *testing.T, w *shmem.World) {
				for _, size := range sizes {
					testBroadcasts(t, w, size)
					testReductions(t, w, size)
					testExchanges(t, w, size)
				}
			})
		})
	}
}

// contribution is element i of what PE pe contributes.
func contribution(pe, i int) int64 { return int64(pe+1)*1_000_003 + int64(i)*7 }

func fill(x []int64, pe int) {
	for i := range x {
		x[i] = contribution(pe, i)
	}
}

func testBroadcasts(t *testing.T, w *shmem.World, size int) {
	src := must(shmem.Calloc[int64](w, size))(t)
	dst := must(shmem.Calloc[int64](w, size))(t)
	for root := range w.NPEs() {
		fill(src.Local(), w.MyPE())
		ok(t, shmem.Broadcast(w.Team(), dst, src, root))
		fill(src.Local(), 99) // the source may be overwritten once the call returns
		for i, v := range dst.Local() {
			if v != contribution(root, i) {
				t.Fatalf("broadcast of %d from PE %d: element %d is %d, want %d", size, root, i, v, contribution(root, i))
			}
		}
		fill(src.Local(), w.MyPE())
	}
	ok(t, shmem.Free(w, src))
	ok(t, shmem.Free(w, dst))
}

func testReductions(t *testing.T, w *shmem.World, size int) {
	src := must(shmem.Calloc[int64](w, size))(t)
	dst := must(shmem.Calloc[int64](w, size))(t)
	type testOp struct {
		name string
		op   shmem.Op[int64]
		fold func(a, b int64) int64
	}
	for _, x := range []testOp{
		{"sum", shmem.Sum[int64], func(a, b int64) int64 { return a + b }},
		{"prod", shmem.Prod[int64], func(a, b int64) int64 { return a * b }},
		{"min", shmem.Min[int64], func(a, b int64) int64 { return min(a, b) }},
		{"max", shmem.Max[int64], func(a, b int64) int64 { return max(a, b) }},
		{"and", shmem.And[int64], func(a, b int64) int64 { return a & b }},
		{"or", shmem.Or[int64], func(a, b int64) int64 { return a | b }},
		{"xor", shmem.Xor[int64], func(a, b int64) int64 { return a ^ b }},
	} {
		for _, to := range []shmem.Sym[int64]{dst, src} { // src: in place
			fill(src.Local(), w.MyPE())
			ok(t, shmem.Reduce(w.Team(), to, src, x.op))
			for i, v := range to.Local() {
				want := contribution(0, i)
				for pe := 1; pe < w.NPEs(); pe++ {
					want = x.fold(want, contribution(pe, i))
				}
				if v != want {
					t.Fatalf("%s of %d: element %d is %d, want %d", x.name, size, i, v, want)
				}
			}
		}
	}
	ok(t, shmem.Free(w, src))
	ok(t, shmem.Free(w, dst))
}

func testExchanges(t *testing.T, w *shmem.World, size int) {
	n, me := w.NPEs(), w.MyPE()
	src := must(shmem.Calloc[int64](w, size*n))(t)
	dst := must(shmem.Calloc[int64](w, size*n))(t)
	part := src.Slice(0, size)
	fill(part.Local(), me)
	ok(t, shmem.FCollect(w.Team(), dst, part))
	fill(part.Local(), 99) // may be overwritten once the call returns
	for k, v := range dst.Local() {
		if want := contribution(k/size, k%size); v != want {
			t.Fatalf("fcollect of %d: element %d is %d, want %d", size, k, v, want)
		}
	}
	for k := range src.Local() {
		src.Local()[k] = contribution(me*n+k/max(size, 1), k%max(size, 1))
	}
	ok(t, shmem.Alltoall(w.Team(), dst, src))
	clear(src.Local())
	for k, v := range dst.Local() {
		if want := contribution(k/size*n+me, k%size); v != want {
			t.Fatalf("alltoall of %d: element %d is %d, want %d", size, k, v, want)
		}
	}
	ok(t, shmem.Free(w, src))
	ok(t, shmem.Free(w, dst))
}

// Collectives of different kinds and roots run back to back without a barrier between them, while
// the PEs are out of step.
func TestBackToBack(t *testing.T) {
	shmemtest.Run(t, 4, func(t *testing.T, w *shmem.World) {
		me, n := w.MyPE(), w.NPEs()
		a := must(shmem.Calloc[uint64](w, 1))(t)
		b := must(shmem.Calloc[uint64](w, 1))(t)
		all := must(shmem.Calloc[uint64](w, n))(t)
		for r := range 20_000 {
			v := uint64(r*n + me)
			a.Local()[0] = v
			switch (r / 3) % 4 {
			case 0:
				ok(t, shmem.Broadcast(w.Team(), b, a, r%n))
				if want := uint64(r*n + r%n); b.Local()[0] != want {
					t.Fatalf("round %d: broadcast gave %d, want %d", r, b.Local()[0], want)
				}
			case 1:
				ok(t, shmem.Reduce(w.Team(), b, a, shmem.Max))
				if want := uint64(r*n + n - 1); b.Local()[0] != want {
					t.Fatalf("round %d: max gave %d, want %d", r, b.Local()[0], want)
				}
			case 2:
				ok(t, shmem.FCollect(w.Team(), all, a))
				for pe, v := range all.Local() {
					if want := uint64(r*n + pe); v != want {
						t.Fatalf("round %d: fcollect gave %d from PE %d, want %d", r, v, pe, want)
					}
				}
			default:
				ok(t, w.Team().Sync())
			}
		}
	})
}

// A reduction of floating-point numbers gives the same bits on all PEs.
func TestReduceSameBits(t *testing.T) {
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		for _, size := range []int{5, 3000} {
			x := must(shmem.Alloc[float64](w, size))(t)
			for i := range x.Local() {
				x.Local()[i] = 1 / float64(3+i+w.MyPE()*77)
			}
			ok(t, shmem.Reduce(w.Team(), x, x, shmem.Sum))
			ok(t, w.Barrier())
			for pe := range w.NPEs() {
				theirs := make([]float64, size)
				ok(t, shmem.Get(w.Ctx(), theirs, x, pe))
				for i, v := range x.Local() {
					if theirs[i] != v {
						t.Fatalf("element %d is %v here and %v on PE %d, want the same bits", i, v, theirs[i], pe)
					}
				}
			}
			ok(t, w.Barrier())
		}
	})
}
