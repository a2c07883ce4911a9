package detectfigures

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goshmem/goshmem/internal/lab/plot"
)

// newPicture returns the picture of a figure, without series.
func (f *Figure) newPicture(xLabel string) *plot.Figure {
	return &plot.Figure{
		Title:  fmt.Sprintf("%s (Zhong et al., Figure %s)", f.Title, f.Name),
		XLabel: xLabel, YLabel: "ms until all survivors know", LogY: true,
	}
}

// over draws the times of each kind of rows over a number of the row: the medians with the least and the greatest. Series
// stand side by side at each number, so that no spread hides another one. 0 is no number.
func (f *Figure) over(p *plot.Figure, x func(*Row) float64) *plot.Figure {
	var series []string
	var numbers []float64
	for _, r := range f.Rows {
		if !r.isDrawn() {
			continue
		}
		if !slices.Contains(series, r.series()) {
			series = append(series, r.series())
		}
		numbers = append(numbers, x(r))
	}
	if len(series) == 0 {
		return p
	}
	var published []Published
	for _, pub := range f.Paper {
		at := x(&Row{Nodes: pub.Nodes, PEs: pub.PEs, Period: pub.Period})
		if pub.Says != "" || at == 0 {
			continue
		}
		published, numbers = append(published, pub), append(numbers, at)
		if !slices.Contains(series, pub.series()) {
			series = append(series, pub.series())
		}
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	for _, n := range numbers {
		p.Names = append(p.Names, number(n))
	}
	place := func(n float64, i int) float64 { return plot.Around(float64(slices.Index(numbers, n)), i, len(series)) }
	for i, name := range series {
		s := plot.Series{Name: name}
		for _, r := range f.Rows {
			if r.isDrawn() && r.series() == name {
				s.AddRange(place(x(r), i), r.Last.P50, r.Last.Min, r.Last.Max)
			}
		}
		for _, pub := range published {
			if pub.series() == name {
				s.Style = plot.Published
				low, middle, high := pub.drawn()
				s.AddRange(place(x(&Row{Nodes: pub.Nodes, PEs: pub.PEs, Period: pub.Period}), i), middle, low, high)
			}
		}
		p.Series = append(p.Series, s)
	}
	return p
}

// isDrawn says whether the row has times that a logarithmic axis can show.
func (r *Row) isDrawn() bool { return r.Last != nil && r.Last.Min > 0 }

// series returns what a picture calls the published points of a detector. A bound is drawn as a point.
func (p *Published) series() string {
	switch {
	case p.Least == 0:
		return "paper: " + p.Detector + ", below"
	case p.Most == 0:
		return "paper: " + p.Detector + ", more than"
	}
	return "paper: " + p.Detector
}

// drawn returns the ends and the middle of a published range, or a bound three times.
func (p *Published) drawn() (low, middle, high float64) {
	low, high = p.Least, p.Most
	if low == 0 {
		low = high
	}
	if high == 0 {
		high = low
	}
	return low, (low + high) / 2, high
}

func overPEs(f *Figure) *plot.Figure {
	return f.over(f.newPicture("processes"), func(r *Row) float64 { return float64(r.PEs) })
}

func overNodes(f *Figure) *plot.Figure {
	return f.over(f.newPicture("nodes"), func(r *Row) float64 { return float64(r.Nodes) })
}

func overPeriod(f *Figure) *plot.Figure {
	return f.over(f.newPicture("heartbeat period, ms"), func(r *Row) float64 { return r.Period })
}

// byCase returns the figure with a series for each case.
func (f *Figure) byCase() *Figure {
	all := *f
	all.Rows = nil
	for _, r := range f.Rows {
		kind, _, _ := strings.Cut(r.Case, ":")
		row := *r
		row.Detector += ", " + kind
		all.Rows = append(all.Rows, &row)
	}
	return &all
}

// overModels draws the models of hybrid programs, deaths of PEs apart from those of nodes.
func overModels(f *Figure) *plot.Figure { return overNodes(f.byCase()) }

// overDead draws contiguous and random deaths as series of their own.
func overDead(f *Figure) *plot.Figure {
	return f.byCase().over(f.newPicture("nodes that die at once"), func(r *Row) float64 {
		_, number, _ := strings.Cut(r.Case, ":")
		k, _ := strconv.Atoi(number)
		return float64(k)
	})
}
