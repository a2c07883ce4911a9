package ftcobench

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/goshmem/goshmem/internal/lab/plot"
)

// PaperTable1 has the rows of Table 1 of the paper: processes, and seconds by faults in the order of AllFaults.
var PaperTable1 = []struct {
	Processes int
	Seconds   [5]float64
}{
	{64, [5]float64{0.0005, 2.0095, 2.0094, 4.0194, 4.0194}},
	{128, [5]float64{0.0006, 2.0123, 2.0123, 4.0221, 4.0222}},
	{256, [5]float64{0.0007, 2.0121, 2.0123, 4.0220, 4.0219}},
	{384, [5]float64{0.0017, 2.0114, 2.0323, 4.0404, 4.0217}},
	{512, [5]float64{0.0024, 2.0343, 2.0110, 4.0421, 4.0422}},
}

// Group is one team: a row of Table 1, and some of Figure 6.
type Group struct{ Nodes, PEs int }

// String names the group.
func (g Group) String() string {
	if g.Nodes > 1 {
		return fmt.Sprintf("%d PEs on %d nodes", g.PEs, g.Nodes)
	}
	return fmt.Sprintf("%d PEs", g.PEs)
}

// short names the group where there is little room.
func (g Group) short() string {
	if g.Nodes > 1 {
		return fmt.Sprintf("%d (%d)", g.PEs, g.Nodes)
	}
	return strconv.Itoa(g.PEs)
}

// Groups returns the groups of the report, each once.
func (r *Report) Groups() (all []Group) {
	for _, c := range r.Cases {
		if g := (Group{c.Nodes, c.PEs}); !slices.Contains(all, g) {
			all = append(all, g)
		}
	}
	return all
}

// Sizes returns how many doubles are reduced in both ways, ascending: those of Figure 6.
func (r *Report) Sizes() (all []int) {
	for _, c := range r.Cases {
		if c.Way == Strict && !slices.Contains(all, c.Doubles) {
			all = append(all, c.Doubles)
		}
	}
	slices.Sort(all)
	return all
}

// Picture draws Figure 6 if the report has it, otherwise Table 1.
func (r *Report) Picture() *plot.Figure {
	if len(r.Sizes()) > 0 {
		return r.figure6()
	}
	return r.table1()
}

// figure6 draws, by team and size, the time of a reduction with and without a fault, tolerant and strict.
func (r *Report) figure6() *plot.Figure {
	f := &plot.Figure{Title: "The latency cost of one fault (FTCO, Figure 6)", XLabel: "PEs (nodes), doubles", YLabel: "ms to the result, median with least and most", LogY: true}
	kinds := []struct{ name, way, faults, when string }{
		{"tolerant, no fault", Tolerant, "none", ""},
		{"strict, no fault", Strict, "none", ""},
		{"tolerant, one fault", Tolerant, "one", Before},
		{"strict, shrink, retry, one fault", Strict, "one", Before},
		{"tolerant, one fault during it", Tolerant, "one", During},
		{"strict, shrink, retry, one fault during it", Strict, "one", During},
	}
	series := make([]plot.Series, len(kinds))
	for _, g := range r.Groups() {
		for _, size := range r.Sizes() {
			at, found := float64(len(f.Names)), false
			for k, kind := range kinds {
				res := r.Find(Case{Nodes: g.Nodes, PEs: g.PEs, Doubles: size, Way: kind.way, Faults: kind.faults, When: kind.when})
				if res != nil {
					found = true
					res.addTo(&series[k], plot.Beside(at, k, len(kinds)))
				}
			}
			if found {
				f.Names = append(f.Names, fmt.Sprintf("%s, %s", g.short(), plot.Power(float64(size))))
			}
		}
	}
	for k := range series {
		if series[k].Name, series[k].Style = kinds[k].name, plot.Published; len(series[k].X) > 0 {
			f.Series = append(f.Series, series[k])
		}
	}
	return f
}

// addTo adds the times of a result to a series.
func (r *Result) addTo(s *plot.Series, x float64) {
	s.AddRange(x, r.Longest.P50, r.Longest.Min, r.Longest.Max)
}

// paperDelay is the timeout in the paper's experiments, in ms: only with it are its times comparable.
const paperDelay = 2000

// table1 draws, by faults, the time of a tolerant reduction of each team.
func (r *Report) table1() *plot.Figure {
	f := &plot.Figure{Title: "Tolerant reduction with faults (FTCO, Table 1)", YLabel: "ms to the result, median with least and most", LogY: true}
	for i := range AllFaults {
		f.Names = append(f.Names, AllFaults[i].Name)
	}
	type line struct {
		Group
		when string
	}
	var lines []line
	for _, g := range r.Groups() {
		for _, when := range MomentNames() {
			if r.Find(Case{Nodes: g.Nodes, PEs: g.PEs, Doubles: 1, Way: Tolerant, Faults: "one", When: when}) != nil {
				lines = append(lines, line{g, when})
			}
		}
	}
	for k, l := range lines {
		s := plot.Series{Name: fmt.Sprintf("%v, %s", l.Group, l.when), Style: plot.Published}
		for i := range AllFaults {
			c := Case{Nodes: l.Nodes, PEs: l.PEs, Doubles: 1, Way: Tolerant, Faults: AllFaults[i].Name, When: l.when}
			if c.Faults == "none" {
				c.When = ""
			}
			if res := r.Find(c); res != nil {
				res.addTo(&s, plot.Beside(float64(i), k, len(lines)))
			}
		}
		f.Series = append(f.Series, s)
	}
	if r.NoticeDelay == paperDelay && len(lines) > 0 {
		paper := PaperTable1[0]
		s := plot.Series{Name: fmt.Sprintf("paper: %d processes", paper.Processes), Style: plot.Dashed}
		for i, seconds := range paper.Seconds {
			s.Add(float64(i), 1000*seconds)
		}
		f.Series = append(f.Series, s)
	}
	return f
}
