package main

import (
	"fmt"

	"github.com/goshmem/goshmem/shmem"
)

// atomics measures atomic operations while the target sleeps, polls a word of another cache line, polls a word of
// the same cache line, and waits.
func (m *meter) atomics() error {
	x, err := shmem.Calloc[int64](m.w, 1) // on a cache line of its own
	if err != nil {
		return err
	}
	// The neighbor of the flag that spin and wait read.
	pair, err := shmem.Calloc[int64](m.w, 2)
	if err != nil {
		return err
	}
	for _, part := range []struct {
		suffix  string
		idle    func(*meter) error
		x, flag shmem.Sym[int64]
	}{
		{"", nap, x, m.flag},
		{"_spin", spin, x, m.flag},
		{"_line", spin, pair.At(1), pair.At(0)},
		{"_wait", wait, x, m.flag},
	} {
		m.flag = part.flag
		err := m.section(part.idle, func() error {
			if err := m.fetchAdd("fetch_add"+part.suffix, part.x); err != nil {
				return err
			}
			return m.compareSwap("compare_swap"+part.suffix, part.x)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *meter) fetchAdd(name string, x shmem.Sym[int64]) error {
	c := m.c
	return m.row(name, 8, func(n int) error {
		var sum int64
		for range n {
			old, err := shmem.AtomicFetchAdd(c, x, 3, target)
			if err != nil {
				return err
			}
			sum += old
		}
		sink += sum
		return nil
	})
}

// compareSwap measures swaps that succeed.
func (m *meter) compareSwap(name string, x shmem.Sym[int64]) error {
	c := m.c
	return m.row(name, 8, func(n int) error {
		old, err := shmem.AtomicFetch(c, x, target)
		if err != nil {
			return err
		}
		for range n {
			seen, err := shmem.AtomicCompareSwap(c, x, old, old+1, target)
			if err != nil {
				return err
			}
			if seen != old {
				return fmt.Errorf("compare-and-swap found %d, want %d, as no other PE changes the word", seen, old)
			}
			old++
		}
		return nil
	})
}
