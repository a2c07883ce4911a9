package fabench

import (
	"fmt"
	"slices"
	"time"

	"github.com/goshmem/goshmem/examples/minife/minife"
	"github.com/goshmem/goshmem/internal/lab/measure"
	"github.com/goshmem/goshmem/internal/lab/sample"
	"github.com/goshmem/goshmem/mpi/ft"
)

// Report is the output of --json.
type Report struct {
	measure.Head
	PEs        int `json:"pes"`
	Nodes      int `json:"nodes"`
	Iterations int `json:"iterations"`
	Samples    int `json:"samples"`
	measure.Machine
	Cases []*Result `json:"cases"`
}

const (
	programName   = "goshmem fa-bench"
	reportVersion = 1
)

// Phases lists the phases of a recovery, in their order.
var Phases = []string{"detect", "agree", "shrink", "spawn", "rebuild", "reload"}

// ends has the event that ends each phase.
var ends = map[string]string{
	"detect": minife.EventFault, "agree": string(ft.PhaseAgree), "shrink": string(ft.PhaseShrink), "spawn": string(ft.PhaseSpawn),
	"rebuild": string(ft.PhaseJoin), "reload": minife.EventReload,
}

// Result is the result of a case of an application. Times are in seconds.
type Result struct {
	App       string `json:"app"`
	Case      string `json:"case"`
	PEs       int    `json:"pes"`
	Nodes     int    `json:"nodes"`
	Size      int    `json:"size"`      // elements on a side
	Policy    string `json:"policy"`    // of the recovery; empty: nobody dies
	Dead      int    `json:"dead"`      // ranks that kill themselves, or one that kills its node
	Iteration int    `json:"iteration"` // in which they die
	Samples   int    `json:"samples"`

	FaultFree *sample.Spread `json:"fault_free_s"` // a whole job without deaths, in transactions
	Total     *sample.Spread `json:"total_s"`      // a whole job
	Added     float64        `json:"added_s"`      // Total without FaultFree, medians
	Restart   *sample.Spread `json:"restart_s"`    // a job that dies in that iteration, and a whole one; null: nobody dies

	Recovery   *sample.Spread            `json:"recovery_s"` // from the death to the next iteration; null: nobody dies
	Phases     map[string]*sample.Spread `json:"phases"`     // parts of Recovery; null: nobody dies
	Recoveries int                       `json:"recoveries"` // the greatest number of recoveries of a run: more than one have begun anew
	Equal      bool                      `json:"equal"`      // the result is that of FaultFree in all runs, bit for bit
	Wrong      string                    `json:"wrong,omitempty"`
}

// newResult returns the result of a cell.
func (o *Options) newResult(l cell, runs, free, again []*outcome) *Result {
	r := &Result{
		App: l.app.Name, Case: l.c.Name, PEs: o.PEs, Nodes: max(o.Nodes, 1), Size: o.sizeOf(l.app), Policy: l.c.policy, Dead: l.c.dead,
		Samples: len(runs), FaultFree: spreadOf(free), Total: spreadOf(runs), Restart: spreadOf(again), Equal: true,
	}
	if r.FaultFree != nil && r.Total != nil {
		r.Added = r.Total.P50 - r.FaultFree.P50
	}
	for _, out := range slices.Concat(runs, free, again) {
		if out.result != free[0].result {
			r.Equal, r.Wrong = false, out.result
		}
	}
	if !l.c.hasDeaths() {
		return r
	}
	r.Iteration = l.c.iteration(o.Iterations)
	r.Phases = map[string]*sample.Spread{}
	sums, parts := make([]float64, len(runs)), make([]float64, len(runs))
	for _, phase := range Phases {
		for i, out := range runs {
			took, _ := out.phases() // runJob has called it without an error
			parts[i] = took[phase].Seconds()
			sums[i] += parts[i]
		}
		r.Phases[phase] = sample.SpreadOf(parts)
	}
	r.Recovery = sample.SpreadOf(sums)
	for _, out := range runs {
		r.Recoveries = max(r.Recoveries, out.recoveries())
	}
	return r
}

// spreadOf returns the spread of the times of runs, in seconds.
func spreadOf(runs []*outcome) *sample.Spread {
	var all []float64
	for _, out := range runs {
		all = append(all, out.took.Seconds())
	}
	return sample.SpreadOf(all)
}

// phases returns the times of the phases of a run: each from the end of the one before to its own end at the last process, but detect to its end at the
// first one.
func (out *outcome) phases() (map[string]time.Duration, error) {
	all := map[string]time.Duration{}
	before := out.killed
	for _, phase := range Phases {
		var end time.Duration
		for _, l := range out.lines {
			for _, s := range l.Stamps {
				switch {
				case s.Event != ends[phase] || s.At < out.killed: // reload is an event of the beginning, too
				case phase == "detect" && end != 0:
					end = min(end, s.At)
				default:
					end = max(end, s.At)
				}
			}
		}
		if end < before {
			return nil, fmt.Errorf("phase %s ends %v before it begins, or no rank tells of it", phase, before-end)
		}
		all[phase], before = end-before, end
	}
	return all, nil
}

// recoveries returns how often a rank has recovered.
func (out *outcome) recoveries() (most int) {
	for _, l := range out.lines {
		n := 0
		for _, s := range l.Stamps {
			if s.Event == string(ft.PhaseShrink) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// Failures returns an error that lists the results that are not those without deaths, or nil if there are none.
func (r *Report) Failures() error {
	var all []string
	for _, c := range r.Cases {
		if !c.Equal {
			all = append(all, fmt.Sprintf("%s, %s: the result %q is not that of the runs without deaths", c.App, c.Case, c.Wrong))
		}
	}
	return measure.JoinFailures(all)
}
