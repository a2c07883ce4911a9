package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"time"

	"github.com/goshmem/goshmem/bench"
	"github.com/goshmem/goshmem/shmem"
)

// meter measures on PE 0.
type meter struct {
	w       *shmem.World
	c       *shmem.Ctx
	me      int
	pes     int // number of PEs where it belongs to the name of a row
	rows    *regexp.Regexp
	batches int
	batch   time.Duration
	out     *json.Encoder

	flag shmem.Sym[int64] // of PE 1: the number of the latest section that ended
	done int64            // sections that ended
	word shmem.Sym[int64] // for agree: what is said, what is heard
}

// asked says whether a row is asked for.
func (m *meter) asked(name string, bytes int) bool {
	return m.rows.MatchString(bench.Record{Name: name, PEs: m.pes, Bytes: bytes}.Row())
}

// row measures body, which makes n operations, on this PE alone, in batches of
// at least m.batch.
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

// all is row for what all PEs do together: PE 0 finds out how many operations
// make a batch.
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

// operations returns how many operations make a batch, by PE 0's clock: an even number, as
// a message there and one back make two.
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

// settling is how long all PEs are kept busy before the first row.
const settling = 400 * time.Millisecond

// settle keeps all PEs busy for a while, until the system has spread them over
// its processors: it starts them wherever there is room at the moment. It comes behind
// everything that takes a PE longer than another, as to write its buffers does: those who
// fall asleep meanwhile are woken wherever there is room.
func (m *meter) settle(d time.Duration) error {
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

func timed(body func(n int) error, n int) (time.Duration, error) {
	start := time.Now()
	err := body(n)
	return time.Since(start), err
}
