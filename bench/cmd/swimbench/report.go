package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime/debug"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/goshmem/goshmem/internal/lab/measure"
	"github.com/goshmem/goshmem/internal/lab/sample"
)

// report is the output of --json.
type report struct {
	measure.Head
	Memberlist string `json:"memberlist"` // version of the module
	measure.Machine
	Rows []row `json:"rows"`
}

// row is the samples of one setting. Times are null if no sample has them.
type row struct {
	Detector   string         `json:"detector"` // "swim"
	Config     string         `json:"config"`
	Members    int            `json:"members"`
	PeriodMS   float64        `json:"period_ms"`
	Nice       int            `json:"nice"`                   // of the members; 0: that of the harness
	Busy       int            `json:"busy"`                   // busy loops
	IdleS      float64        `json:"idle_s"`                 // time without a kill; 0: one member is killed
	Samples    int            `json:"samples"`                // groups
	NotStarted int            `json:"not_started"`            // groups among them whose members never all saw each other
	First      *sample.Spread `json:"first_ms"`               // from the kill until a survivor reports the victim
	Last       *sample.Spread `json:"last_ms"`                // until every survivor does, of groups in which none missed it
	Rate       *sample.Spread `json:"datagrams_per_member_s"` // before the kill
	False      int            `json:"false_reports"`          // reports of living members, by all members of all groups
	Missed     int            `json:"missed"`                 // survivors, of all groups, that did not report the victim
}

func newReport(o *options) *report {
	return &report{
		Head: measure.Head{Program: "swimbench", Version: 1, Seed: o.seed}, Memberlist: memberlistVersion(),
		Machine: measure.MachineBefore(),
	}
}

// memberlistVersion returns the version of memberlist in this binary.
func memberlistVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/hashicorp/memberlist" {
				return m.Version
			}
		}
	}
	return "unknown"
}

// row returns the row of the samples of a setting.
func (o *options) row(c *setting, all []sampled) row {
	r := row{
		Detector: "swim", Config: c.config, Members: c.members, PeriodMS: measure.Milliseconds(c.period), Nice: o.nice, Busy: o.busy,
		IdleS: o.idle.Seconds(), Samples: len(all),
	}
	var first, last, rate []float64
	for i := range all {
		s := &all[i]
		r.False += s.falseReports
		r.Missed += s.missed
		if !s.started {
			r.NotStarted++
		}
		first, last = appendTime(first, s.first), appendTime(last, s.last)
		if s.rate > 0 {
			rate = append(rate, s.rate)
		}
	}
	r.First, r.Last, r.Rate = sample.SpreadOf(first), sample.SpreadOf(last), sample.SpreadOf(rate)
	return r
}

// appendTime appends a time in milliseconds, unless it is 0.
func appendTime(x []float64, d time.Duration) []float64 {
	if d == 0 {
		return x
	}
	return append(x, measure.Milliseconds(d))
}

// write prints the report as JSON or as a table.
func (r *report) write(w io.Writer, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	fmt.Fprintf(w, "memberlist %s; ms from the kill: median (least to most); seed %d, %d processors, load %s before, %s after\n",
		r.Memberlist, r.Seed, r.CPUs, r.Load[0], r.Load[1])
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CONFIG\tMEMBERS\tPERIOD MS\tNICE\tBUSY\tIDLE S\tGROUPS\tNOT STARTED\tFIRST\tLAST\tDATAGRAMS/S\tFALSE\tMISSED")
	for _, x := range r.Rows {
		fmt.Fprintf(t, "%s\t%d\t%g\t%d\t%d\t%g\t%d\t%d\t%s\t%s\t%s\t%d\t%d\n", x.Config, x.Members, x.PeriodMS, x.Nice, x.Busy, x.IdleS,
			x.Samples, x.NotStarted, spread(x.First), spread(x.Last), spread(x.Rate), x.False, x.Missed)
	}
	return t.Flush()
}

// spread returns a cell of the table.
func spread(s *sample.Spread) string {
	if s == nil {
		return "-"
	}
	cell := func(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }
	return cell(s.P50) + " (" + cell(s.Min) + " to " + cell(s.Max) + ")"
}
