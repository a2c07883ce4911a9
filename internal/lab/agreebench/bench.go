package agreebench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/goshmem/goshmem/internal/lab/measure"
)

// Options are the options of a measurement.
type Options struct {
	Sizes      []int    // numbers of PEs
	Dead       []int    // numbers of dead PEs; those above half of a size are left out for it
	Algorithms []string // empty: all
	Who        string   // which PEs die: Inner or Random
	Jobs       int      // jobs of each cell
	Samples    int      // batches of each variant in each job
	Calls      int      // agreements in a batch
	Seed       uint64

	Progress func(done, all int) // called for each cell; nil: no call
	Program  string              // name under which oshrun runs Main
}

const (
	maxPEs     = 256
	maxJobs    = 1000
	maxSamples = 10000
	maxCalls   = 100000
)

// Defaults returns the default options.
func Defaults() Options {
	return Options{
		Sizes: []int{2, 4, 8, 16, 32}, Dead: []int{0, 1, 2, 4, 8, 16}, Algorithms: slices.Clone(Algorithms), Who: Inner,
		Jobs: 3, Samples: 10, Calls: 50,
	}
}

// Check checks the options.
func (o *Options) Check() error {
	if err := measure.FirstError(
		measure.CheckNumbers("--sizes", o.Sizes, 2, maxPEs, "PEs"),
		measure.CheckNumbers("--dead", o.Dead, 0, maxPEs/2, "PEs: half of them at most"),
		measure.CheckNumber("--jobs", o.Jobs, 1, maxJobs, "jobs of each kind"),
		measure.CheckNumber("--samples", o.Samples, 1, maxSamples, "batches"),
		measure.CheckNumber("--calls", o.Calls, 1, maxCalls, "agreements in a batch"),
	); err != nil {
		return err
	}
	if len(o.Algorithms) == 0 {
		return fmt.Errorf("--algorithms: none, want some of %v", Algorithms)
	}
	if err := measure.FirstError(
		measure.CheckWords("--who", []string{o.Who}, Victims),
		measure.CheckWords("--algorithms", o.Algorithms, Algorithms),
	); err != nil {
		return err
	}
	if len(o.cells()) == 0 {
		return fmt.Errorf("--dead: %v is more than half of all of --sizes %v, want 0 or half of a size at most", o.Dead, o.Sizes)
	}
	return nil
}

// cell is a number of PEs, of which some are dead.
type cell struct{ pes, dead int }

// cells returns all cells, ascending and each once.
func (o *Options) cells() (list []cell) {
	for _, n := range ascending(o.Sizes) {
		for _, d := range ascending(o.Dead) {
			if d <= n/2 {
				list = append(list, cell{n, d})
			}
		}
	}
	return list
}

// ascending returns the different numbers of a list.
func ascending(list []int) []int { return slices.Compact(slices.Sorted(slices.Values(list))) }

// plan returns what the PEs of a cell do.
func (o *Options) plan(c cell) plan {
	rng := rand.New(rand.NewPCG(o.Seed, uint64(c.pes)<<32+uint64(c.dead)))
	return plan{
		Variants: variantsOf(o.Algorithms, c.dead), Samples: o.Samples, Calls: o.Calls, Seed: o.Seed,
		Dead: victims(o.Who, c.pes, c.dead, rng),
	}
}

// Measure measures all cells, in random order, and returns the report. It stops at the first job that ends in an
// unexpected way.
func Measure(ctx context.Context, o Options) (*Report, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	return o.measure(ctx, func(ctx context.Context, c cell, p plan) (survivors, error) { return runJob(ctx, o.Program, c, p) })
}

// runner runs a job of a cell.
type runner func(ctx context.Context, c cell, p plan) (survivors, error)

func (o *Options) measure(ctx context.Context, run runner) (*Report, error) {
	r := &Report{
		Head: measure.Head{Program: programName, Version: reportVersion, Seed: o.Seed},
		Who:  o.Who, Jobs: o.Jobs, Samples: o.Samples, Calls: o.Calls, Machine: measure.MachineBefore(),
	}
	cells := o.cells()
	results := make([][]*Result, len(cells))
	for i, c := range cells {
		results[i] = newResults(c, o.plan(c))
	}
	jobs := measure.Jobs{
		N: o.Jobs * len(cells), What: "jobs", Rand: rand.New(rand.NewPCG(o.Seed, 0)), Progress: o.Progress,
		Run: func(number int) error {
			i := number % len(cells)
			p := o.plan(cells[i])
			s, err := run(ctx, cells[i], p)
			if err != nil {
				return fmt.Errorf("%d PEs, %d of them dead: %w", cells[i].pes, cells[i].dead, err)
			}
			for v, res := range results[i] {
				res.add(&p, s, v)
			}
			return nil
		},
	}
	if err := jobs.RunAll(ctx); err != nil {
		return nil, err
	}
	for _, cell := range results {
		fillSpreads(cell)
	}
	r.Results = slices.Concat(results...)
	r.NoteAfter()
	return r, nil
}
