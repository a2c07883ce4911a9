package figures

import (
	"fmt"
	"strconv"

	"github.com/goshmem/goshmem/coll/tree"
	"github.com/goshmem/goshmem/internal/lab/plot"
	"github.com/goshmem/goshmem/sim/ftco"
	"github.com/goshmem/goshmem/sim/logp"
)

// figure7 draws the latency over the number of nodes, with the best k for each number.
func figure7(o *Options, data *ftco.Data) (d drawing) {
	sizes := o.sizes(2, 65536)
	lines := []struct {
		series          plot.Series
		topology, roots string
		published       func(*ftco.BestTrees) int
	}{
		{newSeries("k-ary, one root", plot.Line, sizes), "kary", "single", func(b *ftco.BestTrees) int { return b.SingleKary }},
		{newSeries("k-nomial, one root", plot.Line, sizes), "knomial", "single", func(b *ftco.BestTrees) int { return b.SingleKnomial }},
		{newSeries("k-ary, k roots", plot.Line, sizes), "kary", "multi", func(b *ftco.BestTrees) int { return b.MultiKary }},
		{newSeries("k-nomial, k roots", plot.Line, sizes), "knomial", "multi", func(b *ftco.BestTrees) int { return b.MultiKnomial }},
	}
	for l := range lines {
		for i, n := range sizes {
			d.jobs = append(d.jobs, func() error {
				r, err := o.runExperiment(func(q *ftco.Options) { q.Nodes, q.Topology, q.Roots = n, lines[l].topology, lines[l].roots })
				if err == nil {
					lines[l].series.Y[i] = r.Latency.Mean
				}
				return err
			})
		}
	}
	d.make = func() (*plot.Figure, string) {
		f := &plot.Figure{Title: "Allreduce without failures: latency with the best k (FTCO, Figure 7)", XLabel: "nodes", YLabel: "steps", LogX: true}
		var far, others deviation // published are the k-nomial trees with k roots only
		for _, l := range lines {
			f.Series = append(f.Series, l.series)
			to := &others
			if l.topology == "knomial" && l.roots == "multi" {
				to = &far
			}
			for i, n := range sizes {
				if b, ok := data.Best[strconv.Itoa(n)]; ok {
					to.compare(l.series.Y[i], float64(l.published(&b)), "%s, %d nodes", l.series.Name, n)
				}
			}
		}
		optimum := newSeries("optimum of the LogP model", plot.Dashed, sizes)
		for i, n := range sizes {
			optimum.Y[i] = 2 * float64(tree.LogP{Latency: 10, Overhead: 1}.OptimalBcast(n))
		}
		published := plot.Series{Name: "published, k roots", Style: plot.Published}
		for _, n := range sortedKeys(data.BestLine) {
			if n <= o.Nodes {
				published.Add(float64(n), float64(data.BestLine[strconv.Itoa(n)].Latency))
			}
		}
		f.Series = append(f.Series, optimum, published)
		return f, fmt.Sprintf("up to %d nodes: %v; the other trees, of which an independent simulation is at hand: %v", o.Nodes, &far, &others)
	}
	return d
}

// Distribution draws a histogram of the runs' latencies.
func Distribution(results []logp.Result, o ftco.Options) *plot.Figure {
	const most = 20 // more bars would have overlapping names
	low, high := results[0].Latency, results[0].Latency
	for i := range results {
		low, high = min(low, results[i].Latency), max(high, results[i].Latency)
	}
	width := (high-low)/most + 1
	f := &plot.Figure{
		Title:  fmt.Sprintf("%s, %d nodes, k = %d: %d runs", o.Collective, o.Nodes, o.Radix, o.Runs),
		XLabel: "latency, steps", YLabel: "runs",
	}
	s := plot.Series{Name: fmt.Sprintf("%d inactive, %d run-time faults, spread %d", o.Inactive, o.Online, o.Spread), Style: plot.Bars}
	unit := int32(o.Overhead)
	for x := low; x <= high; x += width {
		name := strconv.Itoa(int(x * unit))
		if width > 1 {
			name += "+"
		}
		f.Names = append(f.Names, name)
		s.Add(float64(len(s.X)), 0)
	}
	for i := range results {
		s.Y[(results[i].Latency-low)/width]++
	}
	if width > 1 {
		f.XLabel = fmt.Sprintf("latency, steps (from here to %d more)", width*unit-1)
	}
	f.Series = []plot.Series{s}
	return f
}
