package noise

import (
	"fmt"
	"strings"

	"github.com/goshmem/goshmem/internal/lab/plot"
)

// mostNames is the number of names that fit below a figure.
const mostNames = 12

// Picture draws the overheads with their intervals, over the band of natural variability. The x axis has the sizes
// of a single test, or names; with more than mostNames rows, the rows of each test are combined.
func (r *Report) Picture() *plot.Figure {
	f := &plot.Figure{
		Title:  fmt.Sprintf("Overhead of failure detection (%s): %s, %d PEs", r.Watchdog, strings.Join(r.Program, " "), r.PEs),
		YLabel: "overhead, % of the mean without",
	}
	if r.Emulate != "" {
		f.Title += ", --emulate " + r.Emulate
	}
	if r.Control != nil { // the figure shows the hog's effect
		f.Title = fmt.Sprintf("Control: %s with a hog of %.1f %% of a core, %d PEs", strings.Join(r.Program, " "), r.Control.Percent, r.PEs)
	}
	all := r.Comparisons()
	if sized(all[0].countedRows()) {
		f.XLabel, f.LogX = "bytes", true
	}
	f.Series = []plot.Series{{Name: "natural variability, mean ± σ without", Style: plot.Band}}
	for i, c := range all {
		points := plot.Series{Name: c.legend() + ", 95 % interval"}
		if !f.LogX {
			points.Style = plot.Published // marks alone: a line between names means nothing
		}
		for k, row := range c.drawnRows(f.LogX) {
			middle, x := float64(k), plot.Beside(float64(k), i, len(all))
			if f.LogX {
				middle, x = float64(row.Bytes), float64(row.Bytes)
			}
			points.AddRange(x, row.Overhead, row.Low, row.High)
			if i > 0 { // the runs without detection are the same in all comparisons
				continue
			}
			f.Series[0].AddRange(middle, 0, -row.Band, row.Band)
			if !f.LogX {
				f.Names = append(f.Names, row.Name)
			}
		}
		f.Series = append(f.Series, points)
	}
	return f
}

// drawnRows returns the rows that are drawn: the sizes of a single test, or names.
func (c *Comparison) drawnRows(sizes bool) []Row {
	switch rows := c.countedRows(); {
	case sizes:
		return rows
	case len(c.Rows) <= mostNames:
		return c.Rows
	default:
		return byTest(rows)
	}
}

// legend returns how a picture names the runs that are compared with those without detection.
func (c *Comparison) legend() string {
	switch c.Period {
	case "":
		return "with detection"
	case off:
		return "off again"
	}
	return "period " + c.Period
}

// sized says whether all rows are sizes of one test.
func sized(rows []Row) bool {
	for _, row := range rows {
		if row.Bytes == 0 || row.Test != rows[0].Test {
			return false
		}
	}
	return len(rows) > 1
}

// byTest combines the rows of each test.
func byTest(rows []Row) []Row {
	var tests []Row
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n].Test == rows[0].Test {
			n++
		}
		tests = append(tests, combine(rows[0].Test, rows[:n]))
		rows = rows[n:]
	}
	return tests
}
