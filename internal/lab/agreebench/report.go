package agreebench

import (
	"fmt"
	"time"

	"github.com/goshmem/goshmem/internal/lab/measure"
	"github.com/goshmem/goshmem/internal/lab/sample"
)

// Report is the output of --json.
type Report struct {
	measure.Head
	Who     string `json:"who"`     // which PEs died
	Jobs    int    `json:"jobs"`    // of each cell
	Samples int    `json:"samples"` // of each variant in a job
	Calls   int    `json:"calls"`   // agreements in a sample
	measure.Machine
	Results []*Result `json:"results"`
}

const (
	programName   = "goshmem agree-bench"
	reportVersion = 1
)

// Result is the result of a variant in a cell. Times are in microseconds for one agreement.
type Result struct {
	PEs     int   `json:"pes"` // with the dead ones
	Dead    int   `json:"dead"`
	Victims []int `json:"victims"`
	Variant
	Samples     int            `json:"samples"`
	Coordinator *sample.Spread `json:"coordinator_us"`
	All         *sample.Spread `json:"all_us"`
	Times       float64        `json:"times_allreduce"` // All divided by the allreduce of the same round, median; 0: no allreduce

	Wrong    int    `json:"wrong"`    // decisions of survivors that do not follow from the votes
	Differed int    `json:"differed"` // samples in which two survivors decided differently
	What     string `json:"what,omitempty"`

	coordinator, all []float64
}

// newResults returns the results of a cell, without samples.
func newResults(c cell, p plan) (list []*Result) {
	for _, v := range p.Variants {
		list = append(list, &Result{PEs: c.pes, Dead: c.dead, Victims: p.Dead, Variant: v})
	}
	return list
}

// add adds what the survivors of a job did in the turns of variant v.
func (r *Result) add(p *plan, s survivors, v int) {
	for i := range p.Samples {
		coordinator, all := r.addBatch(s, i, v)
		r.coordinator = append(r.coordinator, measure.Microseconds(coordinator)/float64(p.Calls))
		r.all = append(r.all, measure.Microseconds(all)/float64(p.Calls))
	}
	r.Samples += p.Samples
}

// addBatch counts what is wrong in a batch of variant v. It returns the batch's time at the coordinator and over all
// survivors.
func (r *Result) addBatch(s survivors, number, v int) (coordinator, all time.Duration) {
	first := s[0][number].Batches[v] // of PE 0, which lives
	began, ended := first.Began, first.Ended
	differs := false
	for _, rounds := range s {
		if rounds == nil {
			continue
		}
		b := &rounds[number].Batches[v]
		began, ended = min(began, b.Began), max(ended, b.Ended)
		differs = differs || b.Digest != first.Digest
		r.Wrong += b.Wrong
		if b.What != "" {
			r.What = b.What
		}
	}
	if differs {
		r.Differed++
	}
	return first.Ended - first.Began, ended - began
}

// fillSpreads fills the spreads of a cell's results, and compares each batch with the allreduce of its round. So a change
// of the machine during the measurement falls out.
func fillSpreads(cell []*Result) {
	var base []float64
	for _, r := range cell {
		r.Coordinator, r.All = sample.SpreadOf(r.coordinator), sample.SpreadOf(r.all)
		if r.Algorithm == Allreduce {
			base = r.all
		}
	}
	if base == nil {
		return
	}
	for _, r := range cell {
		times := make([]float64, len(base))
		for i := range base {
			times[i] = r.all[i] / base[i]
		}
		r.Times = sample.SpreadOf(times).P50
	}
}

// Failures returns an error that lists the results with wrong decisions, or nil if there are none.
func (r *Report) Failures() error {
	var all []string
	for _, c := range r.Results {
		if c.Wrong == 0 && c.Differed == 0 {
			continue
		}
		text := fmt.Sprintf("%d PEs, %d dead, %s: %d wrong decisions, survivors differ in %d samples", c.PEs, c.Dead, c.Variant, c.Wrong, c.Differed)
		if c.What != "" {
			text += " (" + c.What + ")"
		}
		all = append(all, text)
	}
	return measure.JoinFailures(all)
}
