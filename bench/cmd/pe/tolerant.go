package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/bench"
	"github.com/goshmem/goshmem/shmem"
)

// tolerant measures collectives on a tolerant team beside the same collectives on a strict team, and agreements
// beside reductions of one element. Both teams have all PEs of one job and alternate batch by batch, because two
// jobs would differ by more than the two teams.
func (m *meter) tolerant() error { return m.onBothTeams(m.tolerantRows) }

// tolerantRows measures the rows of tolerant.
func (m *meter) tolerantRows(tolerant, strict *shmem.Team, dst, src shmem.Sym[int64]) error {
	if err := m.beside("ft_barrier", 0, bench.Strict, m.barrierOn(tolerant), m.barrierOn(strict)); err != nil {
		return err
	}
	other := collectives(strict, dst, src)
	for i, row := range collectives(tolerant, dst, src) {
		for _, n := range row.n {
			ours := m.withBarrier(func() error { return row.op(n) })
			theirs := m.withBarrier(func() error { return other[i].op(n) })
			if err := m.beside("ft_"+row.name, 8*n, bench.Strict, ours, theirs); err != nil {
				return err
			}
		}
	}
	agree := m.withBarrier(func() error {
		flags, err := tolerant.Agree(1)
		if err == nil && flags != 1 {
			err = fmt.Errorf("agreed on flags %#x, want %#x", flags, 1)
		}
		return err
	})
	reduce := m.withBarrier(func() error { return other[0].op(1) })
	return m.beside("agree", 0, bench.Allreduce, agree, reduce)
}

// onBothTeams runs body with a tolerant and a strict team, each of all PEs, and with the objects of collectives.
func (m *meter) onBothTeams(body func(tolerant, strict *shmem.Team, dst, src shmem.Sym[int64]) error) error {
	dst, src, err := m.startTogether()
	if err != nil {
		return err
	}
	var teams [2]*shmem.Team
	for i, mode := range []shmem.Mode{shmem.ModeTolerant, shmem.ModeStrict} {
		if teams[i], err = m.w.Team().SplitStrided(0, 1, m.pes, &shmem.TeamConfig{Mode: mode}); err != nil {
			return err
		}
	}
	if err := m.warmUp(warmUpTime); err != nil {
		return err
	}
	if err := body(teams[0], teams[1], dst, src); err != nil {
		return err
	}
	return errors.Join(teams[0].Destroy(), teams[1].Destroy())
}

// barrierOn returns a barrier of a team.
func (m *meter) barrierOn(t *shmem.Team) func(n int) error {
	return repeat(func() error {
		if err := m.c.Quiet(); err != nil {
			return err
		}
		return t.Sync()
	})
}

// beside is all for two bodies that alternate. The second one counts for the contestant who. The batches of both
// have the same number of operations.
func (m *meter) beside(name string, bytes int, who string, ours, theirs func(n int) error) error {
	if !m.asked(name, bytes) {
		return nil
	}
	n, err := m.operations(ours)
	if err != nil {
		return err
	}
	each := [2][]float64{}
	for range m.batches {
		for i, body := range []func(n int) error{ours, theirs} {
			t, err := timed(body, n)
			if err != nil {
				return err
			}
			each[i] = append(each[i], float64(t.Nanoseconds())/float64(n))
		}
	}
	if m.me != 0 {
		return nil
	}
	for i, as := range []string{"", who} {
		slices.Sort(each[i])
		r := bench.Record{Name: name, PEs: m.pes, Bytes: bytes, Nanos: each[i][len(each[i])/2], As: as}
		if err := m.out.Encode(r); err != nil {
			return err
		}
	}
	return nil
}
