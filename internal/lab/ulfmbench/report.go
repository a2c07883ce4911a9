package ulfmbench

import (
	"fmt"
	"slices"
	"time"

	"github.com/goshmem/goshmem/internal/lab/measure"
	"github.com/goshmem/goshmem/internal/lab/sample"
)

// Report is the output of --json.
type Report struct {
	measure.Head
	Nodes   int `json:"nodes"`
	Jobs    int `json:"jobs"`    // of each case, number of ranks and of dead ones
	Samples int `json:"samples"` // in a job
	Calls   int `json:"calls"`   // in a sample of a steady phase
	measure.Machine
	Results []*Result `json:"results"`
}

const (
	programName   = "goshmem ulfm-bench"
	reportVersion = 1
)

// Phases of cases.
const (
	Steady    = "steady"  // of agree to ishrink: calls while nobody dies
	First     = "first"   // of agree to ishrink: the call during which the ranks die
	InRecv    = "recv"    // of revoke: the others wait in Recv
	InBarrier = "barrier" // of revoke: the others wait in Barrier
	Death     = "death"   // of barrier, recvany and respawn: until the error of the death
	InShrink  = "shrink"  // of respawn: from the error to the return of Shrink
	InSpawn   = "spawn"   // of respawn: from there to the return of Spawn
	InMerge   = "merge"   // of respawn: from there to the end of a barrier on what Merge makes
	Whole     = "whole"   // of respawn: from the death to there
)

// Result is the result of a phase of a cell. Times are in microseconds.
type Result struct {
	Case    string         `json:"case"`
	Phase   string         `json:"phase"`
	Ranks   int            `json:"ranks"` // with the dead ones
	Dead    int            `json:"dead"`
	Samples int            `json:"samples"`
	Time    *sample.Spread `json:"us"`

	Allreduce *sample.Spread `json:"allreduce_us"`    // a call of Allreduce in the same jobs; null: not measured
	Times     float64        `json:"times_allreduce"` // Time divided by the Allreduce of the same round, median; 0: not measured, or one survivor

	Wrong int    `json:"wrong"` // results and errors that are not those expected, of all ranks
	What  string `json:"what,omitempty"`

	times, allreduce, ratios []float64
}

// newResults returns the results of a cell, without samples.
func newResults(c cell) (list []*Result) {
	phases := []string{Steady}
	switch {
	case c.name == Revoke:
		phases = waits
	case c.name == Respawn:
		phases = slices.Concat([]string{Death}, steps, []string{Whole})
	case c.awaitsDeath():
		phases = []string{Death}
	case c.dead > 0:
		phases = []string{First, Steady}
	}
	for _, phase := range phases {
		list = append(list, &Result{Case: c.name, Phase: phase, Ranks: c.ranks, Dead: c.dead})
	}
	return list
}

// add adds what the ranks of a job measured.
func (r *Result) add(out *outcome) {
	before := len(r.times)
	switch r.Phase {
	case Steady:
		r.addSteady(out)
	case First:
		r.addFirst(out)
	case Death:
		for _, rec := range out.records {
			if rec != nil {
				r.times = append(r.times, measure.Microseconds(rec.Learned-out.killed))
			}
		}
	case InShrink, InSpawn, InMerge:
		r.addStep(out)
	case Whole:
		r.times = append(r.times, measure.Microseconds(out.lastOf(InMerge)-out.killed))
	default:
		r.addRevocations(out)
	}
	r.Samples += len(r.times) - before
	for _, rec := range out.records {
		if w, ok := rec.wrongOf(r.Phase); ok {
			r.Wrong += w.Count
			r.What = w.What
		}
	}
}

// addSteady adds the rounds of a job, by the slowest survivor of each batch.
func (r *Result) addSteady(out *outcome) {
	for i := range out.records[0].Rounds {
		var call, allreduce time.Duration
		for _, rec := range out.records {
			if rec != nil {
				call, allreduce = max(call, rec.Rounds[i].Call), max(allreduce, rec.Rounds[i].Allreduce)
			}
		}
		calls := float64(out.calls)
		r.times = append(r.times, measure.Microseconds(call)/calls)
		r.allreduce = append(r.allreduce, measure.Microseconds(allreduce)/calls)
		if allreduce > 0 && r.Ranks-r.Dead > 1 { // an Allreduce of one rank is a copy
			r.ratios = append(r.ratios, float64(call)/float64(allreduce))
		}
	}
}

// addFirst adds the first call of a job, by the slowest survivor. It is compared with the job's median Allreduce.
func (r *Result) addFirst(out *outcome) {
	first := time.Duration(0)
	for _, rec := range out.records {
		if rec != nil {
			first = max(first, rec.First)
		}
	}
	var steady Result
	steady.addSteady(out)
	us := measure.Microseconds(first)
	r.times = append(r.times, us)
	r.allreduce = append(r.allreduce, steady.allreduce...)
	if base := sample.SpreadOf(steady.allreduce); base != nil && base.P50 > 0 && r.Ranks-r.Dead > 1 {
		r.ratios = append(r.ratios, us/base.P50)
	}
}

// addStep adds a step of a job: from the end of the step before at the last survivor to its own end there.
func (r *Result) addStep(out *outcome) {
	before := out.lastOf(Death)
	if i := slices.Index(steps, r.Phase); i > 0 {
		before = out.lastOf(steps[i-1])
	}
	r.times = append(r.times, measure.Microseconds(out.lastOf(r.Phase)-before))
}

// lastOf returns when the last survivor had a phase of respawn behind it.
func (out *outcome) lastOf(phase string) (last time.Duration) {
	for _, rec := range out.records {
		switch {
		case rec == nil:
		case phase == Death:
			last = max(last, rec.Learned)
		default:
			last = max(last, rec.Steps[phase])
		}
	}
	return last
}

// addRevocations adds the revocations of a job while the ranks waited in the phase's call.
func (r *Result) addRevocations(out *outcome) {
	for i, called := range out.records[0].Revoked[r.Phase] {
		last := called
		for _, rec := range out.records[1:] {
			last = max(last, rec.Revoked[r.Phase][i])
		}
		r.times = append(r.times, measure.Microseconds(last-called))
	}
}

// fillSpreads fills the spreads.
func (r *Result) fillSpreads() {
	r.Time, r.Allreduce = sample.SpreadOf(r.times), sample.SpreadOf(r.allreduce)
	if s := sample.SpreadOf(r.ratios); s != nil {
		r.Times = s.P50
	}
}

// Failures returns an error that lists the results with wrong results of calls, or nil if there are none.
func (r *Report) Failures() error {
	var all []string
	for _, c := range r.Results {
		if c.Wrong > 0 {
			all = append(all, fmt.Sprintf("%v, %s: %d wrong results (%s)", cell{c.Case, c.Ranks, c.Dead}, c.Phase, c.Wrong, c.What))
		}
	}
	return measure.JoinFailures(all)
}
