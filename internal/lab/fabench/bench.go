package fabench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/goshmem/goshmem/internal/lab/measure"
)

// Options are the options of a measurement.
type Options struct {
	Apps       []string // some of AppNames
	Cases      []string // some of CaseNames; nil: all, without Node where no nodes are emulated
	PEs        int
	Nodes      int // emulated nodes; 0: none is emulated
	Size       int // elements on a side; 0: each application's default
	Iterations int
	Samples    int           // runs of each case
	Timeout    time.Duration // for a job
	Seed       uint64

	Progress func(done, all int) // called for each run; nil: no call
	Program  string              // name under which oshrun runs Main
}

const (
	maxPEs        = 256
	maxNodes      = 64 // as many as --emulate starts
	maxSize       = 1000
	maxIterations = 1000000
	maxSamples    = 1000
	maxTimeout    = 24 * time.Hour
)

// Defaults returns the default options.
func Defaults() Options {
	return Options{Apps: AppNames(), PEs: 4, Iterations: 200, Samples: 3, Timeout: 2 * time.Minute}
}

// Check checks the options.
func (o *Options) Check() error {
	if err := measure.FirstError(
		measure.CheckWords("--apps", o.Apps, AppNames()),
		measure.CheckWords("--cases", o.caseNames(), CaseNames()),
		measure.CheckNumber("-n", o.PEs, 2, maxPEs, "ranks: some die and others go on"),
		measure.CheckNumber("--emulate", o.Nodes, 0, maxNodes, "nodes"),
		measure.CheckNumber("--iterations", o.Iterations, 4, maxIterations, "iterations"),
		measure.CheckNumber("--samples", o.Samples, 1, maxSamples, "runs of each case"),
	); err != nil {
		return err
	}
	if o.Size != 0 {
		if err := measure.CheckNumber("--size", o.Size, 2, maxSize, "elements on a side"); err != nil {
			return err
		}
	}
	for _, name := range o.Apps {
		if a := findApp(name); a.Check != nil {
			if err := a.Check(o.PEs, o.sizeOf(a)); err != nil {
				return err
			}
		}
	}
	switch {
	case o.Timeout <= 0 || o.Timeout > maxTimeout:
		return fmt.Errorf("--timeout: %v, want more than 0 and at most %v for a job", o.Timeout, maxTimeout)
	case o.Nodes > o.PEs:
		return fmt.Errorf("--emulate: %d nodes for %d ranks, want a rank on each node", o.Nodes, o.PEs)
	case slices.Contains(o.Cases, Node) && o.Nodes < 2:
		return fmt.Errorf("--cases: %q kills a whole node and others go on, want --emulate 2 or more", Node)
	case slices.Contains(o.Cases, First2) && o.PEs < 3:
		return fmt.Errorf("--cases: %q kills two of %d ranks, want -n 3 or more", First2, o.PEs)
	}
	return nil
}

// caseNames returns the names of the cases that are asked for.
func (o *Options) caseNames() []string {
	if o.Cases != nil {
		return o.Cases
	}
	return slices.DeleteFunc(CaseNames(), func(name string) bool { return name == Node && o.Nodes < 2 || name == First2 && o.PEs < 3 })
}

// sizeOf returns the elements on a side of an application.
func (o *Options) sizeOf(a *App) int {
	if o.Size == 0 {
		return a.Size
	}
	return o.Size
}

// cell is what is run again and again: a case of an application, or its restart.
type cell struct {
	app       *App
	c         *Case
	isRestart bool
}

// String returns the cell as errors name it.
func (l cell) String() string {
	if l.isRestart {
		return fmt.Sprintf("%s, %s, restart", l.app.Name, l.c.Name)
	}
	return fmt.Sprintf("%s, %s", l.app.Name, l.c.Name)
}

// restart returns the cell of a restart after the deaths of a case. Cases with the same deaths share it.
func (l cell) restart() cell {
	c := l.c
	if c.Name == FirstRebuild {
		c = findCase(First)
	}
	return cell{l.app, c, true}
}

// cells returns all cells, each once. FaultFree is among them: the others are compared with it.
func (o *Options) cells() (all []cell) {
	names := o.caseNames()
	for i := range Apps {
		if !slices.Contains(o.Apps, Apps[i].Name) {
			continue
		}
		for j := range Cases {
			l := cell{app: &Apps[i], c: &Cases[j]}
			if !slices.Contains(names, l.c.Name) && l.c.Name != FaultFree {
				continue
			}
			all = append(all, l)
			if again := l.restart(); l.c.hasDeaths() && !slices.Contains(all, again) {
				all = append(all, again)
			}
		}
	}
	return all
}

// runner runs a cell once.
type runner func(ctx context.Context, l cell) (*outcome, error)

// Measure runs all cells, in random order, and returns the report. It stops at the first run that ends in an unexpected way.
func Measure(ctx context.Context, o Options) (*Report, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	return o.measure(ctx, o.run)
}

func (o *Options) measure(ctx context.Context, run runner) (*Report, error) {
	r := &Report{
		Head: measure.Head{Program: programName, Version: reportVersion, Seed: o.Seed},
		PEs:  o.PEs, Nodes: max(o.Nodes, 1), Iterations: o.Iterations, Samples: o.Samples, Machine: measure.MachineBefore(),
	}
	cells := o.cells()
	outcomes := map[cell][]*outcome{}
	jobs := measure.Jobs{
		N: o.Samples * len(cells), What: "runs", Rand: rand.New(rand.NewPCG(o.Seed, 0)), Progress: o.Progress,
		Run: func(number int) error {
			l := cells[number%len(cells)]
			out, err := run(ctx, l)
			if err != nil {
				return fmt.Errorf("%v: %w", l, err)
			}
			outcomes[l] = append(outcomes[l], out)
			return nil
		},
	}
	if err := jobs.RunAll(ctx); err != nil {
		return nil, err
	}
	names := o.caseNames()
	for _, l := range cells {
		if !l.isRestart && slices.Contains(names, l.c.Name) {
			free := cell{app: l.app, c: findCase(FaultFree)}
			r.Cases = append(r.Cases, o.newResult(l, outcomes[l], outcomes[free], outcomes[l.restart()]))
		}
	}
	r.NoteAfter()
	return r, nil
}
