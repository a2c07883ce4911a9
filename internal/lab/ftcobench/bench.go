package ftcobench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/goshmem/goshmem/internal/lab/rerun"
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
	maxNodes   = 64 // as many as --emulate starts
	maxDoubles = 1 << 24 // 128 MiB

	// MaxNoticeDelay is the greatest NoticeDelay.
	MaxNoticeDelay = time.Minute
)

// Check checks the options.
func (o *Options) Check() error {
	checks := []error{
		checkWords("--parts", o.Parts, PartNames()),
		checkWords("--when", o.When, MomentNames()),
		checkNumbers("--nodes", o.Nodes, 1, maxNodes, "nodes"),
		checkNumbers("-n", o.PEs, 2, maxPEs, "PEs: one dies and the others go on"),
		checkNumbers("--doubles", o.Doubles, 1, maxDoubles, "doubles"),
		checkNumbers("--samples", []int{o.Samples}, 1, maxSamples, "jobs of each case"),
	}
	for _, err := range checks {
		if err != nil {
			return err
		}
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
		Program: programName, Version: reportVersion, Seed: b.Seed, NoticeDelay: ms(b.NoticeDelay), Watchdog: b.Watchdog,
		CPUs: runtime.NumCPU(), Load: [2]string{rerun.Load()},
	}
	var todo []*Result
	for _, c := range b.cases() {
		res := newResult(c)
		r.Cases = append(r.Cases, res)
		for range b.Samples {
			todo = append(todo, res)
		}
	}
	// In random order, a change of the machine during the measurement affects all cases alike.
	b.rng.Shuffle(len(todo), func(i, j int) { todo[i], todo[j] = todo[j], todo[i] })
	for i, res := range todo {
		b.progress(i, len(todo))
		if res.NotHere != "" {
			continue
		}
		t, err := run(ctx, res.of)
		if cause := context.Cause(ctx); cause != nil {
			return nil, fmt.Errorf("after %d of %d jobs: %w", i, len(todo), cause)
		}
		if err != nil {
			return nil, fmt.Errorf("%v: %w", res.of, err)
		}
		res.add(t)
	}
	b.progress(len(todo), len(todo))
	for _, res := range r.Cases {
		res.fillSpreads()
	}
	r.Load[1] = rerun.Load()
	return r, nil
}

func (b *bench) progress(done, all int) {
	if b.Progress != nil {
		b.Progress(done, all)
	}
}
