package figures

import (
	"fmt"
	"strconv"

	"github.com/goshmem/goshmem/internal/lab/plot"
	"github.com/goshmem/goshmem/sim/ftco"
)

// runs returns the number of runs with failures for a number of nodes. Above 4096 nodes it falls, so that each
// size takes the same work, but not below 4.
func (o *Options) runs(nodes int) int {
	return max(min(o.Runs, 4), min(o.Runs, o.Runs*4096/nodes))
}

// faultLine is a series over the number of nodes, with count failures of one kind.
type faultLine struct {
	kind   string // inactive or online
	count  int
	series plot.Series
}

// faults is one of Figures 8 to 10.
type faults struct {
	title, yLabel string
	kinds         []string
	style         plot.Style
	ours          func(r *ftco.Report, base *ftco.BestLine, count int) float64
	published     func(row ftco.FaultRow, base *ftco.BestLine, nodes, count int) float64
	base          func(base *ftco.BestLine, nodes int) float64 // value without failures; nil: values are no penalties
}

// figure8 draws the latency penalty of each inactive node.
func figure8(o *Options, data *ftco.Data) drawing {
	return faults{
		title: "Latency penalty of each inactive node (FTCO, Figure 8)", yLabel: "steps", kinds: []string{"inactive"}, style: plot.Bars,
		ours: func(r *ftco.Report, base *ftco.BestLine, count int) float64 {
			return (r.Latency.Mean - float64(base.Latency)) / float64(count)
		},
		published: func(row ftco.FaultRow, base *ftco.BestLine, _, count int) float64 {
			return (row.Latency - float64(base.Latency)) / float64(count)
		},
		base: func(base *ftco.BestLine, _ int) float64 { return float64(base.Latency) },
	}.drawing(o, data)
}

// figure9 draws the work penalty of each inactive node.
func figure9(o *Options, data *ftco.Data) drawing {
	work := func(base *ftco.BestLine, nodes int) float64 { return float64(base.Work) / float64(nodes) }
	return faults{
		title: "Work penalty of each inactive node (FTCO, Figure 9)", yLabel: "messages per node", kinds: []string{"inactive"}, style: plot.Bars,
		ours: func(r *ftco.Report, base *ftco.BestLine, count int) float64 {
			return (r.Messages.Mean - work(base, r.Options.Nodes)) / float64(count)
		},
		published: func(row ftco.FaultRow, base *ftco.BestLine, nodes, count int) float64 {
			return (row.Work - work(base, nodes)) / float64(count)
		},
		base: work,
	}.drawing(o, data)
}

// figure10 draws the latency with inactive nodes and with run-time faults.
func figure10(o *Options, data *ftco.Data) drawing {
	return faults{
		title: "Latency with failures (FTCO, Figure 10)", yLabel: "steps", kinds: []string{"inactive", "online"}, style: plot.Line,
		ours:      func(r *ftco.Report, _ *ftco.BestLine, _ int) float64 { return r.Latency.Mean },
		published: func(row ftco.FaultRow, _ *ftco.BestLine, _, _ int) float64 { return row.Latency },
	}.drawing(o, data)
}

// drawing returns the drawing of a figure: a line or a row of bars for each number of failures.
func (f faults) drawing(o *Options, data *ftco.Data) (d drawing) {
	var sizes []int
	for _, n := range sortedKeys(data.Faults) {
		if n <= o.Nodes {
			sizes = append(sizes, n)
		}
	}
	words := map[string]string{"inactive": "inactive", "online": "run-time"}
	var lines []faultLine
	for _, count := range []int{1, 10, 100} {
		for _, kind := range f.kinds {
			s := newSeries(fmt.Sprintf("%d %s", count, words[kind]), f.style, sizes)
			lines = append(lines, faultLine{kind, count, s})
		}
	}
	for i, n := range sizes {
		base := data.BestLine[strconv.Itoa(n)]
		for l := range lines {
			d.jobs = append(d.jobs, func() error {
				r, err := o.runExperiment(func(q *ftco.Options) {
					q.Nodes, q.Radix, q.Runs = n, base.Radix, o.runs(n)
					if lines[l].kind == "inactive" {
						q.Inactive = lines[l].count
					} else {
						q.Online = lines[l].count
					}
				})
				if err == nil {
					lines[l].series.Y[i] = f.ours(r, &base, lines[l].count)
				}
				return err
			})
		}
	}
	d.make = func() (*plot.Figure, string) { return f.figure(o, data, sizes, lines) }
	return d
}

// figure draws the computed lines or bars, and the published points beside them.
func (f faults) figure(o *Options, data *ftco.Data, sizes []int, lines []faultLine) (*plot.Figure, string) {
	fig := &plot.Figure{Title: f.title, XLabel: "nodes", YLabel: f.yLabel, LogX: f.style == plot.Line}
	published := plot.Series{Name: "published", Style: plot.Published}
	var far deviation
	for l := range lines {
		s := &lines[l].series
		for i, n := range sizes {
			base := data.BestLine[strconv.Itoa(n)]
			row := data.Faults[strconv.Itoa(n)][lines[l].kind][strconv.Itoa(lines[l].count)]
			y := f.published(row, &base, n, lines[l].count)
			whole := func(y float64) float64 { return y }
			if f.base != nil { // compare whole values: penalties are small, and their quotients say little
				whole = func(y float64) float64 { return y*float64(lines[l].count) + f.base(&base, n) }
			}
			far.compare(whole(s.Y[i]), whole(y), "%s of %d nodes", s.Name, n)
			x := float64(n)
			if f.style == plot.Bars {
				x = plot.Beside(float64(i), l, len(lines))
				s.X[i] = float64(i)
			}
			published.Add(x, y)
		}
		fig.Series = append(fig.Series, *s)
	}
	if f.style == plot.Bars {
		for _, n := range sizes {
			fig.Names = append(fig.Names, plot.Power(float64(n)))
		}
	}
	fig.Series = append(fig.Series, published)
	if len(sizes) == 0 {
		return fig, "no size computed"
	}
	return fig, fmt.Sprintf("%d to %d nodes, %d to %d runs each: %v", sizes[0], sizes[len(sizes)-1], o.runs(sizes[0]), o.runs(sizes[len(sizes)-1]), &far)
}
