package noise

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/goshmem/goshmem/internal/lab/measure"
	"github.com/goshmem/goshmem/internal/lab/sample"
)

// Report is the output of --json.
type Report struct {
	Program  []string `json:"program"`
	PEs      int      `json:"pes"`
	Emulate  string   `json:"emulate,omitempty"` // value of --emulate
	Samples  int      `json:"samples"`           // pairs of runs, or rounds
	Warmup   int      `json:"warmup"`
	Seed     uint64   `json:"seed"`
	Watchdog string   `json:"watchdog"` // tier of the runs with detection: best, or the tier in --watchdog
	measure.Machine
	Control     *Control      `json:"control"` // null without --control
	*Comparison               // detection on with off; nil with --heartbeat-period
	Periods     []*Comparison `json:"periods,omitempty"` // each period of --heartbeat-period with off
}

// Comparison compares runs of one kind with those without detection.
type Comparison struct {
	Period string `json:"heartbeat_period,omitempty"` // of the heartbeats; empty: detection is on
	Rows   []Row  `json:"rows"`
	All    Row    `json:"all"` // mean of the rows in each pair; without wall if the program measures itself
}

// Comparisons returns all comparisons.
func (r *Report) Comparisons() []*Comparison {
	if r.Comparison != nil {
		return []*Comparison{r.Comparison}
	}
	return r.Periods
}

// Control is the result of the control: a hog that the samples should find.
type Control struct {
	Percent float64 `json:"percent_of_core"` // processor time that the hog used
	Found   bool    `json:"found"`           // the interval of the overhead lies above 0, for each period

	processor, wall time.Duration
}

// Row is one figure, without and with detection. Percentages are of the mean without detection.
type Row struct {
	Name       string  `json:"name"`
	Test       string  `json:"test"`
	Bytes      int     `json:"bytes,omitempty"`
	Unit       string  `json:"unit,omitempty"`
	Off        *Side   `json:"off,omitempty"`
	On         *Side   `json:"on,omitempty"`
	Overhead   float64 `json:"overhead_percent"`
	Band       float64 `json:"band_percent"`       // one standard deviation without detection, to either side
	Low        float64 `json:"low_percent"`        // lower end of the 95 % interval of the overhead
	High       float64 `json:"high_percent"`       // upper end of that interval
	Detectable float64 `json:"detectable_percent"` // the smallest effect that would have been found
	Maxima     float64 `json:"maxima_percent"`     // the overhead by the maximum of all runs, with and without detection, as the paper has it

	aside bool      // the row is not part of Comparison.All
	off   []float64 // value without detection in each pair, relative to their mean
	diff  []float64 // difference of each pair, relative to the mean without detection
}

// Side is the runs without detection, or those with it.
type Side struct {
	Mean      float64   `json:"mean"`
	Deviation float64   `json:"deviation"`
	Samples   []float64 `json:"samples"`
}

func sideOf(x []float64) *Side {
	return &Side{Mean: sample.Mean(x), Deviation: sample.Deviation(x), Samples: x}
}

func newReport(o *Options) *Report {
	r := &Report{
		Program: o.Program, PEs: o.PEs, Emulate: o.Emulate, Samples: o.Samples, Warmup: o.Warmup, Seed: o.Seed,
		Watchdog: o.Watchdog, Machine: measure.MachineBefore(),
	}
	for _, p := range o.Periods {
		r.Periods = append(r.Periods, &Comparison{Period: p})
	}
	if o.Periods == nil {
		r.Comparison = &Comparison{}
	}
	if r.Watchdog == "" {
		r.Watchdog = "best"
	}
	if o.Control {
		r.Control = &Control{}
	}
	return r
}

// evaluate fills the comparisons from the figures of all pairs: those without detection, and those of each comparison.
func (r *Report) evaluate(offs [][]Figure, variants [][][]Figure) error {
	r.NoteAfter()
	found := true
	for i, c := range r.Comparisons() {
		if err := c.evaluate(offs, variants[i]); err != nil {
			return err
		}
		found = found && (c.Period == off || c.All.Low > 0) // no hog ran beside off
	}
	if r.Control != nil {
		r.Control.Found = found
	}
	return nil
}

// evaluate fills the rows from the figures of all pairs.
func (c *Comparison) evaluate(offs, ons [][]Figure) error {
	for i, f := range offs[0] {
		var x, y []float64
		worst := [2]float64{}
		for p := range offs {
			for _, side := range [][]Figure{offs[p], ons[p]} {
				if len(side) != len(offs[0]) || side[i].Name != f.Name {
					return errors.New("the runs have measured different figures, want the same in each run")
				}
			}
			worst[0], worst[1] = max(worst[0], offs[p][i].worst()), max(worst[1], ons[p][i].worst())
			x, y = append(x, offs[p][i].Value), append(y, ons[p][i].Value)
		}
		row := Row{Name: f.Name, Test: f.Test, Bytes: f.Bytes, Unit: f.Unit, Off: sideOf(x), On: sideOf(y), aside: f.aside}
		if !(row.Off.Mean > 0) || math.IsInf(row.Off.Mean+row.On.Mean, 0) {
			return fmt.Errorf("%s: mean %v %s without detection, want a positive figure", f.Name, row.Off.Mean, f.Unit)
		}
		for p := range x {
			row.off = append(row.off, x[p]/row.Off.Mean)
			row.diff = append(row.diff, (y[p]-x[p])/row.Off.Mean)
		}
		row.computeStatistics()
		row.Maxima = 100 * (worst[1] - worst[0]) / worst[0] // as positive as the mean
		c.Rows = append(c.Rows, row)
	}
	c.All = combine("all", c.countedRows())
	return nil
}

// computeStatistics fills the statistics of a row from its pairs: the overhead by equation (1) of section 5.3, its
// interval, and the band of one standard deviation.
func (row *Row) computeStatistics() {
	e := sample.Paired(row.diff)
	row.Overhead, row.Low, row.High, row.Detectable = 100*e.Mean, 100*e.Low, 100*e.High, 100*e.Detectable
	row.Band = 100 * sample.Deviation(row.off)
}

// countedRows returns the rows that are part of Comparison.All.
func (c *Comparison) countedRows() []Row {
	return slices.DeleteFunc(slices.Clone(c.Rows), func(row Row) bool { return row.aside })
}

// combine returns a row with the mean of the rows in each pair. One combined statement is safer than one for
// each row, of which some would be wrong by chance.
func combine(name string, rows []Row) Row {
	all := Row{Name: name, Test: name}
	for p := range rows[0].off {
		var off, diff float64
		for _, row := range rows {
			off += row.off[p]
			diff += row.diff[p]
		}
		all.off = append(all.off, off/float64(len(rows)))
		all.diff = append(all.diff, diff/float64(len(rows)))
	}
	all.computeStatistics()
	for _, row := range rows {
		all.Maxima += row.Maxima / float64(len(rows))
	}
	return all
}

// ByTest returns the counted rows, with one row for each test: the mean of its rows in each pair.
func (c *Comparison) ByTest() []Row { return byTest(c.countedRows()) }

// Inside says whether the overhead is within the band of natural variability.
func (row *Row) Inside() bool { return math.Abs(row.Overhead) <= row.Band }

// Verdict returns the result in words. It always includes the smallest effect that the samples would have
// shown.
func (r *Report) Verdict() (lines []string) {
	for _, c := range r.Comparisons() {
		lines = append(lines, c.verdict()...)
	}
	switch c := r.Control; {
	case c == nil:
	case c.Found:
		lines = append(lines, fmt.Sprintf("control: the hog, which took %.1f %% of a core, was found", c.Percent))
	default:
		lines = append(lines, fmt.Sprintf("control: the hog, which took %.1f %% of a core, was NOT found: these samples cannot show that detection is quiet; take more, or a quieter machine", c.Percent))
	}
	return lines
}

// verdict returns the result of a comparison in words.
func (c *Comparison) verdict() []string {
	where, of := "outside", ""
	if c.All.Inside() {
		where = "within"
	}
	switch c.Period {
	case "":
	case off:
		of = "off against off: "
	default:
		of = "period " + c.Period + ": "
	}
	return []string{
		fmt.Sprintf("%soverhead %+.2f %%, %s the band of natural variability of %.2f %%; 95 %% interval %+.2f to %+.2f %%",
			of, c.All.Overhead, where, c.All.Band, c.All.Low, c.All.High),
		fmt.Sprintf("%ssmallest effect that these samples would have shown: %.2f %% (95 %% confidence, 80 %% power)", of, c.All.Detectable),
	}
}
