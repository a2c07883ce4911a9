package ftcobench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/goshmem/goshmem/internal/lab/measure"
)

// Options are the options of a measurement.
type Options struct {
	Parts   []string // Table1, Figure6
	When    []string // Before, During
	Nodes   []int    // 1: this machine as it is; more: emulated nodes
	PEs     []int    // of a job
	Doubles []int    // that Figure6 reduces
	Samples int      // jobs of each case
	// NoticeDelay holds back the news of each death, as a timeout would. 0: the news comes as soon as it can.
	NoticeDelay time.Duration
	Watchdog    string // tier by which oshrun learns of deaths. It is fixed, as a better one would be set up during short jobs
	Seed        uint64

	Tiers     []string            // allowed values of Watchdog
	Progress  func(done, all int) // called for each job; nil: no call
	Program   string              // name under which oshrun runs Main
	DelayFlag string              // flag of oshrun, without its dashes, that takes NoticeDelay
}

const (
	maxSamples = 100000
	maxPEs     = 1024
	maxNodes   = 64      // as many as --emulate starts
	maxDoubles = 1 << 24 // 128 MiB

	// MaxNoticeDelay is the greatest NoticeDelay.
	MaxNoticeDelay = time.Minute
)

// Check checks the options.
func (o *Options) Check() error {
	if err := measure.FirstError(
		measure.CheckWords("--parts", o.Parts, PartNames()),
		measure.CheckWords("--when", o.When, MomentNames()),
		measure.CheckNumbers("--nodes", o.Nodes, 1, maxNodes, "nodes"),
		measure.CheckNumbers("-n", o.PEs, 2, maxPEs, "PEs: one dies and the others go on"),
		measure.CheckNumbers("--doubles", o.Doubles, 1, maxDoubles, "doubles"),
		measure.CheckNumber("--samples", o.Samples, 1, maxSamples, "jobs of each case"),
	); err != nil {
		return err
	}
	if least, most := slices.Min(o.PEs), slices.Max(o.Nodes); least < most {
		return fmt.Errorf("-n: %d PEs on %d nodes, want a PE on each node: measure small jobs on fewer nodes by a run of their own", least, most)
	}
	if !slices.Contains(o.Tiers, o.Watchdog) {
		return fmt.Errorf("--watchdog: %q, want %s", o.Watchdog, strings.Join(o.Tiers, ", "))
	}
	if o.NoticeDelay < 0 || o.NoticeDelay > MaxNoticeDelay {
		return fmt.Errorf("--notice-delay: %v, want 0 to %v", o.NoticeDelay, MaxNoticeDelay)
	}
	return nil
}

// bench is a measurement.
type bench struct {
	Options
	rng *rand.Rand
}

// Measure runs the jobs and returns the report. It stops at the first job that ends in an unexpected way.
func Measure(ctx context.Context, o Options) (*Report, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	b := &bench{Options: o, rng: rand.New(rand.NewPCG(o.Seed, 0))}
	return b.measure(ctx, b.runTrial)
}

// runner runs a job.
type runner func(ctx context.Context, c Case) (*trial, error)

func (b *bench) measure(ctx context.Context, run runner) (*Report, error) {
	r := &Report{
		Head: measure.Head{Program: programName, Version: reportVersion, Seed: b.Seed}, NoticeDelay: measure.Milliseconds(b.NoticeDelay),
		Watchdog: b.Watchdog, Machine: measure.MachineBefore(),
	}
	for _, c := range b.cases() {
		r.Cases = append(r.Cases, newResult(c))
	}
	jobs := measure.Jobs{
		N: len(r.Cases) * b.Samples, What: "jobs", Rand: b.rng, Progress: b.Progress,
		Run: func(number int) error {
			res := r.Cases[number/b.Samples]
			if res.NotHere != "" {
				return nil
			}
			t, err := run(ctx, res.of)
			if err != nil {
				return fmt.Errorf("%v: %w", res.of, err)
			}
			res.add(t)
			return nil
		},
	}
	if err := jobs.RunAll(ctx); err != nil {
		return nil, err
	}
	for _, res := range r.Cases {
		res.fillSpreads()
	}
	r.NoteAfter()
	return r, nil
}
