package detectfigures

import (
	"fmt"

	"github.com/goshmem/goshmem/internal/lab/sample"
)

// Table returns the rows of the figure, ours and then the paper's, with a header.
func (f *Figure) Table() [][]string {
	if f.spec.table != nil {
		return f.spec.table(f)
	}
	rows := [][]string{{"HOW", "DETECTOR", "CASE", "NODES", "PES", "PERIOD MS", "SAMPLES", "FIRST MS", "LAST MS", "FALSE", "MISSED"}}
	for _, r := range f.Rows {
		if r.Samples == 0 {
			continue
		}
		rows = append(rows, []string{
			r.How, r.Detector, r.Case, fmt.Sprint(r.Nodes), fmt.Sprint(r.PEs), number(r.Period), fmt.Sprint(r.Samples),
			spread(r.First), spread(r.Last), fmt.Sprint(r.False), fmt.Sprint(r.Missed),
		})
	}
	for _, p := range f.Paper {
		rows = append(rows, []string{
			"paper, " + p.Section, p.Detector, p.Case, number(float64(p.Nodes)), number(float64(p.PEs)), number(p.Period), "-", "-", p.bounds(), "-", "-",
		})
	}
	return rows
}

// Notes returns what stands below the table.
func (f *Figure) Notes() (lines []string) {
	for i := range f.Fits {
		lines = append(lines, f.Fits[i].String())
	}
	if f.Noise != nil {
		lines = append(lines, f.sayNoise())
	}
	if f.Name == "16" {
		lines = append(lines, f.sayModels())
	}
	for _, r := range f.Rows {
		switch {
		case r.Failed > 0:
			lines = append(lines, fmt.Sprintf("%d jobs failed: %s, %d nodes, %g ms: %s", r.Failed, r.Case, r.Nodes, r.Period, r.NotHere))
		case r.NotHere != "":
			lines = append(lines, fmt.Sprintf("not available here: %s, %d nodes: %s", r.Case, r.Nodes, r.NotHere))
		}
	}
	return lines
}

// number returns a cell with a number, or "-" for 0.
func number(v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%g", v)
}

// spread returns a cell with the median, and the least and the greatest value.
func spread(s *sample.Spread) string {
	if s == nil {
		return "-"
	}
	return fmt.Sprintf("%s (%s to %s)", digits(s.P50), digits(s.Min), digits(s.Max))
}

// digits returns a time with three digits, or with all before the point.
func digits(ms float64) string {
	if ms >= 1000 {
		return fmt.Sprintf("%.0f", ms)
	}
	return fmt.Sprintf("%.3g", ms)
}

// sayModels says whether the models of hybrid programs have seen each other.
func (f *Figure) sayModels() string {
	jobs, unseen := 0, 0
	for _, r := range f.Rows {
		if r.Detector == hybridViews[0] {
			jobs, unseen = jobs+r.Samples, unseen+r.Unseen
		}
	}
	return fmt.Sprintf("declarations: %d of the survivors of %d jobs have a model that did not see the other one's declaration, or not the same deaths", unseen, jobs)
}
