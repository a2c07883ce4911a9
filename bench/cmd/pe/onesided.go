package main

import (
	"fmt"
	"time"

	"github.com/goshmem/goshmem/shmem"
)

// target is the PE that PE 0 accesses.
const target = 1

// rounds is the number of round trips in a batch of the ping-pong.
const rounds = 1000

// many is the number of operations in a set, which counts as one operation.
const many = 64

// sizes are numbers of elements of 8 bytes: 8 bytes to 4 MiB.
var sizes = []int{1, 8, 128, 512, 8192, 131072, 262144, 524288}

// oneSided measures one-sided operations between two PEs, and the ping-pong.
func (m *meter) oneSided() (err error) {
	if n := m.w.NPEs(); n != 2 {
		return fmt.Errorf("job of %d PEs, want 2: start it by oshrun -n 2 pe onesided", n)
	}
	if m.flag, err = shmem.Calloc[int64](m.w, 1); err != nil {
		return err
	}
	for _, part := range []func() error{m.transfers, m.atomics, m.pingPong} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// section runs rows on PE 0 while PE 1 runs idle, which ends when the rows are done.
func (m *meter) section(idle func(m *meter) error, rows func() error) error {
	m.done++
	if err := m.w.Barrier(); err != nil {
		return err
	}
	if m.me == target {
		return idle(m)
	}
	if err := rows(); err != nil {
		return err
	}
	if err := shmem.P(m.c, m.flag, m.done, target); err != nil {
		return err
	}
	return m.c.Quiet()
}

// nap sleeps until the rows are done, as a PE that waits for a disk would.
func nap(m *meter) error {
	for {
		over, err := shmem.Test(m.c, m.flag, shmem.GE, m.done)
		if over || err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// spin polls its flag until the rows are done.
func spin(m *meter) error {
	for {
		over, err := shmem.Test(m.c, m.flag, shmem.GE, m.done)
		if over || err != nil {
			return err
		}
	}
}

// wait waits for its flag in the library's wait function until the rows are done. The rows write other words.
func wait(m *meter) error { return shmem.WaitUntil(m.c, m.flag, shmem.GE, m.done) }

// transfers measures put and get while the target sleeps.
func (m *meter) transfers() error {
	x, err := shmem.Calloc[int64](m.w, sizes[len(sizes)-1], shmem.Align(4096))
	if err != nil {
		return err
	}
	one := x.At(0)
	buf := make([]int64, x.Len())
	for i := range buf {
		buf[i] = int64(i) // allocates the pages: pages that were only read share one page of zeros
	}
	err = m.section(nap, func() error {
		if err := m.scalars(one); err != nil {
			return err
		}
		for _, n := range sizes {
			if err := m.blocks(x.Slice(0, n), buf[:n]); err != nil {
				return err
			}
		}
		return m.sets(x, buf)
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

// sink keeps the values that were read, so that the compiler removes no read.
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

// sets measures sets of operations. A set is many operations on different elements and one Quiet; it counts as
// one operation.
func (m *meter) sets(x shmem.Sym[int64], buf []int64) error {
	c := m.c
	for _, set := range []struct {
		name string
		op   func(x shmem.Sym[int64], v []int64) error
	}{
		{"64_put_quiet", func(x shmem.Sym[int64], v []int64) error { return shmem.Put(c, x, v, target) }},
		{"64_put_nbi_quiet", func(x shmem.Sym[int64], v []int64) error { return shmem.PutNBI(c, x, v, target) }},
		{"64_get_nbi_quiet", func(x shmem.Sym[int64], v []int64) error {
			_, err := shmem.GetNBI(c, v, x, target)
			return err
		}},
	} {
		err := m.row(set.name, 8, func(n int) error {
			for range n {
				for k := range many {
					if err := set.op(x.At(k), buf[k:k+1]); err != nil {
						return err
					}
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
	}
	return nil
}

// pingPong measures P and WaitUntil in alternation. The result is the time of one way.
func (m *meter) pingPong() error {
	c := m.c
	word, err := shmem.Calloc[int64](m.w, 1)
	if err != nil || !m.asked("ping_pong", 8) {
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
