package shmem_test

import (
	"testing"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// The queues of many locks lie on all PEs, about as many on each.
func TestLocksAreSpread(t *testing.T) {
	for _, npes := range []int{2, 3, 4, 8} {
		shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
			const each = 16
			homes, arrays := make([]int, npes), make([]int, npes)
			n := shmem.LockLen(w)
			x := must(shmem.Calloc[int64](w, each*npes*n))(t)
			for i := range each * npes {
				homes[shmem.Home(must(shmem.NewLock(w))(t))]++
				arrays[shmem.Home(must(shmem.LockAt(w, x.Slice(i*n, (i+1)*n)))(t))]++
			}
			for pe := range npes {
				if homes[pe] < each/2 || homes[pe] > 2*each || arrays[pe] < each/2 || arrays[pe] > 2*each {
					t.Errorf("PE %d is home to %d locks, and to %d of an array, of %d each", pe, homes[pe], arrays[pe], each*npes)
				}
			}
		})
	}
}

// Locks in an array, at whatever offset, exclude, each for itself; the same elements are
// the same lock.
func TestLockAt(t *testing.T) {
	for _, npes := range []int{1, 2, 3, 8} {
		shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
			const locks, rounds = 5, 100
			c, n := w.Ctx(), shmem.LockLen(w)
			x := must(shmem.Calloc[int64](w, 3+locks*n))(t).Slice(3, 3+locks*n)
			data := must(shmem.Calloc[int64](w, 2*locks))(t)
			at := func(i int) shmem.Lock { return must(shmem.LockAt(w, x.Slice(i*n, (i+1)*n)))(t) }
			for r := range rounds {
				i := r % locks
				acquire(t, at(i), c)
				if next := at((i + 1) % locks); r%7 == 0 && try(t, next, c) { // one within another
					ok(t, next.Release(c))
				}
				counted{data.At(2 * i), data.At(2*i + 1), i % npes}.change(t, c)
				ok(t, at(i).Release(c))
			}
			ok(t, w.Barrier())
			for i := range locks {
				index(t, "changes", int(must(shmem.G(c, data.At(2*i), i%npes))(t)), rounds/locks*npes)
				index(t, "PEs left in the queue", shmem.Queued(w, at(i)), 0)
			}
			ok(t, w.Barrier())
			acquire(t, at(1), c.With(t.Context()))
			refused(t, at(2).Release(c), shmem.ErrLockNotHeld)
			ok(t, at(1).Release(c))
			ok(t, w.Barrier())
			refused(t, at(1).Free(w), shmem.ErrArgument, "part of an object")
		})
	}
}

// Memory that cannot be a lock's is refused.
func TestLockAtRefuses(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		n := shmem.LockLen(w)
		x := must(shmem.Calloc[int64](w, n))(t)
		refused(t, fails(shmem.LockAt(w, x.Slice(0, n-1))), shmem.ErrBounds, "shmem.LockAt", "at least", "LockLen")
		refused(t, fails(shmem.LockAt(w, x.Slice(0, n+1))), shmem.ErrBounds)
		refused(t, fails(shmem.LockAt(w, shmem.Sym[int64]{})), shmem.ErrForeignHandle)
		refused(t, fails(shmem.LockAt(nil, x)), shmem.ErrArgument, "World is nil")
		if shmem.LockLen(nil) != 0 {
			t.Error("a lock of no world has memory")
		}
		l := must(shmem.LockAt(w, x))(t)
		ok(t, l.Free(w))
		refused(t, fails(shmem.LockAt(w, x)), shmem.ErrFreed)
		refused(t, fails(l.Acquire(w.Ctx())), shmem.ErrFreed)
		refused(t, fails(shmem.Lock{}.Acquire(w.Ctx())), shmem.ErrForeignHandle, "zero value")
	})
}
