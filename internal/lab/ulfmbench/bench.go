package ulfmbench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/goshmem/goshmem/internal/lab/measure"
)

// Names of cases.
const (
	Agree   = "agree"
	Iagree  = "iagree"
	Shrink  = "shrink"
	Ishrink = "ishrink"
	Revoke  = "revoke"
	Barrier = "barrier"
	RecvAny = "recvany"
	Respawn = "respawn"
)

// Cases lists the names of all cases.
var Cases = []string{Agree, Iagree, Shrink, Ishrink, Revoke, Barrier, RecvAny, Respawn}

// Options are the options of a measurement.
type Options struct {
	Cases   []string // some of Cases
	Sizes   []int    // numbers of ranks
	Dead    []int    // numbers of dead ranks of agree to ishrink; those above half of a size are left out for it
	Nodes   int      // emulated nodes; 1: none is emulated
	Jobs    int      // jobs of each cell
	Samples int      // batches, or revocations of each kind, in a job
	Calls   int      // calls in a batch
	Seed    uint64

	Progress func(done, all int) // called for each job; nil: no call
	Program  string              // name under which oshrun runs Main
}

const (
	maxRanks   = 256
	maxNodes   = 64 // as many as --emulate starts
	maxJobs    = 1000
	maxSamples = 10000
	maxCalls   = 100000
)

// Defaults returns the default options.
func Defaults() Options {
	return Options{Cases: slices.Clone(Cases), Sizes: []int{2, 4, 8}, Dead: []int{0, 1}, Nodes: 1, Jobs: 3, Samples: 10, Calls: 20}
}

// Check checks the options.
func (o *Options) Check() error {
	if err := measure.FirstError(
		measure.CheckWords("--cases", o.Cases, Cases),
		measure.CheckNumbers("--sizes", o.Sizes, 2, maxRanks, "ranks"),
		measure.CheckNumbers("--dead", o.Dead, 0, maxRanks/2, "ranks: half of them at most"),
		measure.CheckNumber("--nodes", o.Nodes, 1, maxNodes, "nodes"),
		measure.CheckNumber("--jobs", o.Jobs, 1, maxJobs, "jobs of each kind"),
		measure.CheckNumber("--samples", o.Samples, 1, maxSamples, "samples in a job"),
		measure.CheckNumber("--calls", o.Calls, 1, maxCalls, "calls in a sample"),
	); err != nil {
		return err
	}
	if least := slices.Min(o.Sizes); least < o.Nodes {
		return fmt.Errorf("--sizes: %d ranks on %d nodes, want a rank on each node", least, o.Nodes)
	}
	if len(o.cells()) == 0 {
		return fmt.Errorf("--dead: %v is more than half of all of --sizes %v, want 0 or half of a size at most", o.Dead, o.Sizes)
	}
	return nil
}

// cell is a case with a number of ranks, of which some die.
type cell struct {
	name        string // the case
	ranks, dead int
}

// String returns the cell as errors name it.
func (c cell) String() string { return fmt.Sprintf("%s, %d ranks, %d dead", c.name, c.ranks, c.dead) }

// makesCalls says whether the case measures batches of calls.
func (c cell) makesCalls() bool { return c.name != Revoke && !c.awaitsDeath() }

// awaitsDeath says whether the case measures when survivors learn of a death.
func (c cell) awaitsDeath() bool {
	return c.name == Barrier || c.name == RecvAny || c.name == Respawn
}

// cells returns all cells, each once: in the order of Cases, then ascending.
func (o *Options) cells() (list []cell) {
	for _, name := range Cases {
		if !slices.Contains(o.Cases, name) {
			continue
		}
		for _, n := range ascending(o.Sizes) {
			for _, d := range o.deadOf(name) {
				if d <= n/2 {
					list = append(list, cell{name, n, d})
				}
			}
		}
	}
	return list
}

// deadOf returns the numbers of dead ranks of a case, ascending.
func (o *Options) deadOf(name string) []int {
	switch c := (cell{name: name}); {
	case c.awaitsDeath():
		return []int{1}
	case c.makesCalls():
		return ascending(o.Dead)
	}
	return []int{0}
}

// ascending returns the different numbers of a list.
func ascending(list []int) []int { return slices.Compact(slices.Sorted(slices.Values(list))) }

// plan returns what the ranks of a cell's job do. Its victims are drawn anew for each job. Rank 0 is none of them.
func (o *Options) plan(c cell, job int) plan {
	rng := rand.New(rand.NewPCG(o.Seed, uint64(slices.Index(Cases, c.name))<<48+uint64(c.ranks)<<40+uint64(c.dead)<<32+uint64(job)))
	dead := rng.Perm(c.ranks - 1)[:c.dead]
	for i := range dead {
		dead[i]++
	}
	slices.Sort(dead)
	return plan{Case: c.name, Samples: o.Samples, Calls: o.Calls, Seed: rng.Uint64(), Dead: dead}
}

// Measure measures all cells, in random order, and returns the report. It stops at the first job that ends in an
// unexpected way.
func Measure(ctx context.Context, o Options) (*Report, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	return o.measure(ctx, func(ctx context.Context, c cell, p plan) (*outcome, error) {
		return runJob(ctx, o.Program, o.Nodes, c, p)
	})
}

// runner runs a job of a cell.
type runner func(ctx context.Context, c cell, p plan) (*outcome, error)

func (o *Options) measure(ctx context.Context, run runner) (*Report, error) {
	r := &Report{
		Head:  measure.Head{Program: programName, Version: reportVersion, Seed: o.Seed},
		Nodes: o.Nodes, Jobs: o.Jobs, Samples: o.Samples, Calls: o.Calls, Machine: measure.MachineBefore(),
	}
	cells := o.cells()
	results := make([][]*Result, len(cells))
	for i, c := range cells {
		results[i] = newResults(c)
	}
	jobs := measure.Jobs{
		N: o.Jobs * len(cells), What: "jobs", Rand: rand.New(rand.NewPCG(o.Seed, 0)), Progress: o.Progress,
		Run: func(number int) error {
			i := number % len(cells)
			out, err := run(ctx, cells[i], o.plan(cells[i], number/len(cells)))
			if err != nil {
				return fmt.Errorf("%v: %w", cells[i], err)
			}
			for _, res := range results[i] {
				res.add(out)
			}
			return nil
		},
	}
	if err := jobs.RunAll(ctx); err != nil {
		return nil, err
	}
	r.Results = slices.Concat(results...)
	for _, res := range r.Results {
		res.fillSpreads()
	}
	r.NoteAfter()
	return r, nil
}
