package detectbench

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goshmem/goshmem/internal/lab/measure"
	"github.com/goshmem/goshmem/internal/lab/sample"
	"github.com/goshmem/goshmem/sim/detect"
)

// BaselineNames are the detectors that stand beside that of the jobs. They are simulated: no job has them.
var BaselineNames = []string{"literal", "prrte"}

// simulated ends the tier of baselines in reports.
const simulated = ", simulated"

// checkBaselines returns an error that names the first unknown baseline.
func (o *NodeOptions) checkBaselines() error {
	for _, name := range o.Baselines {
		switch {
		case name == "swim":
			return fmt.Errorf("--baseline: %q, want %s: SWIM is measured by swimbench, and oshrun detect-figures --swim sets it beside ours", name, strings.Join(BaselineNames, " or "))
		case !slices.Contains(BaselineNames, name):
			return fmt.Errorf("--baseline: %q, want some of %s", name, strings.Join(BaselineNames, ", "))
		}
	}
	return nil
}

// addBaselines adds the rows of the baselines, for each case and each period.
func (b *nodeBench) addBaselines(r *Report, cases []NodeCase) error {
	periods := b.HeartbeatPeriods
	if len(periods) == 0 {
		periods = []time.Duration{usualPeriod}
	}
	for _, name := range b.Baselines {
		for i := range cases {
			for _, p := range periods {
				res, err := b.simulate(name, &cases[i], p)
				if err != nil {
					return err
				}
				r.Cases = append(r.Cases, res)
			}
		}
	}
	return nil
}

// simulate runs a case with the paper's algorithm in virtual time. Each PE is a member; if nodes have different numbers of
// PEs, the largest counts.
func (b *nodeBench) simulate(name string, c *NodeCase, period time.Duration) (*Result, error) {
	o := detect.Defaults()
	o.Nodes, o.PEs, o.Period, o.Samples, o.Seed = b.Nodes, (b.PEs+b.Nodes-1)/b.Nodes, period, b.Samples, b.Seed
	o.Loss = b.Loss
	o.Literal, o.PRRTE = name == "literal", name == "prrte"
	res := &Result{
		Case: c.Name, Nodes: b.Nodes, PEs: o.Nodes * o.PEs, Detector: name, Tier: name + simulated, Period: measure.Milliseconds(period), Simulated: true,
	}
	switch {
	case c.part == agentProcess:
		res.NotHere = "the paper has no agents"
		return res, nil
	case c.part == nothing:
		o.Fail, o.Duration = "none", b.calm()
	case c.part == onePE:
		o.Fail, o.Death = "random:1", "pe"
	case c.takes:
		o.Fail = c.Name
	default: // a daemon whose heartbeats stop, by its end or with its network
		o.Fail = "random:1"
	}
	r, err := detect.Run(o)
	if err != nil {
		return nil, fmt.Errorf("--baseline %s, case %s: %w", name, c.Name, err)
	}
	res.Samples, res.False, res.Missed = r.Samples, r.FalseReports, r.Missed
	if r.First != nil && r.Last != nil {
		res.First = &sample.Spread{Min: r.First.Min, P50: r.First.P50, Max: r.First.Max}
		res.Last = &sample.Spread{Min: r.Last.Min, P50: r.Last.P50, Max: r.Last.Max}
	}
	return res, nil
}
