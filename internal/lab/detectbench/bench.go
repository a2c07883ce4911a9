package detectbench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goshmem/goshmem/internal/lab/measure"
	"github.com/goshmem/goshmem/internal/lab/rerun"
	"github.com/goshmem/goshmem/internal/launch"
)

// Options are the options of a measurement.
type Options struct {
	Cases     []string // names of cases; empty: all cases
	Samples   int      // failures of each case in each tier
	PEs       int
	Watchdog  string // a tier, Best or All
	Size      int    // memory of the cases with memory, in bytes
	Available uint64 // memory that is available on the machine, in bytes; 0: unknown
	Seed      uint64

	Tiers    []string            // all tiers, the best one first
	Progress func(done, all int) // called for each failure; nil: no call
	Program  string              // name under which oshrun runs Main
}

// Values of Watchdog other than the name of a tier.
const (
	Best = "best"
	All  = "all"
)

const (
	maxSamples = 100000
	maxPEs     = 1024
)

// Check checks the options.
func (o *Options) Check() error {
	if err := measure.FirstError(
		measure.CheckNumber("--samples", o.Samples, 1, maxSamples, "failures"),
		measure.CheckNumber("-n", o.PEs, 2, maxPEs, "PEs: one fails and the others learn of it"),
	); err != nil {
		return err
	}
	switch {
	case o.Watchdog != Best && o.Watchdog != All && !slices.Contains(o.Tiers, o.Watchdog):
		return fmt.Errorf("--watchdog: %q, want %s, %s or %s", o.Watchdog, Best, All, strings.Join(o.Tiers, ", "))
	case o.Size < 1:
		return fmt.Errorf("--size: %d, want a size such as 4G", o.Size)
	}
	_, err := findCases(o.Cases)
	return err
}

// bench is a measurement.
type bench struct {
	Options
	rng   *rand.Rand
	limit *limit // memory limit for the case oom; nil: none was made
}

// Measure injects failures and returns the report. It stops at the first job that ends in an unexpected way.
func Measure(ctx context.Context, o Options) (*Report, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	b := &bench{Options: o, rng: rand.New(rand.NewPCG(o.Seed, 0))}
	return b.measure(ctx, b.runTrial)
}

// injector makes one failure.
type injector func(ctx context.Context, c Case, tier string) (*trial, error)

func (b *bench) measure(ctx context.Context, fail injector) (*Report, error) {
	r := &Report{
		Head: measure.Head{Program: programName, Version: reportVersion, Seed: b.Seed}, Size: b.Size, Machine: measure.MachineBefore(),
	}
	tiers, err := b.tiers(ctx, fail, r)
	if err != nil {
		return nil, err
	}
	cases, err := findCases(b.Cases)
	if err != nil {
		return nil, err
	}
	var todo []*Result
	for _, c := range cases {
		why := b.prepare(c)
		for _, tier := range tiers {
			res := b.result(c, tier)
			res.NotHere = why
			r.Cases = append(r.Cases, res)
			if why == "" {
				todo = append(todo, res)
			}
		}
	}
	if b.limit != nil {
		defer func() { _ = b.limit.remove() }()
	}
	jobs := measure.Jobs{
		N: len(todo) * b.Samples, What: "failures", Rand: b.rng, Progress: b.Progress,
		Run: func(number int) error {
			res := todo[number/b.Samples]
			t, err := fail(ctx, res.of, res.Tier)
			if err != nil {
				return fmt.Errorf("case %s, tier %s: %w", res.Case, res.Tier, err)
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

func (b *bench) result(c Case, tier string) *Result {
	return &Result{Case: c.Name, Nodes: 1, PEs: b.PEs, Tier: tier, of: c}
}

// tiers returns the tiers that work here. It tries each one with a failure that does not count. A tier that
// does not work is an error only if Watchdog names it.
func (b *bench) tiers(ctx context.Context, fail injector, r *Report) (found []string, err error) {
	asked := b.Tiers
	if b.Watchdog != Best && b.Watchdog != All {
		asked = []string{b.Watchdog}
	}
	for _, tier := range asked {
		_, err = fail(ctx, Cases[0], tier)
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		failed, ok := errors.AsType[*rerun.FailedError](err)
		switch missing := ok && failed.Status == launch.StatusSetUp; {
		case err == nil:
			found = append(found, tier)
			if b.Watchdog == Best {
				return found, nil
			}
		case !missing || len(asked) == 1:
			return nil, fmt.Errorf("tier %s: %w", tier, err)
		case b.Watchdog == All:
			why, _, _ := strings.Cut(strings.TrimPrefix(failed.Said, "oshrun: "), "\n")
			r.Cases = append(r.Cases, &Result{Case: All, Nodes: 1, PEs: b.PEs, Tier: tier, NotHere: why})
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no tier works on this machine: %w", err)
	}
	return found, nil
}

// prepare makes what a case needs. It returns why the case cannot be measured here, or "" if it can.
func (b *bench) prepare(c Case) string {
	switch {
	case c.memory && b.Available > 0 && uint64(b.Size)+uint64(b.Size)/8 > b.Available:
		return fmt.Sprintf("%d MiB of memory are available, want --size (%d MiB) and an eighth of it; use a smaller --size",
			b.Available>>20, b.Size>>20)
	case c.limit:
		var err error
		if b.limit, err = newLimit("/"); err != nil {
			return err.Error()
		}
	}
	return ""
}

// heap returns the heap size for a case, as --heap-size takes it.
func (b *bench) heap(c Case) string {
	const rest = 64 << 20
	if c.Name == "heap" {
		return strconv.Itoa(b.Size + rest)
	}
	return strconv.Itoa(rest)
}

// pause returns a random time before the failure. Survivors are asleep by then, at different points of their
// sleeps.
func (b *bench) pause() time.Duration {
	return 5*time.Millisecond + time.Duration(b.rng.Int64N(int64(20*time.Millisecond)))
}
