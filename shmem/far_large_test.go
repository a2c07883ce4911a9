package shmem_test

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// largeWords is the number of words of a large transfer: 1 GiB of them, or 16 MiB with -short.
func largeWords() int {
	if testing.Short() {
		return 2 << 20
	}
	return 128 << 20
}

// fillLarge makes words that depend on the PE, the round and the place.
func fillLarge(x []uint64, pe, round int) {
	for i := range x {
		x[i] = largeWord(pe, round, i)
	}
}

func largeWord(pe, round, i int) uint64 {
	return (uint64(pe+1)<<56 | uint64(round)<<48 | uint64(i)) * 0x9e3779b97f4a7c15
}

// wantLarge fails the test at the first word that differs from those of fillLarge.
func wantLarge(t *testing.T, what string, x []uint64, pe, round int) {
	t.Helper()
	for i, v := range x {
		if want := largeWord(pe, round, i); v != want {
			t.Fatalf("%s: word %d of %d is %#x, want %#x", what, i, len(x), v, want)
		}
	}
}

// Puts and gets of 1 GiB between nodes bring the right data from and to Go memory and the heap, also when both PEs do the
// same at the same time. Neither PE nor agent has more memory than the program asks for and some MiB.
func TestFarLarge(t *testing.T) {
	n := largeWords()
	size := uint64(n) * 8
	const most = 6 // times the size: objects and Go memory of both PEs
	if total, err := xunix.MemoryTotal(); err == nil && total < most*size+2<<30 && !testing.Short() {
		t.Skipf("the machine has %d MiB of memory, want %d MiB", total>>20, (most*size+2<<30)>>20)
	}
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		me, c := w.MyPE(), w.Ctx()
		other := 1 - me
		x, y := must(shmem.Alloc[uint64](w, n))(t), must(shmem.Alloc[uint64](w, n))(t)
		round := 0
		// step has both PEs do the same, and logs how long it took.
		step := func(what string, f func() error) {
			round++
			ok(t, w.Barrier())
			start := time.Now()
			ok(t, f())
			ok(t, w.Barrier())
			t.Logf("%s: %.0f MB/s", what, float64(size)/1e6/time.Since(start).Seconds())
		}
		private := make([]uint64, n)
		for _, put := range []struct {
			what string
			call func(*shmem.Ctx, shmem.Sym[uint64], []uint64, int) error
			src  []uint64
		}{
			{"Put from Go memory", shmem.Put[uint64], private},
			{"Put from the heap", shmem.Put[uint64], y.Local()},
			{"PutNBI from Go memory", shmem.PutNBI[uint64], private},
			{"PutNBI from the heap", shmem.PutNBI[uint64], y.Local()},
		} {
			fillLarge(put.src, me, round+1)
			step(put.what, func() error { return firstOf(put.call(c, x, put.src, other), c.Quiet()) })
			wantLarge(t, put.what, x.Local(), other, round)
		}
		fillLarge(x.Local(), me, 100)
		step("Get into Go memory", func() error { return shmem.Get(c, private, x, other) })
		wantLarge(t, "Get into Go memory", private, other, 100)
		step("Get into the heap", func() error { return shmem.Get(c, y.Local(), x, other) })
		wantLarge(t, "Get into the heap", y.Local(), other, 100)
		clear(private)
		clear(y.Local())
		step("GetNBI into Go memory and the heap", func() error {
			_, err := shmem.GetNBI(c, private, x, other)
			if err == nil {
				_, err = shmem.GetNBI(c, y.Local(), x, other)
			}
			return firstOf(err, c.Quiet())
		})
		wantLarge(t, "GetNBI into Go memory", private, other, 100)
		wantLarge(t, "GetNBI into the heap", y.Local(), other, 100)
		if !testing.Short() { // the race detector, which runs with -short, has memory of its own
			wantMemory(t, "after all transfers", size, 2*size)
		}
		ok(t, w.Barrier())
	}, shmemtest.Nodes(2), shmemtest.HeapSize(2*size+64<<20), shmemtest.Timeout(10*time.Minute))
}

// firstOf returns the first error.
func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// A PE that is stopped has all that is put to it, and others get all from it: its agent does not need it.
func TestFarStoppedTarget(t *testing.T) {
	n := min(largeWords(), 8<<20)
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		me, c := w.MyPE(), w.Ctx()
		x := must(shmem.Alloc[uint64](w, n))(t)
		pid := must(shmem.Calloc[int64](w, 1))(t)
		pid.Local()[0] = int64(os.Getpid())
		ok(t, w.Barrier())
		if me == 0 {
			target := int(must(shmem.G(c, pid, 1))(t))
			ok(t, syscall.Kill(target, syscall.SIGSTOP))
			defer func() { ok(t, syscall.Kill(target, syscall.SIGCONT)) }()
			data, back := make([]uint64, n), make([]uint64, n)
			fillLarge(data, me, 1)
			ok(t, firstOf(shmem.Put(c, x, data, 1), c.Quiet()))
			ok(t, shmem.Get(c, back, x, 1))
			wantLarge(t, "back from the stopped PE", back, me, 1)
			old := must(shmem.AtomicFetchAdd(c, pid, 1, 1))(t)
			if old != int64(target) {
				t.Errorf("fetched %d from the stopped PE, want %d", old, target)
			}
			ok(t, syscall.Kill(target, syscall.SIGCONT))
		}
		ok(t, w.Barrier())
		if me == 1 {
			wantLarge(t, "in the PE that was stopped", x.Local(), 0, 1)
		}
	}, shmemtest.Nodes(2), shmemtest.HeapSize(uint64(n)*8+16<<20))
}
