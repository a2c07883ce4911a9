package main

import (
	"errors"

	"github.com/goshmem/goshmem/bench"
	"github.com/goshmem/goshmem/shmem"
)

// spanning measures collectives among PEs of several nodes: barriers, sums of values beside barriers, and reductions on a tolerant
// team beside those on a strict one.
func (m *meter) spanning() (err error) {
	m.pes = m.w.NPEs()
	if m.word, err = shmem.Calloc[int64](m.w, 2); err != nil {
		return err
	}
	dst, src, err := m.objects()
	if err != nil {
		return err
	}
	var teams [2]*shmem.Team
	for i, mode := range []shmem.Mode{shmem.ModeTolerant, shmem.ModeStrict} {
		if teams[i], err = m.w.Team().SplitStrided(0, 1, m.pes, &shmem.TeamConfig{Mode: mode}); err != nil {
			return err
		}
	}
	tolerant, strict := teams[0], teams[1]
	if err := m.warmUp(warmUpTime); err != nil {
		return err
	}
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
	err = m.beside("far_ft_in_place", 8*largest, bench.Strict, ours, theirs)
	return errors.Join(err, tolerant.Destroy(), strict.Destroy())
}
