package main

import (
	"time"

	"github.com/goshmem/goshmem/bench"
	"github.com/goshmem/goshmem/shmem"
)

// rounds counts rounds of a barrier and a sum of 8 bytes among all PEs, as rounds.c does. It counts for a fixed
// time: beside other load, the number of rounds matters, not the length of most rounds. The sum tells all PEs
// whether PE 0's time is over.
func (m *meter) rounds() error {
	m.pes = m.w.NPEs()
	over, err := shmem.Calloc[int64](m.w, 1)
	if err != nil {
		return err
	}
	for _, length := range []time.Duration{m.batch / 10, m.batch} { // the first one warms up: the kernel spreads the PEs
		start, n := time.Now(), 0
		for all := false; !all; n++ {
			if err := m.w.Barrier(); err != nil {
				return err
			}
			over.Local()[0] = 0
			if m.me == 0 && time.Since(start) >= length {
				over.Local()[0] = 1
			}
			if err := shmem.Reduce(m.w.Team(), over, over, shmem.Sum); err != nil {
				return err
			}
			all = over.Local()[0] != 0
		}
		if m.me == 0 && length == m.batch {
			r := bench.Record{Name: "round", PEs: m.pes, Nanos: float64(time.Since(start).Nanoseconds()) / float64(n)}
			if err := m.out.Encode(r); err != nil {
				return err
			}
		}
	}
	return nil
}
