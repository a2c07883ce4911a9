package perftest

import (
	"errors"
	"fmt"

	"github.com/goshmem/goshmem/shmem"
)

// atomic is one atomic operation: what it does in step i to the word of a PE, and what the word holds after n steps from
// zero on.
type atomic struct {
	name  string
	do    func(c *shmem.Ctx, x shmem.Sym[int64], i int64, pe int) error
	after func(n int64) int64
}

// The words that steps end with.
func count(n int64) int64  { return n }
func last(n int64) int64   { return n - 1 }
func double(n int64) int64 { return 2 * n }

// atomics are all atomic operations.
var atomics = []atomic{
	{"shmem_fadd", func(c *shmem.Ctx, x shmem.Sym[int64], _ int64, pe int) error {
		_, err := shmem.AtomicFetchAdd(c, x, 2, pe)
		return err
	}, double},
	{"shmem_finc", func(c *shmem.Ctx, x shmem.Sym[int64], _ int64, pe int) error {
		_, err := shmem.AtomicFetchInc(c, x, pe)
		return err
	}, count},
	{"shmem_add", func(c *shmem.Ctx, x shmem.Sym[int64], _ int64, pe int) error { return shmem.AtomicAdd(c, x, 2, pe) }, double},
	{"shmem_inc", func(c *shmem.Ctx, x shmem.Sym[int64], _ int64, pe int) error { return shmem.AtomicInc(c, x, pe) }, count},
	{"shmem_cswap", func(c *shmem.Ctx, x shmem.Sym[int64], i int64, pe int) error {
		_, err := shmem.AtomicCompareSwap(c, x, max(i-1, 0), i, pe)
		return err
	}, last},
	{"shmem_swap", func(c *shmem.Ctx, x shmem.Sym[int64], i int64, pe int) error {
		_, err := shmem.AtomicSwap(c, x, i, pe)
		return err
	}, last},
	{"shmem_set", func(c *shmem.Ctx, x shmem.Sym[int64], i int64, pe int) error { return shmem.AtomicSet(c, x, i, pe) }, last},
	{"shmem_fetch", func(c *shmem.Ctx, x shmem.Sym[int64], _ int64, pe int) error {
		_, err := shmem.AtomicFetch(c, x, pe)
		return err
	}, func(int64) int64 { return 0 }},
}

// atomics measures each atomic operation of PE 0 on a word of the target.
func (b *bench) atomics(t *test) error {
	x, err := shmem.Calloc[int64](b.w, 1)
	if err != nil {
		return err
	}
	steps, err := shmem.Calloc[int64](b.w, 1)
	if err != nil {
		return err
	}
	for i := range atomics {
		if err := b.measureAtomic(t, &atomics[i], x, steps); err != nil {
			return fmt.Errorf("%s: %w", atomics[i].name, err)
		}
	}
	return errors.Join(shmem.Free(b.w, steps), shmem.Free(b.w, x))
}

// measureAtomic measures one of them. The target gets the number of its steps.
func (b *bench) measureAtomic(t *test, a *atomic, x, steps shmem.Sym[int64]) error {
	x.Local()[0] = 0
	if err := b.w.Barrier(); err != nil {
		return err
	}
	if b.me == 0 {
		step := int64(0)
		us, iterations, err := b.timed(8, func(n int) error {
			for range n {
				if err := a.do(b.c, x, step, b.target); err != nil {
					return err
				}
				step++
			}
			return nil
		})
		if err == nil {
			err = shmem.P(b.c, steps, step, b.target)
		}
		if err == nil {
			err = b.emit(t, Row{Op: a.name, Iterations: iterations, AvgUS: us, PerS: 1e6 / us})
		}
		if err != nil {
			return err
		}
	}
	if err := b.w.Barrier(); err != nil {
		return err
	}
	wrong := 0
	if b.me == b.target && x.Local()[0] != a.after(steps.Local()[0]) {
		wrong = 8
	}
	return b.validate(8, wrong)
}
