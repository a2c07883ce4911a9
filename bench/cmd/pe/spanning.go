package main

import (
	"github.com/goshmem/goshmem/bench"
	"github.com/goshmem/goshmem/shmem"
)

// spanning measures collectives among PEs of several nodes: barriers, sums of values beside barriers, and reductions on a tolerant
// team beside those on a strict one.
func (m *meter) spanning() error { return m.onBothTeams(m.spanningRows) }

// spanningRows measures the rows of spanning.
func (m *meter) spanningRows(tolerant, strict *shmem.Team, dst, src shmem.Sym[int64]) error {
	if err := m.all("far_barrier", 0, repeat(m.w.Barrier)); err != nil {
		return err
	}
	sum := repeat(func() error { _, err := shmem.ReduceValue(m.w.Team(), int64(1), shmem.Sum); return err })
	if err := m.beside("far_allreduce", 8, bench.Barrier, sum, repeat(m.w.Barrier)); err != nil {
		return err
	}
	for _, n := range []int{1, 8192, largest} {
		ours := repeat(func() error { return shmem.Reduce(tolerant, dst.Slice(0, n), src.Slice(0, n), shmem.Sum) })
		theirs := repeat(func() error { return shmem.Reduce(strict, dst.Slice(0, n), src.Slice(0, n), shmem.Sum) })
		if err := m.beside("far_ft_reduce", 8*n, bench.Strict, ours, theirs); err != nil {
			return err
		}
	}
	ours := repeat(func() error { return shmem.Reduce(tolerant, src, src, shmem.Sum) })
	theirs := repeat(func() error { return shmem.Reduce(strict, src, src, shmem.Sum) })
	return m.beside("far_ft_in_place", 8*largest, bench.Strict, ours, theirs)
}
