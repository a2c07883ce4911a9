package detectfigures

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goshmem/goshmem/internal/lab/measure"
	"github.com/goshmem/goshmem/internal/lab/noise"
)

// Options say which figures are made, and how large.
type Options struct {
	Figures    []string // numbers of figures; empty: all
	Dir        string   // of the pictures; empty: none are drawn
	Doc        string   // a document whose tables are replaced; empty: none. Make only checks it
	Nodes      []int    // numbers of emulated nodes; figures of one number take the largest
	SimNodes   []int    // numbers of simulated nodes
	Periods    []time.Duration
	Accuracy   []time.Duration // periods of Figure 8
	Iterations int             // of each size in Figure 7
	Time       time.Duration   // of each size in a round of Figure 7, at least
	Samples    int             // failures of each emulated experiment
	SimSamples int
	SWIM       []string // reports of swimbench; empty: no rows of SWIM
	Seed       uint64
	Tiers      []string // allowed values of --watchdog
	Program    string   // name under which oshrun runs detectbench.Main
	Parallel   int      // simulated samples at a time

	Progress func(done, all int) // called for each emulated failure; nil: no call

	swimRows []*Row
}

// Defaults returns options that take a few minutes on two processors with nothing else to do.
func Defaults() Options {
	return Options{
		Nodes: []int{2, 4, 8}, SimNodes: []int{2, 4, 8, 16, 32, 64, 128, 256, 512, 1024},
		Periods:    []time.Duration{30 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond},
		Accuracy:   []time.Duration{time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond},
		Iterations: 100,
		Samples:    5, SimSamples: 30, Parallel: 1,
	}
}

const (
	mostEmulated  = 64 // as many as --emulate starts
	mostSimulated = 1 << 16
	mostSamples   = 100000
)

// checkTime checks the time of a size.
func checkTime(d time.Duration) error {
	if d < 0 || d > time.Hour {
		return fmt.Errorf("--time: %v, want 0s to 1h", d)
	}
	return nil
}

// Check checks the options, and reads the reports of swimbench.
func (o *Options) Check() error {
	if err := measure.FirstError(
		measure.CheckNumbers("--nodes", o.Nodes, 2, mostEmulated, "nodes: one fails and others learn of it"),
		measure.CheckNumbers("--sim-nodes", o.SimNodes, 2, mostSimulated, "simulated nodes"),
		measure.CheckNumber("--iterations", o.Iterations, 1, 1<<30, "iterations of each size"),
		checkTime(o.Time),
		measure.CheckNumber("--samples", o.Samples, 1, mostSamples, "failures"),
		measure.CheckNumber("--sim-samples", o.SimSamples, 1, mostSamples, "samples"),
	); err != nil {
		return err
	}
	if len(o.Periods) == 0 {
		return fmt.Errorf("--periods: nothing, want heartbeat periods such as 100ms")
	}
	for _, p := range slices.Concat(o.Periods, o.Accuracy) {
		if p < time.Millisecond || p > 10*time.Second {
			return fmt.Errorf("--periods: %v, want 1ms to 10s", p)
		}
	}
	for _, name := range o.Figures {
		if !slices.Contains(Names(), name) {
			return fmt.Errorf("--figure: %q, want some of %s", name, strings.Join(Names(), ", "))
		}
	}
	if o.Doc != "" {
		if err := o.checkDocument(); err != nil {
			return err
		}
	}
	o.swimRows = nil
	for _, name := range o.SWIM {
		rows, err := readSWIM(name)
		if err != nil {
			return err
		}
		o.swimRows = append(o.swimRows, rows...)
	}
	return nil
}

// specs returns the figures that are made.
func (o *Options) specs() (all []*spec) {
	for i := range specs {
		if len(o.Figures) == 0 || slices.Contains(o.Figures, specs[i].name) {
			all = append(all, &specs[i])
		}
	}
	return all
}

// Make makes the figures, draws their pictures and returns the report.
func Make(ctx context.Context, o Options) (*Report, error) {
	return o.make(ctx, runners{emulate: o.emulate, simulate: o.simulate, noise: o.measureNoise})
}

// runners do the experiments. Tests have others.
type runners struct {
	emulate  func(ctx context.Context, e *experiment, seed uint64) (*trial, error)
	simulate func(e *experiment, row *Row) error
	noise    func(ctx context.Context) (*noise.Report, error)
}

func (o *Options) make(ctx context.Context, run runners) (*Report, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	r := &Report{
		Head:    measure.Head{Program: programName, Version: reportVersion, Seed: o.Seed},
		Samples: o.Samples, SimSamples: o.SimSamples, Machine: measure.MachineBefore(),
	}
	rows := map[experiment][]*Row{}
	var order []experiment
	for _, s := range o.specs() {
		f := &Figure{Name: s.name, Title: s.title, Paper: s.paper, spec: s}
		r.Figures = append(r.Figures, f)
		for _, e := range s.experiments(o) {
			if rows[e] == nil {
				rows[e] = e.rows()
				order = append(order, e)
			}
			f.Rows = append(f.Rows, rows[e]...)
		}
	}
	if err := o.runAll(ctx, run, order, rows); err != nil {
		return nil, err
	}
	for _, f := range r.Figures {
		if f.Name != noiseFigure {
			continue
		}
		var err error
		if f.Noise, err = run.noise(ctx); err != nil {
			return nil, err
		}
	}
	r.NoteAfter()
	for _, f := range r.Figures {
		f.Rows = append(f.Rows, o.swimOf(f)...)
		if f.spec.fits {
			f.fit()
		}
	}
	return r, o.draw(r)
}

// runAll does all experiments and fills their rows.
func (o *Options) runAll(ctx context.Context, run runners, order []experiment, rows map[experiment][]*Row) error {
	var emulated []experiment
	for _, e := range order {
		if e.how == Emulated {
			emulated = append(emulated, e)
			continue
		}
		if err := run.simulate(&e, rows[e][0]); err != nil {
			return fmt.Errorf("simulate %s among %d nodes: %w", e.fails, e.nodes, err)
		}
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
	}
	trials := make([]trials, len(emulated))
	jobs := measure.Jobs{
		N: len(emulated) * o.Samples, What: "failures", Rand: rand.New(rand.NewPCG(o.Seed, 0)), Progress: o.Progress,
		Run: func(number int) error {
			i := number / o.Samples
			t, err := run.emulate(ctx, &emulated[i], o.Seed+uint64(number))
			trials[i].add(t, err)
			return nil
		},
	}
	if err := jobs.RunAll(ctx); err != nil {
		return err
	}
	for i := range emulated {
		trials[i].fill(rows[emulated[i]])
	}
	return nil
}

// draw draws the pictures of all figures that have points.
func (o *Options) draw(r *Report) error {
	if o.Dir == "" {
		return nil
	}
	if err := os.MkdirAll(o.Dir, 0o777); err != nil {
		return err
	}
	for _, f := range r.Figures {
		p := f.Picture()
		if len(p.Series) == 0 {
			continue
		}
		f.File = filepath.Join(o.Dir, "detect-figure-"+f.Name+".svg")
		if err := p.Write(f.File); err != nil {
			return err
		}
	}
	return nil
}
