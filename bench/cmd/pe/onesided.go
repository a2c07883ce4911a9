package main

import "github.com/goshmem/goshmem/shmem"

// sizes are elements of 8 bytes: 8 bytes to 1 MiB.
var sizes = []int{1, 8, 128, 512, 8192, 131072}

// transfers measures put and get while the target sleeps.
func (m *meter) transfers() error {
	x, err := shmem.Calloc[int64](m.w, sizes[len(sizes)-1])
	if err != nil {
		return err
	}
	one := x.At(0)
	err = m.section(nap, func() error {
		if err := m.scalars(one); err != nil {
			return err
		}
		for _, n := range sizes {
			if err := m.blocks(x.Slice(0, n), make([]int64, n)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return m.section(wait, func() error { return m.put("p_wait", one) })
}

// put measures P under a name.
func (m *meter) put(name string, x shmem.Sym[int64]) error {
	c := m.c
	return m.row(name, 8, func(n int) error {
		for i := range n {
			if err := shmem.P(c, x, int64(i), target); err != nil {
				return err
			}
		}
		return c.Quiet()
	})
}

// sink keeps what was read, so that no read is left out.
var sink int64

// scalars measures P and G.
func (m *meter) scalars(x shmem.Sym[int64]) error {
	c := m.c
	if err := m.put("p", x); err != nil {
		return err
	}
	err := m.row("p_quiet", 8, func(n int) error {
		for i := range n {
			if err := shmem.P(c, x, int64(i), target); err != nil {
				return err
			}
			if err := c.Quiet(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return m.row("g", 8, func(n int) error {
		var sum int64
		for range n {
			v, err := shmem.G(c, x, target)
			if err != nil {
				return err
			}
			sum += v
		}
		sink += sum
		return nil
	})
}

// blocks measures Put and Get of all of x.
func (m *meter) blocks(x shmem.Sym[int64], buf []int64) error {
	c, bytes := m.c, 8*len(buf)
	err := m.row("put", bytes, func(n int) error {
		for range n {
			if err := shmem.Put(c, x, buf, target); err != nil {
				return err
			}
		}
		return c.Quiet()
	})
	if err != nil {
		return err
	}
	err = m.row("put_quiet", bytes, func(n int) error {
		for range n {
			if err := shmem.Put(c, x, buf, target); err != nil {
				return err
			}
			if err := c.Quiet(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return m.row("get", bytes, func(n int) error {
		for range n {
			if err := shmem.Get(c, buf, x, target); err != nil {
				return err
			}
		}
		return nil
	})
}

// atomics measures the fetching add while the target sleeps, while it reads a
// word of another cache line and one of the same, and while it waits.
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
		name    string
		idle    func(*meter) error
		x, flag shmem.Sym[int64]
	}{
		{"fetch_add", nap, x, m.flag},
		{"fetch_add_spin", spin, x, m.flag},
		{"fetch_add_line", spin, pair.At(1), pair.At(0)},
		{"fetch_add_wait", wait, x, m.flag},
	} {
		m.flag = part.flag
		if err := m.section(part.idle, func() error { return m.fetchAdd(part.name, part.x) }); err != nil {
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
