// Package noise measures the cost of failure detection for a program. It runs the program in pairs, with
// detection off and on in random order, and reports three things: the overhead, the natural variability of the
// program, and the smallest effect that the samples would have shown. With Options.Periods, it compares several periods
// of the heartbeats between nodes with none: then a round of runs takes the place of a pair.
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
	Emulate  string   // value of --emulate for the runs; empty: one node
	Periods  []string // values of --heartbeat-period that are compared with "off"; nil: detection on is compared with off
	Samples  int      // pairs of runs, or rounds; at least 2
	Warmup   int      // pairs or rounds before these, which do not count
	Seed     uint64
	Watchdog string   // tier of the runs with detection, or of all runs with Periods; empty: the best one
	Tiers    []string // allowed values of Watchdog
	Control  bool     // run a hog during the runs with detection

	Progress func(done, all int) // called after each pair or round; nil: no call
}

// off is the value of --watchdog for no detection, and of --heartbeat-period for no heartbeats.
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
	if err := o.checkPeriods(); err != nil {
		return err
	}
	for _, a := range o.Program[1:] {
		if name, _, _ := strings.Cut(strings.TrimLeft(a, "-"), "="); o.builtin() != nil && strings.HasPrefix(a, "-") && name == "json" {
			return fmt.Errorf("%s %s: noise uses this flag itself to read the figures; for the report of noise, put --json before the program", o.Program[0], a)
		}
	}
	return nil
}

const maxSamples = 10000

// checkPeriods checks the list of periods.
func (o *Options) checkPeriods() error {
	if o.Periods == nil {
		return nil
	}
	if nodes, _, _ := strings.Cut(o.Emulate, ":"); nodes == "" || nodes == "1" {
		return errors.New("--heartbeat-period: heartbeats go between nodes, want --emulate 2 or more with it")
	}
	if len(o.Periods) == 0 {
		return errors.New("--heartbeat-period: nothing, want off, or periods such as 1ms,10ms,100ms")
	}
	seen := map[time.Duration]bool{}
	for _, p := range o.Periods {
		d, err := time.ParseDuration(p)
		if p == off {
			d, err = 0, nil
		} else if err == nil && d <= 0 {
			err = errors.New("not positive")
		}
		if err != nil {
			return fmt.Errorf("--heartbeat-period: %q, want off, or periods such as 1ms,10ms,100ms", p)
		}
		if seen[d] {
			return fmt.Errorf("--heartbeat-period: %q twice, want each period once", p)
		}
		seen[d] = true
	}
	if o.Control && len(seen) == 1 && seen[0] {
		return errors.New("--control: --heartbeat-period has no period but off, want one in whose runs the hog runs")
	}
	return nil
}

// variants returns what is compared with off: values of --heartbeat-period, or one of --watchdog.
func (o *Options) variants() []string {
	if o.Periods != nil {
		return o.Periods
	}
	return []string{o.Watchdog}
}

// command returns oshrun's arguments for a run of a variant, or of off.
func (o *Options) command(variant string) []string {
	args := []string{"-n", fmt.Sprint(o.PEs)}
	if o.Emulate != "" {
		args = append(args, "--emulate", o.Emulate)
	}
	watchdog := variant
	if o.Periods != nil {
		args = append(args, "--heartbeat-period", variant)
		watchdog = o.Watchdog
	}
	if watchdog != "" {
		args = append(args, "--watchdog", watchdog)
	}
	args = append(append(args, "--"), o.Program...)
	if own := o.builtin(); own != nil {
		args = append(args, own.flags...)
	}
	return args
}

// runner makes a run of a variant, or of off, and returns its figures.
type runner func(ctx context.Context, variant string) ([]Figure, error)

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
	all := append([]string{off}, o.variants()...)
	kept := make([][][]Figure, len(all)) // of each variant, in each pair or round
	for i := range o.Warmup + o.Samples {
		if o.Progress != nil {
			o.Progress(i, o.Warmup+o.Samples)
		}
		for _, v := range rng.Perm(len(all)) {
			figures, err := o.runOne(ctx, run, r, all[v], v > 0)
			if cause := context.Cause(ctx); cause != nil {
				return nil, fmt.Errorf("in %s %d of %d: %w", o.turn(), i+1, o.Warmup+o.Samples, cause)
			}
			if err != nil {
				return nil, fmt.Errorf("%s %d of %d, %s: %w", o.turn(), i+1, o.Warmup+o.Samples, o.describe(all[v], v > 0), err)
			}
			if i >= o.Warmup {
				kept[v] = append(kept[v], figures)
			}
		}
	}
	if o.Progress != nil {
		o.Progress(o.Warmup+o.Samples, o.Warmup+o.Samples)
	}
	return r, r.evaluate(kept[0], kept[1:])
}

// turn returns what messages call a run of each variant.
func (o *Options) turn() string {
	if o.Periods != nil {
		return "round"
	}
	return "pair"
}

// describe returns how messages name a run of a variant, or of off.
func (o *Options) describe(variant string, compared bool) string {
	switch {
	case o.Periods != nil:
		return "heartbeat period " + variant
	case compared:
		return "detection on"
	}
	return "detection off"
}

// runOne makes a run. A variant that is compared with off, and is not off itself, runs beside the hog if Options.Control
// is set.
func (o *Options) runOne(ctx context.Context, run runner, r *Report, variant string, compared bool) ([]Figure, error) {
	if !o.Control || !compared || variant == off {
		return run(ctx, variant)
	}
	h := startHog(hogShare)
	defer h.end(r.Control)
	return run(ctx, variant)
}

// runProgram runs the program under oshrun and returns its figures and the wall time.
func (o *Options) runProgram(ctx context.Context, variant string) ([]Figure, error) {
	r, err := rerun.New(ctx, o.command(variant)...)
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
