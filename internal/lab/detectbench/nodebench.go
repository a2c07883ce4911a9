package detectbench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goshmem/goshmem/internal/lab/measure"
	"github.com/goshmem/goshmem/internal/lab/rerun"
	"github.com/goshmem/goshmem/internal/launch"
)

// NodeOptions are the options of a measurement between nodes.
type NodeOptions struct {
	Cases   []string // as NodeCaseNames begins them; empty: all that take no number
	Samples int      // failures of each case with each setting
	Nodes   int      // emulated nodes
	Apart   bool     // each has a network of its own
	PEs     int

	// Values of oshrun's options of these names. What is not given is not passed on: the job has its default.
	HeartbeatTiers   []string
	HeartbeatPeriods []time.Duration
	Watchdog         string        // a tier, or Best: not passed on
	Lease            time.Duration // 0: not passed on

	Hybrid    bool     // PEs use mpi beside shmem
	Traffic   bool     // PEs put data to each other all the time
	Baselines []string // simulated beside the jobs: some of BaselineNames

	Calm time.Duration // how long a job runs in which nothing fails; 0: usualCalm
	Loss float64       // percent of the packets of each node that are lost once all PEs are ready

	Seed     uint64
	Tiers    []string            // allowed values of Watchdog
	Progress func(done, all int) // called for each failure; nil: no call
	Program  string              // name under which oshrun runs Main
}

// HeartbeatTierNames are the tiers of those who answer heartbeats, the best one first.
var HeartbeatTierNames = []string{"kernel", "process", "user"}

const (
	maxNodes  = 64 // as many as --emulate starts
	maxPeriod = 10 * time.Second
	maxLease  = 10 * time.Minute
	maxCalm   = 24 * time.Hour
	maxLoss   = 90 // percent, as in simulations
)

// Check checks the options.
func (o *NodeOptions) Check() error {
	if err := measure.FirstError(
		measure.CheckNumber("--samples", o.Samples, 1, maxSamples, "failures"),
		measure.CheckNumber("--emulate", o.Nodes, 2, maxNodes, "nodes: some fail and others learn of it"),
		measure.CheckNumber("-n", o.PEs, 2, maxPEs, "PEs"),
	); err != nil {
		return err
	}
	if o.PEs < o.Nodes {
		return fmt.Errorf("-n: %d PEs on %d nodes, want a PE on each node", o.PEs, o.Nodes)
	}
	if o.Watchdog != Best && !slices.Contains(o.Tiers, o.Watchdog) {
		return fmt.Errorf("--watchdog: %q, want %s or %s with --emulate", o.Watchdog, Best, strings.Join(o.Tiers, ", "))
	}
	for _, tier := range o.HeartbeatTiers {
		if !slices.Contains(HeartbeatTierNames, tier) {
			return fmt.Errorf("--heartbeat-tier: %q, want some of %s", tier, strings.Join(HeartbeatTierNames, ", "))
		}
	}
	for _, d := range o.HeartbeatPeriods {
		if d <= 0 || d > maxPeriod {
			return fmt.Errorf("--heartbeat-period: %v, want more than 0 and at most %v", d, maxPeriod)
		}
	}
	if o.Lease < 0 || o.Lease > maxLease {
		return fmt.Errorf("--lease: %v, want at most %v", o.Lease, maxLease)
	}
	if o.Calm < 0 || o.Calm > maxCalm {
		return fmt.Errorf("--calm: %v, want at most %v", o.Calm, maxCalm)
	}
	if !(o.Loss >= 0 && o.Loss <= maxLoss) {
		return fmt.Errorf("--loss: %v, want a percentage from 0 to %v", o.Loss, maxLoss)
	}
	if o.Loss > 0 && !o.Apart {
		return fmt.Errorf("--loss: %v loses packets between the interfaces of nodes, want --emulate %d:netns, where nodes have interfaces", o.Loss, o.Nodes)
	}
	if err := o.checkBaselines(); err != nil {
		return err
	}
	cases, err := findNodeCases(o.Cases, o.Nodes)
	if err != nil {
		return err
	}
	for _, c := range cases {
		if c.part == onlyLink && !o.Apart {
			return fmt.Errorf("--cases: %q takes the interface of a node down, want --emulate %d:netns, where nodes have interfaces", c.Name, o.Nodes)
		}
	}
	return nil
}

// cases returns the cases of a measurement.
func (o *NodeOptions) cases() ([]NodeCase, error) {
	if len(o.Cases) > 0 {
		return findNodeCases(o.Cases, o.Nodes)
	}
	return slices.DeleteFunc(slices.Clone(NodeCases), func(c NodeCase) bool {
		return c.takes || c.part == nothing || c.part == onlyLink && !o.Apart
	}), nil
}

// setting is a setting of the heartbeats. Zeros are not passed on.
type setting struct {
	tier   string
	period time.Duration
}

// defaultTier is the tier of rows for which none was asked: the one that the job takes.
const defaultTier = "default"

// name returns the tier as reports have it.
func (s setting) name() string {
	if s.tier == "" {
		return defaultTier
	}
	return s.tier
}

// settings returns all settings that are compared.
func (o *NodeOptions) settings() (all []setting) {
	tiers, periods := o.HeartbeatTiers, o.HeartbeatPeriods
	if len(tiers) == 0 {
		tiers = []string{""}
	}
	if len(periods) == 0 {
		periods = []time.Duration{0}
	}
	for _, tier := range tiers {
		for _, period := range periods {
			if s := (setting{tier, period}); !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	return all
}

// emulate returns the value of --emulate for the jobs.
func (o *NodeOptions) emulate() string {
	if o.Apart {
		return fmt.Sprintf("%d:netns", o.Nodes)
	}
	return fmt.Sprint(o.Nodes)
}

// limit is how long a survivor may take to learn of a failure. A node that is out of reach may be lost by its lease, which
// is below learnTimeout unless one is given.
func (o *NodeOptions) limit() time.Duration { return learnTimeout + o.Lease }

// nodeBench is a measurement.
type nodeBench struct {
	NodeOptions
	rng *rand.Rand
}

// MeasureNodes injects failures into jobs on emulated nodes and returns the report. It stops at the first job that ends in
// an unexpected way.
func MeasureNodes(ctx context.Context, o NodeOptions) (*Report, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	b := &nodeBench{NodeOptions: o, rng: rand.New(rand.NewPCG(o.Seed, 0))}
	return b.measure(ctx, b.runTrial)
}

// nodeInjector makes one failure.
type nodeInjector func(ctx context.Context, c NodeCase, s setting) (*nodeTrial, error)

// oneClock says in reports why times of different nodes can be compared.
const oneClock = "one clock: emulated"

func (b *nodeBench) measure(ctx context.Context, fail nodeInjector) (*Report, error) {
	r := &Report{
		Head:    measure.Head{Program: programName, Version: reportVersion, Seed: b.Seed},
		Emulate: b.emulate(), Clock: oneClock, Loss: b.Loss, Machine: measure.MachineBefore(),
	}
	if b.Watchdog != Best {
		r.Watchdog = b.Watchdog
	}
	cases, err := b.cases()
	if err != nil {
		return nil, err
	}
	settings := b.settings()
	for _, c := range cases {
		for _, s := range settings {
			r.Cases = append(r.Cases, &Result{
				Case: c.Name, Nodes: b.Nodes, PEs: b.PEs, Detector: ownDetector, Tier: s.name(), Period: measure.Milliseconds(s.period),
				NotHere: b.missing(&c), Hybrid: b.Hybrid, ofNodes: c, setting: s,
			})
		}
	}
	var todo []*Result
	for _, res := range r.Cases {
		if res.NotHere == "" {
			todo = append(todo, res)
		}
	}
	jobs := measure.Jobs{
		N: len(todo) * b.Samples, What: "failures", Rand: b.rng, Progress: b.Progress,
		Run: func(number int) error { return b.addTrial(ctx, fail, todo, todo[number/b.Samples]) },
	}
	if err := jobs.RunAll(ctx); err != nil {
		return nil, err
	}
	for _, res := range r.Cases {
		res.fillSpreads()
	}
	r.NoteAfter()
	return r, b.addBaselines(r, cases)
}

// addTrial makes a failure and adds it to a result. If a job cannot have its tier, and others are compared with it, all
// results of that tier say so.
func (b *nodeBench) addTrial(ctx context.Context, fail nodeInjector, all []*Result, res *Result) error {
	if res.NotHere != "" {
		return nil
	}
	t, err := fail(ctx, res.ofNodes, res.setting)
	failed, ok := errors.AsType[*rerun.FailedError](err)
	if ok && failed.Status == launch.StatusSetUp && len(b.HeartbeatTiers) > 1 {
		why, _, _ := strings.Cut(strings.TrimPrefix(failed.Said, "oshrun: "), "\n")
		for _, other := range all {
			if other.setting == res.setting {
				other.NotHere = why
			}
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("case %s, %s: %w", res.Case, res.seriesName(), err)
	}
	res.addNodes(t)
	res.Packets += t.packets.Seen
	res.PacketsLost += t.packets.Lost
	return nil
}

// missing returns why a case cannot be measured here, or "" if it can.
func (b *nodeBench) missing(c *NodeCase) string {
	if c.cutsLinks(b.Apart) && os.Geteuid() != 0 {
		return "takes an interface down, which takes root; --emulate without netns has no interfaces"
	}
	if b.Loss > 0 && os.Geteuid() != 0 {
		return "a program in the kernel loses packets, which takes root"
	}
	return ""
}

// lead is the least time between the start of a job's wait and the failure: until heartbeats are regular.
const lead = 200 * time.Millisecond

// usualPeriod is the period of heartbeats by default.
const usualPeriod = 100 * time.Millisecond

// pause returns a random time before the failure, spread over two periods of heartbeats.
func (b *nodeBench) pause(s setting) time.Duration {
	period := s.period
	if period == 0 {
		period = usualPeriod
	}
	return lead + time.Duration(b.rng.Int64N(int64(2*period)))
}
