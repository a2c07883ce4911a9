package shmem_test

import (
	"testing"
	"time"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// allocRuns is how often each call is made; one allocation in as many calls
// would not be seen.
const allocRuns = 100

// none fails the test if the calls of f allocate. All PEs call it alike.
func none(t *testing.T, name string, f func() error) {
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

// No call on a data path allocates: a garbage collection in one PE would delay
// all others.
func TestNoAllocations(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		t.Run("one-sided", func(t *testing.T) { allocOneSided(t, w) })
		t.Run("atomic", func(t *testing.T) { allocAtomic(t, w) })
		t.Run("waiting", func(t *testing.T) { allocWaiting(t, w) })
		t.Run("collective", func(t *testing.T) { allocCollective(t, w) })
	})
}

func allocOneSided(t *testing.T, w *shmem.World) {
	t.Helper()
	c, pe := w.Ctx(), 1-w.MyPE()
	x := must(shmem.Calloc[int64](w, 1024))(t)
	buf := make([]int64, 1024)
	none(t, "P", func() error { return shmem.P(c, x.At(3), 1, pe) })
	none(t, "G", func() error { _, err := shmem.G(c, x.Slice(3, 9), pe); return err })
	none(t, "Put", func() error { return shmem.Put(c, x, buf, pe) })
	none(t, "Put of one", func() error { return shmem.Put(c, x, buf[:1], pe) })
	none(t, "Get", func() error { return shmem.Get(c, buf, x, pe) })
	none(t, "PutNBI", func() error { return shmem.PutNBI(c, x, buf, pe) })
	none(t, "GetNBI", func() error {
		p, err := shmem.GetNBI(c, buf, x, pe)
		if err != nil {
			return err
		}
		_, err = p.Wait()
		return err
	})
	none(t, "Fence", c.Fence)
	none(t, "Quiet", c.Quiet)
	none(t, "Local and Peer", func() error {
		s, _ := x.Peer(pe)
		s[0] = x.Local()[1]
		return nil
	})
	ok(t, w.Barrier())
}

func allocAtomic(t *testing.T, w *shmem.World) {
	t.Helper()
	c, pe := w.Ctx(), 1-w.MyPE()
	x := must(shmem.Calloc[uint64](w, 1))(t)
	f := must(shmem.Calloc[float64](w, 1))(t)
	fetch := func(_ uint64, err error) error { return err }
	none(t, "AtomicFetch", func() error { return fetch(shmem.AtomicFetch(c, x, pe)) })
	none(t, "AtomicSet", func() error { return shmem.AtomicSet(c, x, 1, pe) })
	none(t, "AtomicSet of a float", func() error { return shmem.AtomicSet(c, f, 1, pe) })
	none(t, "AtomicSwap", func() error { return fetch(shmem.AtomicSwap(c, x, 1, pe)) })
	none(t, "AtomicCompareSwap", func() error { return fetch(shmem.AtomicCompareSwap(c, x, 1, 2, pe)) })
	none(t, "AtomicFetchInc", func() error { return fetch(shmem.AtomicFetchInc(c, x, pe)) })
	none(t, "AtomicInc", func() error { return shmem.AtomicInc(c, x, pe) })
	none(t, "AtomicFetchAdd", func() error { return fetch(shmem.AtomicFetchAdd(c, x, 1, pe)) })
	none(t, "AtomicAdd", func() error { return shmem.AtomicAdd(c, x, 1, pe) })
	none(t, "AtomicFetchAnd", func() error { return fetch(shmem.AtomicFetchAnd(c, x, 1, pe)) })
	none(t, "AtomicAnd", func() error { return shmem.AtomicAnd(c, x, 1, pe) })
	none(t, "AtomicFetchOr", func() error { return fetch(shmem.AtomicFetchOr(c, x, 1, pe)) })
	none(t, "AtomicOr", func() error { return shmem.AtomicOr(c, x, 1, pe) })
	none(t, "AtomicFetchXor", func() error { return fetch(shmem.AtomicFetchXor(c, x, 1, pe)) })
	none(t, "AtomicXor", func() error { return shmem.AtomicXor(c, x, 1, pe) })
	ok(t, w.Barrier())
}

// The waits that wait come to poll, to yield and to sleep.
func allocWaiting(t *testing.T, w *shmem.World) {
	t.Helper()
	c, me := w.Ctx(), w.MyPE()
	x := must(shmem.Calloc[int64](w, 1))(t)
	sig := must(shmem.Calloc[uint64](w, 1))(t)
	y := must(shmem.Calloc[int64](w, 4))(t)
	data := make([]int64, 4)
	none(t, "Test", func() error { _, err := shmem.Test(c, x, shmem.GE, 0); return err })
	none(t, "SignalFetch", func() error { _, err := c.SignalFetch(sig); return err })
	var round int64
	none(t, "WaitUntil", func() error {
		round++
		if me == 0 {
			return shmem.WaitUntil(c, x, shmem.GE, round)
		}
		time.Sleep(time.Millisecond)
		return shmem.P(c, x, round, 0)
	})
	none(t, "PutSignal and SignalWaitUntil", func() error {
		round++
		if me == 0 {
			_, err := c.SignalWaitUntil(sig, shmem.GE, uint64(round))
			return err
		}
		return shmem.PutSignal(c, y, data, sig, uint64(round), shmem.SignalSet, 0)
	})
	ok(t, w.Barrier())
}

func allocCollective(t *testing.T, w *shmem.World) {
	t.Helper()
	const n = 4096 // elements: through slots, and where they lie
	all := w.Team()
	src := must(shmem.Calloc[int64](w, n))(t)
	dst := must(shmem.Calloc[int64](w, 2*n))(t)
	none(t, "Barrier", w.Barrier)
	none(t, "Team.Sync", all.Sync)
	for _, k := range []int{8, n} {
		none(t, "Broadcast", func() error { return shmem.Broadcast(all, dst.Slice(0, k), src.Slice(0, k), 1) })
		none(t, "Reduce", func() error { return shmem.Reduce(all, dst.Slice(0, k), src.Slice(0, k), shmem.Sum) })
		none(t, "FCollect", func() error { return shmem.FCollect(all, dst.Slice(0, 2*k), src.Slice(0, k)) })
		none(t, "Alltoall", func() error { return shmem.Alltoall(all, dst.Slice(0, k), src.Slice(0, k)) })
	}
}
