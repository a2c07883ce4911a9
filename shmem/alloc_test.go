package shmem_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// allocRuns is how often each call is made. An allocation in fewer than one of allocRuns calls
// goes unnoticed.
const allocRuns = 100

// wantNoAllocs fails the test if f allocates. All PEs make the same calls.
func wantNoAllocs(t *testing.T, name string, f func() error) {
	t.Helper()
	var first error
	n := testing.AllocsPerRun(allocRuns, func() {
		if err := f(); err != nil && first == nil {
			first = err
		}
	})
	ok(t, first)
	if n != 0 {
		t.Errorf("%s: %v allocations a call, want none", name, n)
	}
}

// No call on a data path allocates: a garbage collection in one PE would delay all others. Collectives of teams on several
// nodes do.
func TestNoAllocations(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		t.Run("one-sided", func(t *testing.T) { testOneSidedAllocs(t, w) })
		t.Run("atomic", func(t *testing.T) { testAtomicAllocs(t, w) })
		t.Run("waiting", func(t *testing.T) { testWaitingAllocs(t, w) })
		if !spans(w) {
			t.Run("collective", func(t *testing.T) { testCollectiveAllocs(t, w) })
		}
	})
}

func testOneSidedAllocs(t *testing.T, w *shmem.World) {
	t.Helper()
	c, pe := w.Ctx(), 1-w.MyPE()
	x := must(shmem.Calloc[int64](w, 1024))(t)
	buf := make([]int64, 1024)
	wantNoAllocs(t, "P", func() error { return shmem.P(c, x.At(3), 1, pe) })
	wantNoAllocs(t, "G", func() error { _, err := shmem.G(c, x.Slice(3, 9), pe); return err })
	wantNoAllocs(t, "Put", func() error { return shmem.Put(c, x, buf, pe) })
	wantNoAllocs(t, "Put of one", func() error { return shmem.Put(c, x, buf[:1], pe) })
	wantNoAllocs(t, "Get", func() error { return shmem.Get(c, buf, x, pe) })
	wantNoAllocs(t, "PutNBI", func() error { return shmem.PutNBI(c, x, buf, pe) })
	if isNear(w, pe) { // otherwise the Pending points to what the answer comes to
		wantNoAllocs(t, "GetNBI", func() error {
			p, err := shmem.GetNBI(c, buf, x, pe)
			if err != nil {
				return err
			}
			_, err = p.Wait()
			return err
		})
		sig := must(shmem.Calloc[uint64](w, 1))(t)
		wantNoAllocs(t, "operations with local arrays", func() error { return useLocalArrays(c, x, sig, pe) })
	}
	wantNoAllocs(t, "Fence", c.Fence)
	wantNoAllocs(t, "Quiet", c.Quiet)
	wantNoAllocs(t, "Local and Peer", func() error {
		if s, near := x.Peer(pe); near {
			s[0] = x.Local()[1]
		}
		return nil
	})
	ok(t, w.Barrier())
}

// useLocalArrays makes operations from and to arrays that are local, which stay on the stack.
func useLocalArrays(c *shmem.Ctx, x shmem.Sym[int64], sig shmem.Sym[uint64], pe int) error {
	var src, dst, later [32]int64
	s := shmem.Stride{Dst: 2, Src: 2, Block: 1, N: 16}
	if err := firstOf(
		shmem.Put(c, x, src[:], pe), shmem.PutNBI(c, x, src[:], pe), shmem.IBPut(c, x, src[:], s, pe),
		shmem.PutSignal(c, x, src[:], sig, 1, shmem.SignalSet, pe), shmem.Get(c, dst[:], x, pe), shmem.IBGet(c, dst[:], x, s, pe),
	); err != nil {
		return err
	}
	p, err := shmem.GetNBI(c, later[:], x, pe)
	if err != nil {
		return err
	}
	if got, err := p.Wait(); err != nil || got[31] != src[31] || dst[30] != src[30] {
		return fmt.Errorf("got other data than were put, error %w", err)
	}
	return c.Quiet()
}

func testAtomicAllocs(t *testing.T, w *shmem.World) {
	t.Helper()
	c, pe := w.Ctx(), 1-w.MyPE()
	x := must(shmem.Calloc[uint64](w, 1))(t)
	f := must(shmem.Calloc[float64](w, 1))(t)
	fetch := func(_ uint64, err error) error { return err }
	wantNoAllocs(t, "AtomicFetch", func() error { return fetch(shmem.AtomicFetch(c, x, pe)) })
	wantNoAllocs(t, "AtomicSet", func() error { return shmem.AtomicSet(c, x, 1, pe) })
	wantNoAllocs(t, "AtomicSet of a float", func() error { return shmem.AtomicSet(c, f, 1, pe) })
	wantNoAllocs(t, "AtomicSwap", func() error { return fetch(shmem.AtomicSwap(c, x, 1, pe)) })
	wantNoAllocs(t, "AtomicCompareSwap", func() error { return fetch(shmem.AtomicCompareSwap(c, x, 1, 2, pe)) })
	wantNoAllocs(t, "AtomicFetchInc", func() error { return fetch(shmem.AtomicFetchInc(c, x, pe)) })
	wantNoAllocs(t, "AtomicInc", func() error { return shmem.AtomicInc(c, x, pe) })
	wantNoAllocs(t, "AtomicFetchAdd", func() error { return fetch(shmem.AtomicFetchAdd(c, x, 1, pe)) })
	wantNoAllocs(t, "AtomicAdd", func() error { return shmem.AtomicAdd(c, x, 1, pe) })
	wantNoAllocs(t, "AtomicFetchAnd", func() error { return fetch(shmem.AtomicFetchAnd(c, x, 1, pe)) })
	wantNoAllocs(t, "AtomicAnd", func() error { return shmem.AtomicAnd(c, x, 1, pe) })
	wantNoAllocs(t, "AtomicFetchOr", func() error { return fetch(shmem.AtomicFetchOr(c, x, 1, pe)) })
	wantNoAllocs(t, "AtomicOr", func() error { return shmem.AtomicOr(c, x, 1, pe) })
	wantNoAllocs(t, "AtomicFetchXor", func() error { return fetch(shmem.AtomicFetchXor(c, x, 1, pe)) })
	wantNoAllocs(t, "AtomicXor", func() error { return shmem.AtomicXor(c, x, 1, pe) })
	ok(t, w.Barrier())
}

// The waits here block long enough to poll, to yield and to sleep.
func testWaitingAllocs(t *testing.T, w *shmem.World) {
	t.Helper()
	c, me := w.Ctx(), w.MyPE()
	x := must(shmem.Calloc[int64](w, 1))(t)
	sig := must(shmem.Calloc[uint64](w, 1))(t)
	y := must(shmem.Calloc[int64](w, 4))(t)
	data := make([]int64, 4)
	wantNoAllocs(t, "Test", func() error { _, err := shmem.Test(c, x, shmem.GE, 0); return err })
	wantNoAllocs(t, "SignalFetch", func() error { _, err := c.SignalFetch(sig); return err })
	var round int64
	wantNoAllocs(t, "WaitUntil", func() error {
		round++
		if me == 0 {
			return shmem.WaitUntil(c, x, shmem.GE, round)
		}
		time.Sleep(time.Millisecond)
		return shmem.P(c, x, round, 0)
	})
	wantNoAllocs(t, "PutSignal and SignalWaitUntil", func() error {
		round++
		if me == 0 {
			_, err := c.SignalWaitUntil(sig, shmem.GE, uint64(round))
			return err
		}
		return shmem.PutSignal(c, y, data, sig, uint64(round), shmem.SignalSet, 0)
	})
	ok(t, w.Barrier())
}

func testCollectiveAllocs(t *testing.T, w *shmem.World) {
	t.Helper()
	const n = 4096 // elements; both through slots and by direct reads
	all := w.Team()
	src := must(shmem.Calloc[int64](w, n))(t)
	dst := must(shmem.Calloc[int64](w, 2*n))(t)
	wantNoAllocs(t, "Barrier", w.Barrier)
	wantNoAllocs(t, "Team.Sync", all.Sync)
	for _, k := range []int{8, n} {
		wantNoAllocs(t, "Broadcast", func() error { return shmem.Broadcast(all, dst.Slice(0, k), src.Slice(0, k), 1) })
		wantNoAllocs(t, "Reduce", func() error { return shmem.Reduce(all, dst.Slice(0, k), src.Slice(0, k), shmem.Sum) })
		wantNoAllocs(t, "FCollect", func() error { return shmem.FCollect(all, dst.Slice(0, 2*k), src.Slice(0, k)) })
		wantNoAllocs(t, "Alltoall", func() error { return shmem.Alltoall(all, dst.Slice(0, k), src.Slice(0, k)) })
	}
}
