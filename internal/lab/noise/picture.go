package noise

import (
	"fmt"
	"strings"

	"github.com/goshmem/goshmem/internal/lab/plot"
)

// mostNames is the number of names that fit below a figure.
const mostNames = 12

// Picture draws the overhead with its interval, over the band of natural variability. The x axis has the sizes
// of a single test, or names; with more than mostNames rows, the rows of each test are combined.
func (r *Report) Picture() *plot.Figure {
	f := &plot.Figure{
		Title:  fmt.Sprintf("Overhead of failure detection (%s): %s, %d PEs", r.Watchdog, strings.Join(r.Program, " "), r.PEs),
		YLabel: "overhead, % of the mean without",
	}
	if r.Control != nil { // the figure shows the hog's effect
		f.Title = fmt.Sprintf("Control: %s with a hog of %.1f %% of a core, %d PEs", strings.Join(r.Program, " "), r.Control.Percent, r.PEs)
	}
	rows := r.countedRows()
	if sized(rows) {
		f.XLabel, f.LogX = "bytes", true
	} else {
		if len(r.Rows) <= mostNames {
			rows = r.Rows
		} else {
			rows = byTest(rows)
		}
		for _, row := range rows {
			f.Names = append(f.Names, row.Name)
		}
	}
	band := plot.Series{Name: "natural variability, mean ± σ without", Style: plot.Band}
	points := plot.Series{Name: "with detection, 95 % interval"}
	for i, row := range rows {
		x := float64(i)
		if f.LogX {
			x = float64(row.Bytes)
		}
		band.AddRange(x, 0, -row.Band, row.Band)
		points.AddRange(x, row.Overhead, row.Low, row.High)
	}
	if !f.LogX {
		points.Style = plot.Published // marks alone: a line between names means nothing
	}
	f.Series = []plot.Series{band, points}
	return f
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
