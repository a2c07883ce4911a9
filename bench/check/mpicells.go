package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goshmem/goshmem/bench"
)

// cell is a row of check mpi: an operation among a number of ranks.
type cell struct {
	name    string
	ranks   int
	bytes   int
	n       int // operations of a batch
	batches int
}

func (c cell) row() string { return bench.Record{Name: c.name, PEs: c.ranks, Bytes: c.bytes}.Row() }

// unit returns the unit of the row, and what a time in ns is in it.
func (c cell) unit() (name string, of func(ns float64) float64) {
	const window = 64
	switch c.name {
	case "latency":
		return "us one way", func(ns float64) float64 { return ns / 2e3 }
	case "bw":
		return "MB/s", func(ns float64) float64 { return float64(window*c.bytes) * 1e3 / ns }
	case "bibw":
		return "MB/s", func(ns float64) float64 { return float64(2*window*c.bytes) * 1e3 / ns }
	case "rate":
		return "M messages/s", func(ns float64) float64 { return float64(window*(c.ranks/2)) * 1e3 / ns }
	}
	return "us", func(ns float64) float64 { return ns / 1e3 }
}

// cells returns the rows that are selected among a number of ranks.
func (o *mpiOptions) cells(ranks int) (all []cell) {
	add := func(name string, sizes ...int) {
		for _, s := range sizes {
			if c := (cell{name: name, ranks: ranks, bytes: s}); o.rows.MatchString(c.row()) {
				all = append(all, c)
			}
		}
	}
	if ranks == 2 {
		for _, name := range []string{"latency", "bw", "bibw"} {
			add(name, o.sizes...)
		}
	}
	add("rate", 8)
	add("barrier", 0)
	names := []string{"bcast", "reduce", "allreduce", "reduce_scatter_block", "gather", "allgather", "scatter", "alltoall", "scan", "exscan"}
	if o.vectors {
		names = append(names, "gatherv", "allgatherv", "scatterv", "alltoallv", "reduce_scatter")
	}
	for _, name := range names {
		add(name, o.sizes...)
	}
	return all
}

// mpiBed runs the jobs of check mpi.
type mpiBed struct {
	bed    *bed
	o      *mpiOptions
	report *mpiReport
	sides  []side
	cells  []cell
	target time.Duration // of a row in the first run
	values map[string]map[string][]sampled
	slow   map[string]map[string]cell // rows of sides that make fewer operations than the others
	failed []error
}

// sampled is what a side has measured of a row in a round; zero: nothing.
type sampled struct{ median, least float64 }

const (
	// calibrations is the number of batches in the first run.
	calibrations = 4
	// A row has at most mostBatches batches of the wanted length, and at least leastBatches.
	mostBatches, leastBatches = 20, 3
	// A batch of the slowest side is at most so many times as long as wanted, if it has several operations.
	longestBatch = 5
	// A side that takes so many times as long as the fastest one makes fewer operations.
	slowSide = 20
	// rowsLimit is the longest time of a job.
	rowsLimit = 2 * time.Minute
)

// measure finds the operations of all rows, and then measures all rounds.
func (m *mpiBed) measure(ctx context.Context) error {
	m.values, m.slow = map[string]map[string][]sampled{}, map[string]map[string]cell{}
	for i := range m.cells {
		m.cells[i].batches = calibrations
	}
	fmt.Fprintln(m.bed.log, "check: finding the numbers of operations")
	if err := m.round(ctx, 0); err != nil {
		return err
	}
	for i := range m.cells {
		m.choose(&m.cells[i])
	}
	m.values = map[string]map[string][]sampled{}
	for i := range m.o.rounds {
		fmt.Fprintf(m.bed.log, "check: round %d of %d\n", i+1, m.o.rounds)
		if err := m.round(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// choose sets the operations and batches of a row, by the geometric mean of the times of the sides that are not slow.
func (m *mpiBed) choose(c *cell) {
	fastest := math.Inf(1)
	for _, s := range m.sides {
		for _, v := range m.values[s.name()][c.row()] {
			fastest = min(fastest, v.median)
		}
	}
	var logs, slowest, sides float64
	for _, s := range m.sides {
		for _, v := range m.values[s.name()][c.row()] {
			if v.median <= slowSide*fastest {
				logs, slowest, sides = logs+math.Log(v.median), max(slowest, v.median), sides+1
				continue
			}
			few := *c
			m.count(&few, v.median, v.median)
			if m.slow[s.name()] == nil {
				m.slow[s.name()] = map[string]cell{}
			}
			m.slow[s.name()][c.row()] = few
		}
	}
	c.n, c.batches = 1, leastBatches
	if sides > 0 {
		m.count(c, math.Exp(logs/sides), slowest)
	}
}

// count sets the operations and batches of a row that takes so long.
func (m *mpiBed) count(c *cell, typical, slowest float64) {
	wanted := float64(m.o.batch)
	c.n = max(1, int(min(wanted/typical, longestBatch*wanted/slowest)))
	c.batches = max(leastBatches, min(mostBatches, int(mostBatches*wanted/(typical*float64(c.n)))))
}

// round runs all sides once for each number of ranks, in random order.
func (m *mpiBed) round(ctx context.Context, number int) error {
	for _, ranks := range m.o.ranks {
		for _, i := range rand.Perm(len(m.sides)) {
			if err := m.job(ctx, m.sides[i], ranks, number); err != nil {
				return err
			}
		}
	}
	return nil
}

// job runs one side among a number of ranks. A job that fails has no values.
func (m *mpiBed) job(ctx context.Context, s side, ranks, number int) error {
	var plan strings.Builder
	for _, c := range m.cells {
		if c.ranks == ranks {
			if few, slow := m.slow[s.name()][c.row()]; slow && c.n > 0 {
				c = few
			}
			fmt.Fprintln(&plan, c.name, c.bytes, c.n, c.batches)
		}
	}
	if plan.Len() == 0 {
		return nil
	}
	name := filepath.Join(m.bed.dir, "plan")
	if err := os.WriteFile(name, []byte(plan.String()), 0o600); err != nil {
		return err
	}
	out, err := m.bed.output(ctx, rowsLimit, "", s.launch(ranks, name)...)
	grace := orphanGrace
	if err != nil {
		grace = 0
	}
	left, endErr := endOrphans(grace)
	if err == nil && left > 0 {
		err = fmt.Errorf("%s with %d ranks left %d processes, want none; they were killed", s.name(), ranks, left)
	}
	if err = errors.Join(err, endErr, ctx.Err()); ctx.Err() != nil {
		return err
	}
	records, readErr := bench.Read(bytes.NewReader(out))
	if err = errors.Join(err, readErr); err != nil {
		fmt.Fprintln(m.bed.log, "check:", err)
		m.failed = append(m.failed, err)
		return nil
	}
	for _, r := range records {
		m.add(s.name(), r.Row(), number, sampled{r.Nanos, r.Least})
	}
	return nil
}

// add keeps a value of a round.
func (m *mpiBed) add(who, row string, round int, v sampled) {
	if m.values[who] == nil {
		m.values[who] = map[string][]sampled{}
	}
	all := m.values[who][row]
	for len(all) <= round {
		all = append(all, sampled{})
	}
	all[round], m.values[who][row] = v, all
}

// profiles runs goshmem again for each row that is behind, with a CPU profile of each rank.
func (m *mpiBed) profiles(ctx context.Context) error {
	saved := m.cells
	defer func() { m.cells = saved }()
	for _, c := range saved {
		for _, s := range m.sides {
			if s.who != goshmem || !m.report.isBehind(c.row(), s.memory, m.o.behind) {
				continue
			}
			to := filepath.Join(m.o.profile, strings.ReplaceAll(c.row(), "/", "-")+"-"+s.memory)
			fmt.Fprintln(m.bed.log, "check: profile", to)
			if err := os.MkdirAll(to, 0o755); err != nil {
				return err
			}
			c.batches *= 1 + int(time.Second/(mostBatches*m.o.batch))
			m.cells = []cell{c}
			profiled := side{s.who, s.memory, func(n int, plan string) []string {
				return slices.Insert(s.launch(n, plan), 1, "--pprof", to)
			}}
			if err := m.job(ctx, profiled, c.ranks, m.o.rounds); err != nil {
				return err
			}
		}
	}
	return nil
}
