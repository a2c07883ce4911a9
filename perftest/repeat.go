package perftest

import (
	"slices"
	"time"

	"github.com/goshmem/goshmem/shmem"
)

// With --time, the iterations of a size are repeated until that time has passed. The PE that measures
// decides it, and tells the PEs that take part.

// repeats is the state of repetitions on a PE.
type repeats struct {
	word  shmem.Sym[uint64] // the latest decision: number of decisions so far, times two, plus one to go on
	count uint64            // decisions so far
}

// again reports whether the iterations that began at a time are repeated. with are the PEs that do the same: they call again, too.
func (b *bench) again(begin time.Time, with []int) (bool, error) {
	if b.o.Time == 0 {
		return false, nil
	}
	r := &b.repeats
	if slices.Contains(with, b.me) {
		if err := shmem.WaitUntil(b.c, r.word, shmem.GE, 2*(r.count+1)); err != nil {
			return false, err
		}
		decision := r.word.Local()[0]
		r.count = decision / 2
		return decision%2 == 1, nil
	}
	more := time.Since(begin) < b.o.Time
	if len(with) == 0 { // it tells nobody, and so does not count
		return more, nil
	}
	decision := 2 * (r.count + 1)
	if more {
		decision++
	}
	for _, pe := range with {
		if err := shmem.P(b.c, r.word, decision, pe); err != nil {
			return false, err
		}
	}
	r.count++
	return more, nil
}

// timed calls f for the warm-up and then for the iterations of messages of a size, once or several times. It returns
// the time of one iteration in microseconds, and their number. with are the PEs that do the same with this one.
func (b *bench) timed(bytes int, f func(n int) error, with ...int) (us float64, iterations int, err error) {
	count, warmup := b.o.iterations(bytes)
	if warmup > 0 {
		if err := f(warmup); err != nil {
			return 0, 0, err
		}
	}
	var sum time.Duration
	for first, more := time.Now(), true; more; iterations += count {
		begin := time.Now()
		if err := f(count); err != nil {
			return 0, 0, err
		}
		sum += time.Since(begin)
		if more, err = b.again(first, with); err != nil {
			return 0, 0, err
		}
	}
	return float64(sum.Nanoseconds()) / 1e3 / float64(iterations), iterations, nil
}

// others returns all PEs but the first one.
func (b *bench) others() []int {
	var all []int
	for pe := 1; pe < b.npes; pe++ {
		all = append(all, pe)
	}
	return all
}
