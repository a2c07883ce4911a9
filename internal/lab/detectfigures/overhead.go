package detectfigures

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/goshmem/goshmem/internal/lab/noise"
	"github.com/goshmem/goshmem/internal/lab/plot"
)

// noisePeriods are the heartbeat periods of Figure 7. off is a second run without heartbeats: what the samples take for an
// effect where there is none.
var noisePeriods = []string{"1ms", "10ms", "100ms", "off"}

// measureNoise runs the benchmark of Figure 7 with and without heartbeats, in rounds.
func (o *Options) measureNoise(ctx context.Context) (*noise.Report, error) {
	nodes := slices.Max(o.Nodes)
	return noise.Measure(ctx, noise.Options{
		// A pair of PEs on different nodes, and collectives of all. The tests of bench for package mpi are of one node.
		Program: []string{"bench", "pingpong", "put_bw", "barrier", "reduce", "--far", "-m", "64:1K", "-i", fmt.Sprint(o.Iterations), "--time", o.Time.String()},
		PEs:     nodes, Emulate: fmt.Sprint(nodes), Periods: noisePeriods, Samples: max(2, o.Samples), Warmup: 1, Seed: o.Seed, Tiers: o.Tiers,
		Progress: o.Progress,
	})
}

// noiseTable has a row for each test with each period: the mean over its sizes.
func noiseTable(f *Figure) [][]string {
	rows := [][]string{{"HOW", "PERIOD", "TEST", "OVERHEAD %", "BAND %", "95 % INTERVAL", "DETECTABLE %", "MAXIMA %"}}
	if f.Noise != nil {
		for _, c := range f.Noise.Periods {
			for _, r := range append(c.ByTest(), c.All) {
				rows = append(rows, []string{
					Emulated, c.Period, r.Name, fmt.Sprintf("%+.1f", r.Overhead), fmt.Sprintf("±%.1f", r.Band),
					fmt.Sprintf("%+.1f to %+.1f", r.Low, r.High), fmt.Sprintf("%.1f", r.Detectable), fmt.Sprintf("%+.1f", r.Maxima),
				})
			}
		}
	}
	for _, p := range f.Paper {
		rows = append(rows, []string{"paper, " + p.Section, fmt.Sprintf("%gms", p.Period), p.Case, "-", "-", "-", "-", p.bounds()})
	}
	return rows
}

// overBand draws the overheads over the band of natural variability.
func overBand(f *Figure) *plot.Figure {
	if f.Noise == nil {
		return &plot.Figure{}
	}
	p := f.Noise.Picture()
	p.Title = fmt.Sprintf("%s: %d nodes (Zhong et al., Figure %s)", f.Title, f.Noise.PEs, f.Name)
	return p
}

// sayNoise says how the overheads were measured.
func (f *Figure) sayNoise() string {
	r := f.Noise
	return fmt.Sprintf("overheads of a heartbeat period, in %% of the mean without heartbeats: %d nodes of one PE, %d rounds; `%s`; maxima: equation (1) on the greatest of all runs and PEs", r.PEs, r.Samples, strings.Join(r.Program, " "))
}
