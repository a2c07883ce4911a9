package perftest

import (
	"slices"
	"time"

	"github.com/goshmem/goshmem/shmem"
)

// gather returns on PE 0 the figures of all PEs, by PE; nothing on the others.
func (b *bench) gather(us float64) ([]float64, error) {
	if err := shmem.P(b.c, b.stats.At(b.me), us, 0); err != nil {
		return nil, err
	}
	if err := b.w.Barrier(); err != nil {
		return nil, err
	}
	var all []float64
	if b.me == 0 {
		all = slices.Clone(b.stats.Local())
	}
	return all, b.w.Barrier() // nobody writes the next figure before this one was read
}

// together measures a collective: each PE takes the time of its own calls, with
// a barrier between them that does not count.
func (b *bench) together(t *test, bytes int, f func() error) error {
	iterations, warmup := b.o.iterations(bytes)
	var sum time.Duration
	for i := range iterations + warmup {
		if err := b.w.Barrier(); err != nil {
			return err
		}
		begin := time.Now()
		if err := f(); err != nil {
			return err
		}
		if i >= warmup {
			sum += time.Since(begin)
		}
	}
	all, err := b.gather(float64(sum.Nanoseconds()) / 1e3 / float64(iterations))
	if err != nil || b.me != 0 {
		return err
	}
	avg := 0.0
	for _, us := range all {
		avg += us / float64(len(all))
	}
	return b.emit(t, Row{Bytes: bytes, Iterations: iterations, AvgUS: avg, MinUS: slices.Min(all), MaxUS: slices.Max(all)})
}

func (b *bench) barrier(t *test) error { return b.together(t, 0, b.w.Barrier) }

// withBuffers runs body for each size with a source and a destination, of as
// many times the size as is said.
func (b *bench) withBuffers(t *test, unit, srcs, dsts int, body func(dst, src shmem.Sym[byte], bytes int) error) error {
	sizes := b.sizes(t, unit)
	if len(sizes) == 0 {
		return nil
	}
	most := sizes[len(sizes)-1]
	src, err := shmem.Calloc[byte](b.w, srcs*most)
	if err != nil {
		return err
	}
	dst, err := shmem.Calloc[byte](b.w, dsts*most)
	if err != nil {
		return err
	}
	for _, n := range sizes {
		x, y := src.Slice(0, srcs*n), dst.Slice(0, dsts*n)
		for i := range srcs {
			fill(x.Local()[i*n:(i+1)*n], b.me+i)
		}
		clear(y.Local())
		if err := body(y, x, n); err != nil {
			return err
		}
	}
	if err := shmem.Free(b.w, dst); err != nil {
		return err
	}
	return shmem.Free(b.w, src)
}

func (b *bench) broadcast(t *test) error {
	return b.withBuffers(t, 1, 1, 1, func(dst, src shmem.Sym[byte], bytes int) error {
		if err := b.together(t, bytes, func() error { return shmem.Broadcast(b.w.Team(), dst, src, 0) }); err != nil {
			return err
		}
		return b.verdict(bytes, differ(dst.Local(), bytes, 0))
	})
}

func (b *bench) fcollect(t *test) error {
	return b.withBuffers(t, 1, 1, b.npes, func(dst, src shmem.Sym[byte], bytes int) error {
		if err := b.together(t, bytes, func() error { return shmem.FCollect(b.w.Team(), dst, src) }); err != nil {
			return err
		}
		return b.verdict(bytes, b.blocks(dst, bytes, func(from int) int { return from }))
	})
}

func (b *bench) alltoall(t *test) error {
	return b.withBuffers(t, 1, b.npes, b.npes, func(dst, src shmem.Sym[byte], bytes int) error {
		if err := b.together(t, bytes, func() error { return shmem.Alltoall(b.w.Team(), dst, src) }); err != nil {
			return err
		}
		return b.verdict(bytes, b.blocks(dst, bytes, func(from int) int { return from + b.me }))
	})
}

// blocks counts the wrong bytes of a result made of a block from each PE.
func (b *bench) blocks(dst shmem.Sym[byte], bytes int, seed func(from int) int) (wrong int) {
	for from := range b.npes {
		wrong += differ(dst.Local()[from*bytes:(from+1)*bytes], bytes, seed(from))
	}
	return wrong
}

func (b *bench) reduce(t *test) error {
	sizes := b.sizes(t, 4)
	if len(sizes) == 0 {
		return nil
	}
	most := sizes[len(sizes)-1] / 4
	src, err := shmem.Calloc[float32](b.w, most)
	if err != nil {
		return err
	}
	dst, err := shmem.Calloc[float32](b.w, most)
	if err != nil {
		return err
	}
	for i := range src.Local() {
		src.Local()[i] = float32(b.me + i%1000)
	}
	for _, bytes := range sizes {
		x, y := src.Slice(0, bytes/4), dst.Slice(0, bytes/4)
		clear(y.Local())
		if err := b.together(t, bytes, func() error { return shmem.Reduce(b.w.Team(), y, x, shmem.Sum[float32]) }); err != nil {
			return err
		}
		wrong := 0
		for i, v := range y.Local() {
			if v != float32(b.npes*(b.npes-1)/2+b.npes*(i%1000)) { // whole numbers, exact
				wrong += 4
			}
		}
		if err := b.verdict(bytes, wrong); err != nil {
			return err
		}
	}
	if err := shmem.Free(b.w, dst); err != nil {
		return err
	}
	return shmem.Free(b.w, src)
}
