// Package noise measures the cost of failure detection for a program. It runs the program in pairs, with
// detection off and on in random order, and reports three things: the overhead, the natural variability of the
// program, and the smallest effect that the samples would have shown.
//
//   - Source: Zhong et al., General Failure Detection and Propagation in HPC and Distributed Systems,
//     sections 5.3 and 6, Figures 7 and 17 to 20.
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

// Options are the options of a measurement.
type Options struct {
	Program  []string // the program with its arguments, as on oshrun's command line
	PEs      int
	Samples  int // pairs of runs; at least 2
	Warmup   int // pairs before these, which do not count
	Seed     uint64
	Watchdog string   // tier of the runs with detection; empty: the best one
	Tiers    []string // allowed values of Watchdog
	Control  bool     // run a hog during the runs with detection

	Progress func(done, all int) // called after each pair; nil: no call
}

// off is the value of --watchdog for no detection.
const off = "off"

// hogShare is the part of a processor that the hog uses.
const hogShare = 0.05

// Check checks the options.
func (o *Options) Check() error {
	switch {
	case len(o.Program) == 0 || o.Program[0] == "":
		return errors.New("noise: no program, want one on the command line, such as bench")
	case o.PEs < 1:
		return fmt.Errorf("-n: %d, want 1 or more PEs", o.PEs)
	case o.Samples < 2 || o.Samples > maxSamples:
		return fmt.Errorf("--samples: %d, want 2 to %d pairs of runs", o.Samples, maxSamples)
	case o.Warmup < 0 || o.Warmup > maxSamples:
		return fmt.Errorf("--warmup: %d, want 0 to %d pairs of runs", o.Warmup, maxSamples)
	case o.Watchdog != "" && !slices.Contains(o.Tiers, o.Watchdog):
		return fmt.Errorf("--watchdog: %q, want one of %s; runs without detection are made anyway", o.Watchdog, strings.Join(o.Tiers, ", "))
	}
	for _, a := range o.Program[1:] {
		if name, _, _ := strings.Cut(strings.TrimLeft(a, "-"), "="); o.builtin() != nil && strings.HasPrefix(a, "-") && name == "json" {
			return fmt.Errorf("%s %s: noise uses this flag itself to read the figures; for the report of noise, put --json before the program", o.Program[0], a)
		}
	}
	return nil
}

const maxSamples = 10000

// command returns oshrun's arguments for a run.
func (o *Options) command(watchdog string) []string {
	args := []string{"-n", fmt.Sprint(o.PEs)}
	if watchdog != "" {
		args = append(args, "--watchdog", watchdog)
	}
	args = append(append(args, "--"), o.Program...)
	if own := o.builtin(); own != nil {
		args = append(args, own.flags...)
	}
	return args
}

// runner makes a run and returns its figures.
type runner func(ctx context.Context, watchdog string) ([]Figure, error)

// Measure runs the program and returns the report. It stops at the first run that fails.
func Measure(ctx context.Context, o Options) (*Report, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	return o.measure(ctx, o.runProgram)
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

// order draws whether detection is on in the first and in the second run of a pair.
func order(rng *rand.Rand) []bool {
	pair := []bool{false, true}
	if rng.IntN(2) == 1 {
		slices.Reverse(pair)
	}
	return pair
}

// on makes a run with detection, and with the hog if Options.Control is set.
func (o *Options) on(ctx context.Context, run runner, r *Report) ([]Figure, error) {
	if !o.Control {
		return run(ctx, o.Watchdog)
	}
	h := startHog(hogShare)
	defer h.end(r.Control)
	return run(ctx, o.Watchdog)
}

// runProgram runs the program under oshrun and returns its figures and the wall time.
func (o *Options) runProgram(ctx context.Context, watchdog string) ([]Figure, error) {
	r, err := rerun.New(ctx, o.command(watchdog)...)
	if err != nil {
		return nil, err
	}
	var out output
	own := o.builtin()
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
