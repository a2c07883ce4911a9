package perftest

import (
	"slices"
	"time"

	"github.com/goshmem/goshmem/shmem"
)

// collectives are the tests of collectives.
type collectives struct{ *bench }

// collective adapts a method of collectives to test.run.
func collective(f func(collectives, *test) error) func(*bench, *test) error {
	return func(b *bench, t *test) error { return f(collectives{b}, t) }
}

// together measures a collective. Each PE takes the time of its own calls; the barriers between
// them do not count.
func (b collectives) together(t *test, bytes int, f func() error) error {
	count, warmup := b.o.iterations(bytes)
	if _, err := b.timeEach(warmup, f); err != nil {
		return err
	}
	var sum time.Duration
	iterations, others := 0, b.others()
	for first, more := time.Now(), true; more; iterations += count {
		d, err := b.timeEach(count, f)
		if err != nil {
			return err
		}
		sum += d
		if more, err = b.again(first, others); err != nil {
			return err
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

// timeEach calls f n times, after a barrier each, and returns the time of the calls.
func (b collectives) timeEach(n int, f func() error) (sum time.Duration, err error) {
	for range n {
		if err := b.w.Barrier(); err != nil {
			return 0, err
		}
		begin := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		sum += time.Since(begin)
	}
	return sum, nil
}

// barrier measures the barrier of all PEs.
func (b collectives) barrier(t *test) error { return b.together(t, 0, b.w.Barrier) }

// withBuffers runs body for each size with a source of srcs and a destination of dsts times the size.
func (b collectives) withBuffers(t *test, unit, srcs, dsts int, body func(dst, src shmem.Sym[byte], bytes int) error) error {
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

// broadcast measures a broadcast from PE 0.
func (b collectives) broadcast(t *test) error {
	return b.withBuffers(t, 1, 1, 1, func(dst, src shmem.Sym[byte], bytes int) error {
		if err := b.together(t, bytes, func() error { return shmem.Broadcast(b.w.Team(), dst, src, 0) }); err != nil {
			return err
		}
		return b.validate(bytes, countWrong(dst.Local(), bytes, 0))
	})
}

// fcollect measures a collect of parts whose size all PEs know.
func (b collectives) fcollect(t *test) error {
	return b.withBuffers(t, 1, 1, b.npes, func(dst, src shmem.Sym[byte], bytes int) error {
		if err := b.together(t, bytes, func() error { return shmem.FCollect(b.w.Team(), dst, src) }); err != nil {
			return err
		}
		return b.validate(bytes, b.countWrongBlocks(dst, bytes, func(from int) int { return from }))
	})
}

// alltoall measures an exchange of a block between any two PEs.
func (b collectives) alltoall(t *test) error {
	return b.withBuffers(t, 1, b.npes, b.npes, func(dst, src shmem.Sym[byte], bytes int) error {
		if err := b.together(t, bytes, func() error { return shmem.Alltoall(b.w.Team(), dst, src) }); err != nil {
			return err
		}
		return b.validate(bytes, b.countWrongBlocks(dst, bytes, func(from int) int { return from + b.me }))
	})
}

// countWrongBlocks counts the wrong bytes of a result made of a block from each PE.
func (b collectives) countWrongBlocks(dst shmem.Sym[byte], bytes int, seed func(from int) int) (wrong int) {
	for from := range b.npes {
		wrong += countWrong(dst.Local()[from*bytes:(from+1)*bytes], bytes, seed(from))
	}
	return wrong
}

// collect measures a collect of parts of one size. Unlike with fcollect, the PEs do not know that
// the sizes are equal.
func (b collectives) collect(t *test) error {
	return b.withBuffers(t, 1, 1, b.npes, func(dst, src shmem.Sym[byte], bytes int) error {
		if err := b.together(t, bytes, func() error { return shmem.Collect(b.w.Team(), dst, src) }); err != nil {
			return err
		}
		return b.validate(bytes, b.countWrongBlocks(dst, bytes, func(from int) int { return from }))
	})
}

// agreement measures an agreement on flags. Each PE clears one of them.
func (b collectives) agreement(t *test) error {
	want, wrong := ^uint64(0), 0
	for pe := range min(b.npes, 64) {
		want &^= 1 << pe
	}
	err := b.together(t, 0, func() error {
		got, err := b.w.Team().Agree(^(1 << b.me))
		if got != want {
			wrong = 8
		}
		return err
	})
	if err != nil {
		return err
	}
	return b.validate(8, wrong)
}

// numbers is a collective on 32-bit floats. They are whole numbers, so that sums are exact.
type numbers struct {
	copies int // length of the objects in multiples of the size
	call   func(dst, src shmem.Sym[float32]) error
	want   func(i, n int) float32 // element i of the result for a size of n elements
}

// sourceElement returns element i of a PE's source.
func sourceElement(pe, i int) float32 { return float32(pe + i%1000) }

// withNumbers measures x for each size.
func (b collectives) withNumbers(t *test, x numbers) error {
	sizes := b.sizes(t, 4)
	if len(sizes) == 0 {
		return nil
	}
	most := sizes[len(sizes)-1] / 4 * x.copies
	src, err := shmem.Calloc[float32](b.w, most)
	if err != nil {
		return err
	}
	dst, err := shmem.Calloc[float32](b.w, most)
	if err != nil {
		return err
	}
	for i := range src.Local() {
		src.Local()[i] = sourceElement(b.me, i)
	}
	for _, bytes := range sizes {
		n := bytes / 4
		from, to := src.Slice(0, n*x.copies), dst.Slice(0, n*x.copies)
		clear(to.Local())
		if err := b.together(t, bytes, func() error { return x.call(to, from) }); err != nil {
			return err
		}
		wrong := 0
		for i, v := range to.Local() {
			if v != x.want(i, n) {
				wrong += 4
			}
		}
		if err := b.validate(bytes, wrong); err != nil {
			return err
		}
	}
	if err := shmem.Free(b.w, dst); err != nil {
		return err
	}
	return shmem.Free(b.w, src)
}

// reduce measures a sum over all PEs.
func (b collectives) reduce(t *test) error {
	return b.withNumbers(t, numbers{1, func(dst, src shmem.Sym[float32]) error {
		return shmem.Reduce(b.w.Team(), dst, src, shmem.Sum)
	}, sumOf(b.npes)})
}

// sumOf returns the function that gives the elements of the sum of the first PEs' sources.
func sumOf(pes int) func(i, n int) float32 {
	return func(i, _ int) float32 { return float32(pes*(pes-1)/2 + pes*(i%1000)) }
}

// inScan measures inclusive sums.
func (b collectives) inScan(t *test) error {
	return b.withNumbers(t, numbers{1, func(dst, src shmem.Sym[float32]) error {
		return shmem.SumInScan(b.w.Team(), dst, src)
	}, sumOf(b.me + 1)})
}

// exScan measures exclusive sums.
func (b collectives) exScan(t *test) error {
	return b.withNumbers(t, numbers{1, func(dst, src shmem.Sym[float32]) error {
		return shmem.SumExScan(b.w.Team(), dst, src)
	}, sumOf(b.me)})
}

// alltoallS measures an exchange of every second element.
func (b collectives) alltoallS(t *test) error {
	const stride = 2
	return b.withNumbers(t, numbers{stride * b.npes, func(dst, src shmem.Sym[float32]) error {
		s := shmem.Stride{N: dst.Len() / b.npes / stride, Dst: stride, Src: stride}
		return shmem.AlltoallS(b.w.Team(), dst, src, s)
	}, func(i, n int) float32 {
		if i%stride != 0 {
			return 0
		}
		k := i / stride
		return sourceElement(k/n, (b.me*n+k%n)*stride)
	}})
}
