package main

import (
	"time"

	"github.com/goshmem/goshmem/shmem"
)

// largest is how many elements of 8 bytes an object has: 1 MiB.
const largest = 1 << 17

// together measures collectives among all PEs. A batch ends with a barrier, so
// that nobody's part is left out.
func (m *meter) together() (err error) {
	w, all := m.w, m.w.Team()
	m.pes = w.NPEs()
	if m.word, err = shmem.Calloc[int64](w, 2); err != nil {
		return err
	}
	src, err := shmem.Calloc[int64](w, largest, shmem.Align(4096))
	if err != nil {
		return err
	}
	dst, err := shmem.Calloc[int64](w, largest, shmem.Align(4096))
	if err != nil {
		return err
	}
	if err := m.settle(400 * time.Millisecond); err != nil {
		return err
	}
	if err := m.all("barrier", 0, repeat(w.Barrier)); err != nil {
		return err
	}
	for _, row := range []struct {
		name string
		n    []int // elements of 8 bytes that a PE contributes (to one other, for alltoall)
		op   func(n int) error
	}{
		{"sum_reduce", []int{1, 128, 8192, largest}, func(n int) error {
			return shmem.Reduce(all, dst.Slice(0, n), src.Slice(0, n), shmem.Sum)
		}},
		{"broadcast", []int{1, 8192}, func(n int) error {
			return shmem.Broadcast(all, dst.Slice(0, n), src.Slice(0, n), 0)
		}},
		{"alltoall", []int{1, 1024}, func(n int) error {
			return shmem.Alltoall(all, dst.Slice(0, n*m.pes), src.Slice(0, n*m.pes))
		}},
		{"fcollect", []int{1, 1024}, func(n int) error {
			return shmem.FCollect(all, dst.Slice(0, n*m.pes), src.Slice(0, n))
		}},
	} {
		for _, n := range row.n {
			body := repeat(func() error { return row.op(n) })
			err := m.all(row.name, 8*n, func(times int) error {
				if err := body(times); err != nil {
					return err
				}
				return w.Barrier()
			})
			if err != nil {
				return err
			}
		}
	}
	return m.handOver()
}

// handOver measures a lock that all PEs want: each takes it n times, so that it is
// handed over as often as there are PEs for each time.
func (m *meter) handOver() error {
	l, err := shmem.NewLock(m.w)
	if err != nil {
		return err
	}
	body := repeat(func() error {
		if err := l.Acquire(m.c); err != nil {
			return err
		}
		return l.Release(m.c)
	})
	return m.all("lock", 0, func(n int) error {
		if err := body(n); err != nil {
			return err
		}
		return m.w.Barrier()
	})
}

// repeat returns a function that makes n calls of op.
func repeat(op func() error) func(n int) error {
	return func(n int) error {
		for range n {
			if err := op(); err != nil {
				return err
			}
		}
		return nil
	}
}
