package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"time"

	"github.com/goshmem/goshmem/bench"
	"github.com/goshmem/goshmem/shmem"
)

// meter measures rows; PE 0 prints them.
type meter struct {
	w       *shmem.World
	c       *shmem.Ctx
	me      int
	pes     int            // number of PEs in the name of a row; 0: the name has none
	rows    *regexp.Regexp // rows to measure
	batches int            // batches per row
	batch   time.Duration  // least length of a batch
	out     *json.Encoder

	flag shmem.Sym[int64] // on PE 1: number of the latest section that has ended
	done int64            // sections that have begun
	word shmem.Sym[int64] // for agree: the value sent, and the value received
}

// asked says whether -rows selects a row.
func (m *meter) asked(name string, bytes int) bool {
	return m.rows.MatchString(bench.Record{Name: name, PEs: m.pes, Bytes: bytes}.Row())
}

// row measures body on this PE alone, in batches of at least m.batch. body makes n operations.
func (m *meter) row(name string, bytes int, body func(n int) error) error {
	if !m.asked(name, bytes) {
		return nil
	}
	for n := 1; ; n *= 2 {
		t, err := timed(body, n)
		if err != nil {
			return err
		}
		if t >= m.batch {
			return m.fixed(name, bytes, n, body)
		}
	}
}

// all is row for operations of all PEs together. PE 0 decides the number of operations in a batch.
func (m *meter) all(name string, bytes int, body func(n int) error) error {
	if !m.asked(name, bytes) {
		return nil
	}
	n, err := m.operations(body)
	if err != nil {
		return err
	}
	return m.fixed(name, bytes, n, body)
}

// operations returns the number of operations in a batch, by PE 0's clock. It is even, because a message and its
// answer are two operations.
func (m *meter) operations(body func(n int) error) (int, error) {
	for n := 2; ; {
		t, err := timed(body, n)
		if err != nil {
			return 0, err
		}
		next := n
		if t < m.batch {
			next = 2 * n
		}
		if next, err = m.agree(next); err != nil || next == n {
			return n, err
		}
		n = next
	}
}

// warmUpTime is how long warmUp keeps all PEs busy before the first row.
const warmUpTime = 400 * time.Millisecond

// warmUp keeps all PEs busy until the kernel has spread them over the processors. The kernel starts and wakes a
// process on whatever processor is free at that moment. So warmUp comes after all work that takes some PEs longer
// than others, such as writing buffers: PEs that sleep meanwhile are placed anew.
func (m *meter) warmUp(d time.Duration) error {
	for start, more := time.Now(), 1; more == 1; {
		for range 100 {
			if err := m.w.Barrier(); err != nil {
				return err
			}
		}
		var err error
		if time.Since(start) >= d {
			more = 0
		}
		if more, err = m.agree(more); err != nil {
			return err
		}
	}
	return nil
}

// agree returns PE 0's value on all PEs.
func (m *meter) agree(v int) (int, error) {
	m.word.Local()[0] = int64(v)
	if err := shmem.Broadcast(m.w.Team(), m.word.Slice(1, 2), m.word.Slice(0, 1), 0); err != nil {
		return 0, err
	}
	return int(m.word.Local()[1]), nil
}

// fixed measures body in batches of n operations.
func (m *meter) fixed(name string, bytes, n int, body func(n int) error) error {
	each := make([]float64, m.batches)
	for i := range each {
		t, err := timed(body, n)
		if err != nil {
			return err
		}
		each[i] = float64(t.Nanoseconds()) / float64(n)
	}
	if m.me != 0 {
		return nil
	}
	slices.Sort(each)
	return m.out.Encode(bench.Record{Name: name, PEs: m.pes, Bytes: bytes, Nanos: each[len(each)/2]})
}

// timed returns how long n operations take.
func timed(body func(n int) error, n int) (time.Duration, error) {
	start := time.Now()
	err := body(n)
	return time.Since(start), err
}
