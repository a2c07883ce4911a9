package figures

import (
	"fmt"

	"github.com/goshmem/goshmem/internal/lab/plot"
	"github.com/goshmem/goshmem/sim/agree"
	"github.com/goshmem/goshmem/sim/ftco"
)

// agreementLatency returns the mean latency of an agreement whose dead processes are known from the agreement before.
func (o *Options) agreementLatency(change func(*agree.Options)) (float64, error) {
	q := agree.Defaults()
	q.Seed, q.Parallel = o.Seed, 1
	change(&q)
	r, err := agree.Run(q)
	if err != nil {
		return 0, err
	}
	return r.Next.Latency.Mean, nil // only the coordinator could block it, and failures come before the start
}

// figure2a draws the latency of agreements without failures.
func figure2a(o *Options, _ *ftco.Data) (d drawing) {
	sizes := o.sizes(2, 4096)
	lines := []plot.Series{
		newSeries("two-phase commit, linear", plot.Line, sizes), newSeries("two-phase commit, log", plot.Line, sizes),
		newSeries("early-returning", plot.Line, sizes), newSeries("allreduce", plot.Dashed, sizes),
	}
	for l, algorithm := range []string{"linear", "log", "early", "allreduce"} {
		for i, n := range sizes {
			d.jobs = append(d.jobs, func() (err error) {
				lines[l].Y[i], err = o.agreementLatency(func(q *agree.Options) { q.Nodes, q.Algorithm = n, algorithm })
				return err
			})
		}
	}
	d.make = func() (*plot.Figure, string) {
		f := &plot.Figure{
			Title: "Agreement without failures (Hursey et al., Figure 2a: shape)", XLabel: "processes", YLabel: "steps", LogX: true, LogY: true, Series: lines,
		}
		says := fmt.Sprintf("up to %d processes", o.Nodes)
		for i, n := range sizes {
			if n == 512 {
				base := lines[3].Y[i]
				f.Series = append(f.Series, plot.Series{Name: "published for log: 3 % over the allreduce at most", Style: plot.Published, X: []float64{512}, Y: []float64{1.03 * base}})
				says = fmt.Sprintf("512 processes: log %.2f and linear %.2f times the allreduce; published: 1.03 at most, and significantly more", lines[1].Y[i]/base, lines[0].Y[i]/base)
			}
		}
		return f, says
	}
	return d
}

// figure2b draws the latency of agreements after failures. As in the paper, it is a multiple of the latency of
// an allreduce among the remaining processes.
func figure2b(o *Options, _ *ftco.Data) (d drawing) {
	const nodes = 512
	counts := []int{1, 2, 4, 8, 16, 32, 64, 128, 256}
	base := make([]float64, len(counts))
	lines := []struct {
		series    plot.Series
		who       string
		rebalance bool
	}{
		{newSeries("not rebalanced, nodes with most below dead", plot.Line, counts), "inner", false},
		{newSeries("not rebalanced, dead drawn", plot.Line, counts), "random", false},
		{newSeries("rebalanced, either", plot.Line, counts), "inner", true},
	}
	if o.Nodes >= nodes {
		for i, count := range counts {
			d.jobs = append(d.jobs, func() (err error) {
				base[i], err = o.agreementLatency(func(q *agree.Options) { q.Algorithm, q.Failures = "allreduce", count })
				return err
			})
			for l := range lines {
				d.jobs = append(d.jobs, func() (err error) {
					lines[l].series.Y[i], err = o.agreementLatency(func(q *agree.Options) {
						q.Nodes, q.Failures, q.Who, q.Rebalance = nodes, count, lines[l].who, lines[l].rebalance
						if q.Who == "random" {
							q.Runs = min(o.Runs, 10)
						}
					})
					return err
				})
			}
		}
	}
	d.make = func() (*plot.Figure, string) {
		f := &plot.Figure{
			Title: "Agreement of 512 processes, some dead before (Hursey et al., Figure 2b: shape)", XLabel: "dead processes", YLabel: "times an allreduce of those left", LogX: true,
		}
		says := fmt.Sprintf("published points only; use --nodes %d to compute ours", nodes)
		if o.Nodes >= nodes {
			worst := 0.0
			for l := range lines {
				s := &lines[l].series
				for i := range counts {
					s.Y[i] /= base[i]
					if lines[l].rebalance {
						worst = max(worst, s.Y[i])
					}
				}
				f.Series = append(f.Series, *s)
			}
			last := len(counts) - 1
			says = fmt.Sprintf("256 dead: %.2f times the allreduce of those left, published 2.6; rebalanced at worst %.2f, published 1.06", lines[0].series.Y[last], worst)
		}
		f.Series = append(f.Series,
			plot.Series{Name: "published, not rebalanced", Style: plot.Published, X: []float64{256}, Y: []float64{2.6}},
			plot.Series{Name: "published, rebalanced (its worst)", Style: plot.Published, X: []float64{64}, Y: []float64{1.06}})
		return f, says
	}
	return d
}
