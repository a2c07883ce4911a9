package figures

import (
	"fmt"
	"strconv"

	"github.com/goshmem/goshmem/internal/lab/plot"
	"github.com/goshmem/goshmem/sim/ftco"
)

// table2Nodes is the number of nodes in all rows of Table 2.
const table2Nodes = 65536

// column is a column of Table 2.
type column struct {
	name  string
	index int                          // its index in a published row
	of    func(r *ftco.Report) float64 // its value in a report
}

// table2Latency draws the columns of Table 2 that count steps.
func table2Latency(o *Options, data *ftco.Data) drawing {
	return o.table2(data, &plot.Figure{Title: "Nodes that start late: 64K nodes (FTCO, Table 2)", XLabel: "input spread, steps", YLabel: "steps"}, []column{
		{"latency", 0, func(r *ftco.Report) float64 { return r.Latency.Mean }},
		{"output spread", 2, func(r *ftco.Report) float64 { return r.OutSpread.Mean }},
	})
}

// table2Work draws the column of Table 2 that counts messages per node.
func table2Work(o *Options, data *ftco.Data) drawing {
	return o.table2(data, &plot.Figure{
		Title: "Nodes that start late: work of 64K nodes (FTCO, Table 2)", XLabel: "input spread, steps", YLabel: "messages per node", LogY: true,
	}, []column{
		{"work", 1, func(r *ftco.Report) float64 { return r.Messages.Mean }},
	})
}

// table2 draws columns of Table 2, for both distributions of start times.
func (o *Options) table2(data *ftco.Data, f *plot.Figure, columns []column) (d drawing) {
	spreads := sortedKeys(data.Table2["uniform"])
	computed := 0
	if o.Nodes >= table2Nodes {
		for computed < len(spreads) && spreads[computed] <= o.Spread {
			computed++
		}
	}
	for _, spread := range spreads {
		f.Names = append(f.Names, strconv.Itoa(spread))
	}
	type cell struct {
		series    plot.Series
		published []float64
	}
	var cells []cell
	for _, c := range columns {
		for _, dist := range []string{"uniform", "normal"} {
			s := newSeries(c.name+", "+dist, plot.Line, spreads[:computed])
			at := len(cells)
			cells = append(cells, cell{series: s})
			for _, spread := range spreads {
				cells[at].published = append(cells[at].published, data.Table2[dist][strconv.Itoa(spread)][c.index])
			}
			for i := range computed {
				d.jobs = append(d.jobs, func() error {
					r, err := o.runExperiment(func(q *ftco.Options) { q.Nodes, q.Radix, q.Dist, q.Spread = table2Nodes, 9, dist, spreads[i] })
					if err == nil {
						cells[at].series.X[i], cells[at].series.Y[i] = float64(i), c.of(r)
					}
					return err
				})
			}
		}
	}
	d.make = func() (*plot.Figure, string) {
		var far deviation
		published := plot.Series{Name: "published", Style: plot.Published}
		for _, c := range cells {
			if computed > 0 {
				f.Series = append(f.Series, c.series)
			}
			for i, y := range c.published {
				published.Add(float64(i), y)
				if i < computed {
					far.compare(c.series.Y[i], y, "%s %d", c.series.Name, spreads[i])
				}
			}
		}
		f.Series = append(f.Series, published)
		if computed == 0 {
			return f, fmt.Sprintf("published points only; use --nodes %d to compute ours", table2Nodes)
		}
		return f, fmt.Sprintf("one run each, spreads up to %d: %v", spreads[computed-1], &far)
	}
	return d
}
