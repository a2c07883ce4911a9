package detectfigures

import (
	"context"
	"strings"
	"time"

	"github.com/goshmem/goshmem/internal/lab/detectbench"
	"github.com/goshmem/goshmem/internal/lab/sample"
	"github.com/goshmem/goshmem/sim/detect"
)

// trial is one failure in a real job.
type trial struct {
	views        []view // as many as the experiment has rows; none: no survivor knew
	tier         string
	falseReports int
	missed       int
	unseen       int
	notHere      string // why no job ran
}

// view is when the first and the last survivor learned of a failure in one way, in milliseconds.
type view struct{ first, last float64 }

// emulate lets something fail in one real job.
func (o *Options) emulate(ctx context.Context, e *experiment, seed uint64) (*trial, error) {
	n := detectbench.NodeOptions{
		Cases: []string{e.fails}, Samples: 1, Nodes: e.nodes, PEs: e.nodes * e.pes, Seed: seed, Hybrid: e.detector == hybrid, Traffic: e.traffic, Calm: e.calm, Loss: e.loss,
		// Without a network of its own, a node's death is told by the end of connections, not by silence.
		Apart:    e.fails != processDeath && e.fails != noDeath || e.loss > 0,
		Watchdog: detectbench.Best, Tiers: o.Tiers, Program: o.Program,
	}
	if e.period > 0 {
		n.HeartbeatPeriods = []time.Duration{e.period}
	}
	r, err := detectbench.MeasureNodes(ctx, n)
	if err != nil && e.fails == noDeath && strings.Contains(err.Error(), lossMessage) {
		return &trial{falseReports: 1}, nil // the job has ended by it
	}
	if err != nil {
		return nil, err
	}
	c := r.Cases[0]
	t := &trial{tier: c.Tier, falseReports: c.False, missed: c.Missed, unseen: c.Unseen, notHere: c.NotHere}
	spreads := []*sample.Spread{c.Returned} // of one failure: from the first to the last survivor
	if n.Hybrid {
		spreads = append(spreads, c.Called, c.MPI)
	}
	for _, s := range spreads {
		if s != nil {
			t.views = append(t.views, view{s.Min, s.Max})
		}
	}
	return t, nil
}

// lossMessage is in oshrun's message of a node's loss.
const lossMessage = " is lost "

// trials are those of one experiment.
type trials struct {
	views   [][]view // of each trial
	row     Row
	failure string // the first error of a job
}

// add adds a trial, or the error of a job that ended in an unexpected way.
func (a *trials) add(t *trial, err error) {
	if err != nil {
		a.row.Failed++
		if a.failure == "" {
			a.failure = err.Error()
		}
		return
	}
	a.row.Tier = t.tier
	if t.notHere != "" {
		a.row.NotHere = t.notHere
		return
	}
	a.row.Samples++
	a.row.False += t.falseReports
	a.row.Missed += t.missed
	a.row.Unseen += t.unseen
	a.views = append(a.views, t.views)
}

// fill fills the rows of the experiment.
func (a *trials) fill(rows []*Row) {
	for i, row := range rows {
		row.Samples, row.Tier, row.False, row.Missed, row.Failed, row.Unseen = a.row.Samples, a.row.Tier, a.row.False, a.row.Missed, a.row.Failed, a.row.Unseen
		row.NotHere = a.row.NotHere
		if a.failure != "" {
			row.NotHere = a.failure
		}
		var first, last []float64
		for _, v := range a.views {
			if len(v) == len(rows) {
				first, last = append(first, v[i].first), append(last, v[i].last)
			}
		}
		row.First, row.Last = sample.SpreadOf(first), sample.SpreadOf(last)
	}
}

// simulate does a simulated experiment and fills its row.
func (o *Options) simulate(e *experiment, row *Row) error {
	s := detect.Defaults()
	s.Nodes, s.Fail, s.Samples, s.Seed, s.Parallel = e.nodes, e.fails, o.SimSamples, o.Seed, o.Parallel
	if e.period > 0 {
		s.Period = e.period
	}
	switch e.fails {
	case processDeath:
		s.Fail, s.Death = "random:1", "pe"
	case "node":
		s.Fail = "random:1"
	}
	if e.fails == noDeath {
		s.Fail, s.Duration, s.Loss, s.Samples = noDeath, observed, e.loss, min(lossy, o.SimSamples)
	}
	s.Literal = e.detector == literal || e.detector == perPE
	if e.detector == oursUser {
		s.Tier = "user"
	}
	if e.detector == perPE {
		s.PEs = e.pes
	}
	r, err := detect.Run(s)
	if err != nil {
		return err
	}
	row.Tier, row.Samples, row.False, row.Missed = r.Tier, r.Samples, r.FalseReports, r.Missed
	row.First, row.Last = spreadOf(r.First), spreadOf(r.Last)
	return nil
}

// spreadOf returns the spread of a simulated figure.
func spreadOf(f *detect.Figure) *sample.Spread {
	if f == nil {
		return nil
	}
	return &sample.Spread{Min: f.Min, P50: f.P50, Max: f.Max}
}
