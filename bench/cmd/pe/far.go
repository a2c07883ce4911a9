package main

import (
	"fmt"

	"github.com/goshmem/goshmem/shmem"
)

// What a batch of a stream of puts has, and of puts of 1 MiB. A batch ends with a Quiet, which has to be a small part of it.
const (
	streamPuts = 1 << 17
	largePuts  = 16
)

// far measures operations of PE 0 on PE 1: with two PEs that is on another node, with more on the same one. All other PEs
// sleep meanwhile, as a PE that waits for a disk would: a put wakes a PE that waits for a word, which then takes a processor.
func (m *meter) far() (err error) {
	shared, pes := m.w.Shared().NPEs(), m.w.NPEs()
	if pes != 2*shared { // the same on all PEs
		return fmt.Errorf("node with %d of %d PEs, want two nodes with the same number: oshrun --emulate 2 -n 2 pe far", shared, pes)
	}
	if m.flag, err = shmem.Calloc[int64](m.w, 1); err != nil {
		return err
	}
	x, err := shmem.Calloc[int64](m.w, 64<<20/8, shmem.Align(4096))
	if err != nil {
		return err
	}
	if err := m.w.Barrier(); err != nil {
		return err
	}
	m.done++
	if m.me != 0 {
		return nap(m)
	}
	if shared > 1 {
		err = m.nearRows(x)
	} else {
		err = m.farRows(x)
	}
	if err != nil {
		return err
	}
	for pe := 1; pe < pes; pe++ {
		if err := shmem.P(m.c, m.flag, m.done, pe); err != nil {
			return err
		}
	}
	return m.c.Quiet()
}

// farRows measures operations on PE 1, which is on another node.
func (m *meter) farRows(x shmem.Sym[int64]) error {
	c, word := m.c, x.At(0)
	one := make([]int64, 1)
	var old int64
	for _, r := range []struct {
		name string
		op   func() error
	}{
		{"far/get", func() error { return shmem.Get(c, one, word, target) }},
		{"far/fetch_add", func() error { _, err := shmem.AtomicFetchAdd(c, word, 3, target); return err }},
		{"far/compare_swap", func() (err error) { old, err = shmem.AtomicCompareSwap(c, word, old, old+1, target); return err }},
		{"far/put_quiet", func() error {
			if err := shmem.P(c, word, 1, target); err != nil {
				return err
			}
			return c.Quiet()
		}},
	} {
		if err := m.repeated(r.name, r.op); err != nil {
			return err
		}
	}
	for _, s := range []struct {
		name string
		mask uint64 // of element numbers
	}{{"far/put_1M", 1<<20/8 - 1}, {"far/put_64M", 64<<20/8 - 1}} {
		if err := m.stream(s.name, x, s.mask); err != nil {
			return err
		}
	}
	const large = 1 << 20
	if !m.asked("far/put", large) {
		return nil
	}
	buf := make([]int64, large/8)
	for i := range buf {
		buf[i] = int64(i)
	}
	return m.fixed("far/put", large, largePuts, func(n int) error {
		for range n {
			if err := shmem.Put(c, x.Slice(0, len(buf)), buf, target); err != nil {
				return err
			}
		}
		return c.Quiet()
	})
}

// repeated measures an operation of 8 bytes.
func (m *meter) repeated(name string, op func() error) error {
	return m.row(name, 8, func(n int) error {
		for range n {
			if err := op(); err != nil {
				return err
			}
		}
		return nil
	})
}

// stream measures puts of 8 bytes to elements in a random order, which wire.c has, too.
func (m *meter) stream(name string, x shmem.Sym[int64], mask uint64) error {
	if !m.asked(name, 8) {
		return nil
	}
	random := uint64(1)
	return m.fixed(name, 8, streamPuts, func(n int) error {
		for i := range n {
			random = random*6364136223846793005 + 1442695040888963407
			if err := shmem.P(m.c, x.At(int(random>>33&mask)), int64(i), target); err != nil {
				return err
			}
		}
		return m.c.Quiet()
	})
}

// nearRows measures operations on PE 1, which is on the same node, in a job of several nodes.
func (m *meter) nearRows(x shmem.Sym[int64]) error {
	c, word := m.c, x.At(0)
	one := []int64{1}
	for _, r := range []struct {
		name string
		op   func(n int) error
	}{
		{"far/near_p", func(n int) error {
			for i := range n {
				if err := shmem.P(c, word, int64(i), target); err != nil {
					return err
				}
			}
			return nil
		}},
		{"far/near_put", func(n int) error {
			for range n {
				if err := shmem.Put(c, word, one, target); err != nil {
					return err
				}
			}
			return nil
		}},
		{"far/near_put_quiet", func(n int) error {
			for range n {
				if err := shmem.Put(c, word, one, target); err != nil {
					return err
				}
				if err := c.Quiet(); err != nil {
					return err
				}
			}
			return nil
		}},
		{"far/near_g", func(n int) error {
			var sum int64
			for range n {
				v, err := shmem.G(c, word, target)
				if err != nil {
					return err
				}
				sum += v
			}
			sink += sum
			return nil
		}},
		{"far/near_get", func(n int) error {
			for range n {
				if err := shmem.Get(c, one, word, target); err != nil {
					return err
				}
			}
			return nil
		}},
		{"far/near_fetch_add", func(n int) error {
			var sum int64
			for range n {
				v, err := shmem.AtomicFetchAdd(c, word, 3, target)
				if err != nil {
					return err
				}
				sum += v
			}
			sink += sum
			return nil
		}},
	} {
		if err := m.row(r.name, 8, r.op); err != nil {
			return err
		}
	}
	return nil
}
