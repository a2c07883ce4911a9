package perftest

import (
	"github.com/goshmem/goshmem/shmem"
)

// pair has the buffers of a test between PEs, cut to the size of a message.
type pair struct {
	x   shmem.Sym[byte] // symmetric
	buf []byte          // private
}

// withPair runs body for each size, with buffers of that size.
func (b *bench) withPair(t *test, unit int, body func(p pair, bytes int) error) error {
	sizes := b.sizes(t, unit)
	if len(sizes) == 0 {
		return nil
	}
	most := sizes[len(sizes)-1]
	x, err := shmem.Calloc[byte](b.w, most)
	if err != nil {
		return err
	}
	buf := make([]byte, most)
	for _, n := range sizes {
		if err := body(pair{x.Slice(0, n), buf[:n]}, n); err != nil {
			return err
		}
	}
	return shmem.Free(b.w, x)
}

// oneSided measures f on PE 0, which does something n times with a number of messages each time. The
// other PEs wait at a barrier. What arrives is checked at the target for puts, and in PE 0's buffer
// for gets.
func (b *bench) oneSided(t *test, isGet bool, messages int, f func(p pair, n int) error) error {
	return b.withPair(t, 1, func(p pair, bytes int) error {
		p.prepare(b.me, isGet)
		if err := b.w.Barrier(); err != nil {
			return err
		}
		if b.me == 0 {
			if err := b.measureRow(t, p, messages, f); err != nil {
				return err
			}
		}
		if err := b.w.Barrier(); err != nil {
			return err
		}
		return b.validate(bytes, p.countWrong(b.me, b.target, isGet))
	})
}

// prepare fills the source and clears the destination.
func (p pair) prepare(me int, isGet bool) {
	source, dest := p.buf, p.x.Local()
	if isGet {
		source, dest = dest, source
	}
	fill(source, me)
	clear(dest)
}

// countWrong counts the bytes that did not arrive.
func (p pair) countWrong(me, target int, isGet bool) int {
	switch {
	case isGet && me == 0:
		return countWrong(p.buf, len(p.buf), target)
	case !isGet && me == target:
		return countWrong(p.x.Local(), len(p.buf), 0)
	default:
		return 0
	}
}

// measureRow measures f and emits its row.
func (b *bench) measureRow(t *test, p pair, messages int, f func(p pair, n int) error) error {
	us, count, err := b.timed(len(p.buf), func(n int) error { return f(p, n) })
	if err != nil {
		return err
	}
	us /= float64(messages)
	return b.emit(t, Row{
		Bytes: len(p.buf), Iterations: count, AvgUS: us, MBPerS: float64(len(p.buf)) / us, PerS: 1e6 / us,
	})
}

// put measures a put and its completion.
func (b *bench) put(t *test) error {
	return b.oneSided(t, false, 1, func(p pair, n int) error {
		for range n {
			if err := shmem.Put(b.c, p.x, p.buf, b.target); err != nil {
				return err
			}
			if err := b.c.Quiet(); err != nil {
				return err
			}
		}
		return nil
	})
}

// putNBI measures a non-blocking put and its completion.
func (b *bench) putNBI(t *test) error {
	return b.oneSided(t, false, 1, func(p pair, n int) error { return b.putWindow(p, n, 1, b.target) })
}

// putBW measures windows of non-blocking puts.
func (b *bench) putBW(t *test) error {
	return b.oneSided(t, false, b.o.Window, func(p pair, n int) error { return b.putWindow(p, n, b.o.Window, b.target) })
}

// putWindow puts and completes a window of messages, n times.
func (b *bench) putWindow(p pair, n, window, to int) error {
	for range n {
		for range window {
			if err := shmem.PutNBI(b.c, p.x, p.buf, to); err != nil {
				return err
			}
		}
		if err := b.c.Quiet(); err != nil {
			return err
		}
	}
	return nil
}

// get measures a get.
func (b *bench) get(t *test) error {
	return b.oneSided(t, true, 1, func(p pair, n int) error {
		for range n {
			if err := shmem.Get(b.c, p.buf, p.x, b.target); err != nil {
				return err
			}
		}
		return nil
	})
}

// getNBI measures a non-blocking get and its completion.
func (b *bench) getNBI(t *test) error {
	return b.oneSided(t, true, 1, func(p pair, n int) error { return b.getWindow(p, n, 1) })
}

// getBW measures windows of non-blocking gets.
func (b *bench) getBW(t *test) error {
	return b.oneSided(t, true, b.o.Window, func(p pair, n int) error { return b.getWindow(p, n, b.o.Window) })
}

// getWindow gets and completes a window of messages, n times.
func (b *bench) getWindow(p pair, n, window int) error {
	for range n {
		for range window {
			if _, err := shmem.GetNBI(b.c, p.buf, p.x, b.target); err != nil {
				return err
			}
		}
		if err := b.c.Quiet(); err != nil {
			return err
		}
	}
	return nil
}

// messageRate measures puts of half of the PEs to the other half, all at once. The figures are sums over the pairs.
func (b *bench) messageRate(t *test) error {
	to, from := b.pairUp()
	return b.withPair(t, 1, func(p pair, bytes int) error {
		p.prepare(b.me, false)
		if err := b.w.Barrier(); err != nil {
			return err
		}
		mine, count := 0.0, 0 // PE 0 is one of those that put
		if to[b.me] >= 0 {
			us, n, err := b.timed(bytes, func(n int) error { return b.putWindow(p, n, b.o.Window, to[b.me]) })
			if err != nil {
				return err
			}
			mine, count = us/float64(b.o.Window), n
		}
		all, err := b.gather(mine)
		if err != nil {
			return err
		}
		perS := 0.0
		for pe, us := range all {
			if to[pe] >= 0 {
				perS += 1e6 / us
			}
		}
		r := Row{Bytes: bytes, Iterations: count, AvgUS: 1e6 / perS, PerS: perS, MBPerS: perS * float64(bytes) / 1e6}
		if err := b.emit(t, r); err != nil {
			return err
		}
		wrong := 0
		if from[b.me] >= 0 {
			wrong = countWrong(p.x.Local(), bytes, from[b.me])
		}
		return b.validate(bytes, wrong)
	})
}

// pingPong bounces a message between two PEs: a word that the receiver waits for, or a larger
// message with a signal behind it.
func (b *bench) pingPong(t *test) error {
	word, err := shmem.Calloc[uint64](b.w, 1)
	if err != nil {
		return err
	}
	turn := uint64(0) // the same on both, from size to size
	err = b.withPair(t, 8, func(p pair, bytes int) error {
		p.prepare(b.me, false)
		if err := b.w.Barrier(); err != nil {
			return err
		}
		other := b.target - b.me // the pair is PE 0 and the target
		send := func() error { return shmem.PutSignal(b.c, p.x, p.buf, word, turn, shmem.SignalSet, other) }
		if bytes == 8 {
			send = func() error { return shmem.P(b.c, word, turn, other) }
		}
		bounce := func(n int) error {
			for range n {
				turn++
				if b.me == 0 {
					if err := send(); err != nil {
						return err
					}
				}
				if err := shmem.WaitUntil(b.c, word, shmem.GE, turn); err != nil {
					return err
				}
				if b.me == b.target {
					if err := send(); err != nil {
						return err
					}
				}
			}
			return nil
		}
		wrong := 0
		if b.me == 0 || b.me == b.target {
			us, count, err := b.timed(bytes, bounce, b.target)
			if err == nil {
				err = b.emit(t, Row{Bytes: bytes, Iterations: count, AvgUS: us / 2})
			}
			if err != nil {
				return err
			}
			if bytes > 8 {
				wrong = countWrong(p.x.Local(), bytes, other)
			}
		}
		if err := b.w.Barrier(); err != nil {
			return err
		}
		return b.validate(bytes, wrong)
	})
	if err != nil {
		return err
	}
	return shmem.Free(b.w, word)
}
