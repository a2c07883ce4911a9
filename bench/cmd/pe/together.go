package main

import (
	"github.com/goshmem/goshmem/shmem"
)

// largest is the number of elements of 8 bytes in an object: 1 MiB.
const largest = 1 << 17

// together measures collectives among all PEs. A batch ends with a barrier, so that the time includes the work of
// every PE.
func (m *meter) together() error {
	dst, src, err := m.startTogether()
	if err != nil {
		return err
	}
	if err := m.warmUp(warmUpTime); err != nil {
		return err
	}
	if err := m.all("barrier", 0, repeat(m.w.Barrier)); err != nil {
		return err
	}
	for _, row := range collectives(m.w.Team(), dst, src) {
		for _, n := range row.n {
			if err := m.all(row.name, 8*n, m.withBarrier(func() error { return row.op(n) })); err != nil {
				return err
			}
		}
	}
	return m.handOver()
}

// startTogether prepares rows of all PEs together: it names the rows by their number, and makes the words for agree and the
// objects of collectives.
func (m *meter) startTogether() (dst, src shmem.Sym[int64], err error) {
	m.pes = m.w.NPEs()
	if m.word, err = shmem.Calloc[int64](m.w, 2); err != nil {
		return dst, src, err
	}
	return m.objects()
}

// objects returns the destination and the source of collectives.
func (m *meter) objects() (dst, src shmem.Sym[int64], err error) {
	if src, err = shmem.Calloc[int64](m.w, largest, shmem.Align(4096)); err != nil {
		return dst, src, err
	}
	dst, err = shmem.Calloc[int64](m.w, largest, shmem.Align(4096))
	return dst, src, err
}

// collective is a collective and the sizes that are measured.
type collective struct {
	name string
	n    []int // elements of 8 bytes that a PE contributes (to one other, for alltoall)
	op   func(n int) error
}

// collectives returns the collectives that move data, on a team.
func collectives(t *shmem.Team, dst, src shmem.Sym[int64]) []collective {
	pes := t.NPEs()
	return []collective{
		{"sum_reduce", []int{1, 128, 8192, largest}, func(n int) error {
			return shmem.Reduce(t, dst.Slice(0, n), src.Slice(0, n), shmem.Sum)
		}},
		{"broadcast", []int{1, 8192}, func(n int) error {
			return shmem.Broadcast(t, dst.Slice(0, n), src.Slice(0, n), 0)
		}},
		{"alltoall", []int{1, 1024}, func(n int) error {
			return shmem.Alltoall(t, dst.Slice(0, n*pes), src.Slice(0, n*pes))
		}},
		{"fcollect", []int{1, 1024}, func(n int) error {
			return shmem.FCollect(t, dst.Slice(0, n*pes), src.Slice(0, n))
		}},
	}
}

// withBarrier returns a batch of calls of op that ends with a barrier.
func (m *meter) withBarrier(op func() error) func(n int) error {
	body := repeat(op)
	return func(n int) error {
		if err := body(n); err != nil {
			return err
		}
		return m.w.Barrier()
	}
}

// handOver measures a contended lock. Each PE acquires it n times, so one operation is as many hand-overs as there
// are PEs.
func (m *meter) handOver() error {
	l, err := shmem.NewLock(m.w)
	if err != nil {
		return err
	}
	return m.all("lock", 0, m.withBarrier(func() error {
		if _, err := l.Acquire(m.c); err != nil {
			return err
		}
		return l.Release(m.c)
	}))
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
