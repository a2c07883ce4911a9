// Package noise finds out what watching for failures costs a program: it runs it
// with detection off and on in turns, and says how far apart the two are, how
// much the program varies by itself, and how small an effect it would have seen
// (Zhong et al., General Failure Detection and Propagation in HPC and Distributed Systems,
// sections 5.3 and 6, Figures 7 and 17 to 20).
package noise

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/goshmem/goshmem/internal/lab/rerun"
)

// Options say what is run and how often.
type Options struct {
	Program  []string // with its arguments, as oshrun takes it
	PEs      int
	Samples  int // pairs of runs; at least 2
	Warmup   int // pairs before those, which do not count
	Seed     uint64
	Watchdog string   // of the runs with detection; empty: the best
	Tiers    []string // what that may be
	Control  bool     // run a hog beside those

	Progress func(done, all int) // told about pairs; nil: nobody looks
}

// off is the word for no detection.
const off = "off"

// The hog takes this part of a processor.
const hogShare = 0.05

// Check refuses what cannot be run.
func (o *Options) Check() error {
	switch {
	case len(o.Program) == 0 || o.Program[0] == "":
		return errors.New("noise: no program, want one")
	case o.PEs < 1:
		return fmt.Errorf("-n: %d, want 1 or more PEs", o.PEs)
	case o.Samples < 2 || o.Samples > maxSamples:
		return fmt.Errorf("--samples: %d, want 2 to %d pairs of runs", o.Samples, maxSamples)
	case o.Warmup < 0 || o.Warmup > maxSamples:
		return fmt.Errorf("--warmup: %d, want 0 to %d pairs of runs", o.Warmup, maxSamples)
	case o.Watchdog != "" && !slices.Contains(o.Tiers, o.Watchdog):
		return fmt.Errorf("--watchdog: %q, want %s: what is to be compared with none", o.Watchdog, strings.Join(o.Tiers, ", "))
	}
	for _, a := range o.Program[1:] {
		if name, _, _ := strings.Cut(strings.TrimLeft(a, "-"), "="); o.own() != nil && strings.HasPrefix(a, "-") && name == "json" {
			return fmt.Errorf("%s %s: the figures are read from there, want no such flag; --json belongs before the program", o.Program[0], a)
		}
	}
	return nil
}

const maxSamples = 10000

// command is the command line of a run.
func (o *Options) command(watchdog string) []string {
	args := []string{"-n", fmt.Sprint(o.PEs)}
	if watchdog != "" {
		args = append(args, "--watchdog", watchdog)
	}
	args = append(append(args, "--"), o.Program...)
	if own := o.own(); own != nil {
		args = append(args, own.flags...)
	}
	return args
}

// runner makes a run and returns its figures.
type runner func(ctx context.Context, watchdog string) ([]Figure, error)

// Measure runs the program and returns the report. It stops at the first run
// that does not end well.
func Measure(ctx context.Context, o Options) (*Report, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	return o.measure(ctx, o.run)
}

func (o *Options) measure(ctx context.Context, run runner) (*Report, error) {
	r := newReport(o)
	rng := rand.New(rand.NewPCG(o.Seed, 0))
	var offs, ons [][]Figure
	for i := range o.Warmup + o.Samples {
		if o.Progress != nil {
			o.Progress(i, o.Warmup+o.Samples)
		}
		var a, b []Figure
		for _, on := range order(rng) {
			half := "off"
			var err error
			if on {
				half = "on"
				b, err = o.on(ctx, run, r)
			} else {
				a, err = run(ctx, off)
			}
			if cause := context.Cause(ctx); cause != nil {
				return nil, fmt.Errorf("in pair %d of %d: %w", i+1, o.Warmup+o.Samples, cause)
			}
			if err != nil {
				return nil, fmt.Errorf("pair %d of %d, detection %s: %w", i+1, o.Warmup+o.Samples, half, err)
			}
		}
		if i >= o.Warmup {
			offs, ons = append(offs, a), append(ons, b)
		}
	}
	if o.Progress != nil {
		o.Progress(o.Warmup+o.Samples, o.Warmup+o.Samples)
	}
	return r, r.evaluate(offs, ons)
}

// order says whether detection is on in the first and in the second run of a pair.
func order(rng *rand.Rand) []bool {
	pair := []bool{false, true}
	if rng.IntN(2) == 1 {
		slices.Reverse(pair)
	}
	return pair
}

// on makes a run with detection, and with the hog if it is the control.
func (o *Options) on(ctx context.Context, run runner, r *Report) ([]Figure, error) {
	if !o.Control {
		return run(ctx, o.Watchdog)
	}
	h := startHog(hogShare)
	defer h.end(r.Control)
	return run(ctx, o.Watchdog)
}

// run makes a real run.
func (o *Options) run(ctx context.Context, watchdog string) ([]Figure, error) {
	r, err := rerun.New(ctx, o.command(watchdog)...)
	if err != nil {
		return nil, err
	}
	var out output
	own := o.own()
	if own != nil {
		r.Stdout = &out
	}
	begin := time.Now()
	err = r.Run()
	wall := time.Since(begin)
	if err := r.Ended(err); err != nil {
		return nil, err
	}
	var figures []Figure
	if own != nil {
		if figures, err = own.read(out.Bytes()); err != nil {
			return nil, fmt.Errorf("%s: %w", o.Program[0], err)
		}
	}
	return append(figures, Figure{Name: "wall", Test: "wall", Unit: "s", Value: wall.Seconds(), aside: own != nil}), nil
}
