package detectbench

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
	Size int `json:"size_bytes"` // memory of the cases with memory
	// Emulate, Clock and Watchdog are those of a measurement between nodes: what stands for the nodes, why their times can
	// be compared, and the tier on each node, if one was asked for.
	Emulate  string `json:"emulate,omitempty"`
	Clock    string `json:"clock,omitempty"`
	Watchdog string `json:"watchdog,omitempty"`
	// Loss is the percentage of packets between nodes that are lost.
	Loss float64 `json:"loss_percent,omitempty"`
	measure.Machine
	Cases []*Result `json:"cases"`
}

const (
	programName   = "goshmem detect-bench"
	reportVersion = 1
)

// Result is the result of a case in a tier. Times are in milliseconds and count from just before the failure
// was injected; null means that there are none.
//
// On one node the tier is that of the watchdog. Between nodes it is that of those who answer heartbeats, and rows with
// another Detector, Tier or Period stand side by side.
type Result struct {
	Case     string  `json:"case"`
	Nodes    int     `json:"nodes"`
	PEs      int     `json:"pes"`
	Detector string  `json:"detector,omitempty"` // between nodes: ownDetector, or one of BaselineNames
	Period   float64 `json:"period_ms"`          // of the heartbeats that were asked for; 0: none, as on one node
	Tier     string  `json:"tier"`
	Samples  int     `json:"samples"`

	Simulated bool `json:"simulated,omitempty"` // a baseline: its times have no kernel and no callbacks

	First *sample.Spread `json:"first_ms"` // return of the first survivor's call
	Last  *sample.Spread `json:"last_ms"`  // return of the last survivor's call

	Kernel   *sample.Spread `json:"kernel_ms"`   // the death, by the kernel
	Stored   *sample.Spread `json:"stored_ms"`   // the failure is on the failure page
	Returned *sample.Spread `json:"returned_ms"` // return of the blocked call, all survivors
	Called   *sample.Spread `json:"called_ms"`   // run of the callback, all survivors
	Said     *sample.Spread `json:"said_ms"`     // message of oshrun

	Hybrid bool           `json:"hybrid,omitempty"`        // PEs use mpi beside shmem
	MPI    *sample.Spread `json:"mpi_ms,omitempty"`        // end of the receive from the victim, all survivors
	Unseen int            `json:"models_unseen,omitempty"` // survivors that did not see both models' declarations, or one model's view of the death in the other

	Injected *sample.Spread `json:"inject_ms,omitempty"` // between nodes: end of the injection, of which there are several steps

	Packets     uint64 `json:"packets,omitempty"`      // with losses: that nodes sent
	PacketsLost uint64 `json:"packets_lost,omitempty"` // of those

	False   int    `json:"false_reports"`           // reports of PEs that had not failed
	Missed  int    `json:"missed"`                  // survivors that did not learn of the failure
	NotHere string `json:"not_available,omitempty"` // why the case or tier cannot be measured here

	of           Case
	ofNodes      NodeCase
	setting      setting
	first, last  []float64
	kernel, told []float64
	stored       []float64
	returned     []float64
	said         []float64
	mpi          []float64
	injected     []float64
}

// ownDetector is the detector that jobs of oshrun have.
const ownDetector = "oshrun"

// trial is one injected failure and the reports of the survivors.
type trial struct {
	victim   int
	injected time.Duration // just before kill(2); 0: the victim has stored the time
	said     time.Duration // when oshrun printed a message about it; 0: never
	seen     []*seen       // report of each PE; nil: none came
	stops    bool          // the victim was stopped, not killed
}

// from returns when the failure began.
func (t *trial) from() time.Duration {
	for _, s := range t.seen {
		if t.injected == 0 && s != nil {
			return s.Injected // as the victim has stored it
		}
	}
	return t.injected
}

// add adds a trial.
func (r *Result) add(t *trial) {
	r.Samples++
	if from := t.from(); from > 0 && t.said > from {
		r.said = append(r.said, measure.Milliseconds(t.said-from))
	}
	if t.stops {
		r.addStop(t)
		return
	}
	from := t.from()
	var returned []float64
	stored := false
	for q, s := range t.seen {
		if q == t.victim {
			continue
		}
		if s == nil {
			r.Missed++
			continue
		}
		knows := slices.Contains(s.Failed, t.victim) && slices.Contains(s.Told, t.victim)
		if !knows {
			r.Missed++
		}
		if namesOther(s.Failed, t.victim) || namesOther(s.Told, t.victim) || knows && s.Stored < from {
			r.False++
		}
		if !knows || s.Stored < from {
			continue
		}
		returned = append(returned, measure.Milliseconds(s.Returned-from))
		r.told = append(r.told, measure.Milliseconds(s.Called-from))
		if !stored { // all survivors read the same page
			stored = true
			r.stored = append(r.stored, measure.Milliseconds(s.Stored-from))
			if s.Kernel > 0 {
				r.kernel = append(r.kernel, measure.Milliseconds(s.Kernel-from))
			}
		}
	}
	if len(returned) > 0 {
		r.returned = append(r.returned, returned...)
		r.first, r.last = append(r.first, slices.Min(returned)), append(r.last, slices.Max(returned))
	}
}

// addStop adds a trial without a death: oshrun must report the stop, and no survivor may report a failure.
func (r *Result) addStop(t *trial) {
	if t.said == 0 {
		r.Missed++
	}
	for _, s := range t.seen {
		if s != nil && len(s.Failed)+len(s.Told) > 0 {
			r.False++
		}
	}
}

// namesOther says whether pes contains a PE other than the victim.
func namesOther(pes []int, victim int) bool {
	return slices.ContainsFunc(pes, func(q int) bool { return q != victim })
}

// fillSpreads fills the spreads from the trials.
func (r *Result) fillSpreads() {
	r.First, r.Last = sample.SpreadOf(r.first), sample.SpreadOf(r.last)
	r.Kernel, r.Stored = sample.SpreadOf(r.kernel), sample.SpreadOf(r.stored)
	r.Returned, r.Called, r.Said = sample.SpreadOf(r.returned), sample.SpreadOf(r.told), sample.SpreadOf(r.said)
	r.Injected, r.MPI = sample.SpreadOf(r.injected), sample.SpreadOf(r.mpi)
}

// Failures returns an error that lists the cases with false or missed reports, or nil if there are none.
func (r *Report) Failures() error {
	var all []string
	for _, c := range r.Cases {
		switch {
		case c.Simulated:
		case c.Unseen > 0:
			all = append(all, fmt.Sprintf("%s, %s: %d false reports, %d missed, %d PEs whose models do not see each other", c.Case, c.seriesName(), c.False, c.Missed, c.Unseen))
		case c.False > 0 || c.Missed > 0:
			all = append(all, fmt.Sprintf("%s, %s: %d false reports, %d missed", c.Case, c.seriesName(), c.False, c.Missed))
		}
	}
	return measure.JoinFailures(all)
}
