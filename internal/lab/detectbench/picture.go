package detectbench

import (
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/internal/lab/plot"
	"github.com/goshmem/goshmem/internal/lab/sample"
)

// paperLimit is the limit in section 5.5 for process failures on up to 64 nodes, in milliseconds: "detection and
// propagation time is less than 5 milliseconds".
const paperLimit = 5

// Picture draws when the last survivor's blocked call returns, by case and tier, beside the paper's limit. For
// a stop, which is no death, it draws when oshrun reports it. Between nodes, each detector, tier and period is a series of
// its own.
func (r *Report) Picture() *plot.Figure {
	f := &plot.Figure{
		Title:  "From the failure of a PE to the last survivor's return",
		YLabel: "ms, median with least and most", LogY: true,
	}
	if r.Emulate != "" {
		f.Title = fmt.Sprintf("From a failure to the last return on the other nodes; --emulate %s", r.Emulate)
	}
	var series []string
	for _, c := range r.Cases {
		if c.latency() == nil {
			continue
		}
		if !slices.Contains(f.Names, c.Case) {
			f.Names = append(f.Names, c.Case)
		}
		if !slices.Contains(series, c.seriesName()) {
			series = append(series, c.seriesName())
		}
	}
	for i, name := range series {
		s := plot.Series{Name: name, Style: plot.Published}
		for _, c := range r.Cases {
			l := c.latency()
			if l == nil || c.seriesName() != name {
				continue
			}
			s.AddRange(plot.Beside(float64(slices.Index(f.Names, c.Case)), i, len(series)), l.P50, l.Min, l.Max)
		}
		f.Series = append(f.Series, s)
	}
	if r.Emulate != "" {
		return f
	}
	f.AddLevel(fmt.Sprintf("paper: below %d ms, 64 nodes", paperLimit), paperLimit)
	return f
}

// latency returns the spread of a result that Picture draws.
func (r *Result) latency() *sample.Spread {
	if r.of.stops {
		return r.Said
	}
	return r.Last
}

// seriesName returns the name of the series that a result belongs to.
func (r *Result) seriesName() string {
	if r.Detector == "" {
		return r.Tier
	}
	name := fmt.Sprintf("%s, tier %s", r.Detector, r.Tier)
	if r.Simulated {
		name = r.Tier
	}
	if r.Period > 0 {
		name += fmt.Sprintf(", %v ms", r.Period)
	}
	return name
}
