package shmem_test

import (
	"testing"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// The queues of many locks are spread evenly over all PEs.
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
					t.Errorf("PE %d is the home of %d locks and of %d locks of an array, want %d to %d of each", pe, homes[pe], arrays[pe], each/2, 2*each)
				}
			}
		})
	}
}

// Locks in an array exclude independently of each other, at any offset. The same elements always
// name the same lock.
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
				mustAcquire(t, at(i), c)
				if next := at((i + 1) % locks); r%7 == 0 && tryLock(t, next, c) { // nested
					ok(t, next.Release(c))
				}
				lockedCounter{data.At(2 * i), data.At(2*i + 1), i % npes}.increment(t, c)
				ok(t, at(i).Release(c))
			}
			ok(t, w.Barrier())
			for i := range locks {
				checkInt(t, "changes", int(must(shmem.G(c, data.At(2*i), i%npes))(t)), rounds/locks*npes)
				checkInt(t, "PEs left in the queue", shmem.Queued(w, at(i)), 0)
			}
			ok(t, w.Barrier())
			mustAcquire(t, at(1), c.With(t.Context()))
			wantError(t, at(2).Release(c), shmem.ErrLockNotHeld)
			ok(t, at(1).Release(c))
			ok(t, w.Barrier())
			wantError(t, at(1).Free(w), shmem.ErrArgument, "part of an object")
		})
	}
}

// LockAt refuses memory that cannot hold a lock.
func TestLockAtRefuses(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		n := shmem.LockLen(w)
		x := must(shmem.Calloc[int64](w, n))(t)
		wantError(t, errOf(shmem.LockAt(w, x.Slice(0, n-1))), shmem.ErrBounds, "shmem.LockAt", "at least", "LockLen")
		wantError(t, errOf(shmem.LockAt(w, x.Slice(0, n+1))), shmem.ErrBounds)
		wantError(t, errOf(shmem.LockAt(w, shmem.Sym[int64]{})), shmem.ErrForeignHandle)
		wantError(t, errOf(shmem.LockAt(nil, x)), shmem.ErrArgument, "World is nil")
		if shmem.LockLen(nil) != 0 {
			t.Error("LockLen of a nil World is not 0")
		}
		l := must(shmem.LockAt(w, x))(t)
		ok(t, l.Free(w))
		wantError(t, errOf(shmem.LockAt(w, x)), shmem.ErrFreed)
		wantError(t, errOf(l.Acquire(w.Ctx())), shmem.ErrFreed)
		wantError(t, errOf(shmem.Lock{}.Acquire(w.Ctx())), shmem.ErrForeignHandle, "zero value")
	})
}
