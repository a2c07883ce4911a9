package main

import "github.com/goshmem/goshmem/shmem"

// rounds is how often both PEs take part in a batch of what they do together.
const rounds = 1000

// together measures what both PEs do at once: barrier, reduction, ping-pong.
func (m *meter) together() error {
	w, c := m.w, m.c
	src, err := shmem.Calloc[int64](w, 1)
	if err != nil {
		return err
	}
	dst, err := shmem.Calloc[int64](w, 1)
	if err != nil {
		return err
	}
	word, err := shmem.Calloc[int64](w, 1)
	if err != nil {
		return err
	}
	err = m.fixed("barrier", 0, rounds, func(n int) error {
		for range n {
			if err := w.Barrier(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = m.fixed("sum_reduce", 8, rounds, func(n int) error {
		for range n {
			if err := shmem.Reduce(w.Team(), dst, src, shmem.Sum); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	var ball int64
	return m.fixed("ping_pong", 8, 2*rounds, func(n int) error { // n messages
		for range n / 2 {
			ball++
			if m.me == 0 {
				if err := shmem.P(c, word, ball, target); err != nil {
					return err
				}
			}
			if err := shmem.WaitUntil(c, word, shmem.GE, ball); err != nil {
				return err
			}
			if m.me == target {
				if err := shmem.P(c, word, ball, 0); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
