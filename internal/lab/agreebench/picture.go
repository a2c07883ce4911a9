package agreebench

import (
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/internal/lab/plot"
)

// Published points of the paper's Figure 2, as its text gives them: of 512 processes on 32 nodes.
const (
	publishedHoles      = 2.6  // not rebalanced, 256 dead
	publishedRebalanced = 1.06 // rebalanced, at worst
)

// Picture draws agreements without dead PEs over the number of PEs, as Figure 2 (a) does.
func (r *Report) Picture() *plot.Figure {
	f := &plot.Figure{
		Title:  "Agreement of real processes without failures (Hursey et al., Figure 2a)",
		XLabel: "PEs", YLabel: "us for an agreement, median with least and most", LogX: true, LogY: true,
	}
	for _, a := range Algorithms {
		s := plot.Series{Name: nameOf(Variant{Algorithm: a}), Style: plot.Line}
		for _, c := range r.Results {
			if c.Algorithm == a && c.Dead == 0 {
				s.AddRange(float64(c.PEs), c.All.P50, c.All.Min, c.All.Max)
			}
		}
		if len(s.X) > 0 {
			f.Series = append(f.Series, s)
		}
	}
	return f
}

// PictureDead draws agreements among the largest number of PEs over the number of dead ones, as Figure 2 (b) does: as
// multiples of an allreduce among the survivors in the same job.
func (r *Report) PictureDead() *plot.Figure {
	pes := 0
	for _, c := range r.Results {
		pes = max(pes, c.PEs)
	}
	f := &plot.Figure{
		Title:  fmt.Sprintf("Agreement of %d real processes, some dead before (Hursey et al., Figure 2b)", pes),
		XLabel: "dead PEs", YLabel: "times an allreduce of those left",
	}
	var variants []Variant
	for _, c := range r.Results {
		if c.PEs != pes || c.Times == 0 || c.Dead == 0 {
			continue
		}
		if name := fmt.Sprint(c.Dead); !slices.Contains(f.Names, name) {
			f.Names = append(f.Names, name)
		}
		if c.Algorithm != Allreduce && !slices.Contains(variants, c.Variant) {
			variants = append(variants, c.Variant)
		}
	}
	for _, v := range variants {
		s := plot.Series{Name: nameOf(v), Style: plot.Line}
		for _, c := range r.Results {
			if c.PEs == pes && c.Variant == v && c.Times > 0 && c.Dead > 0 {
				s.Add(float64(slices.Index(f.Names, fmt.Sprint(c.Dead))), c.Times)
			}
		}
		f.Series = append(f.Series, s)
	}
	f.AddLevel("paper: log, not rebalanced, 256 of 512 dead", publishedHoles)
	f.AddLevel("paper: log, rebalanced, at worst", publishedRebalanced)
	return f
}

// nameOf returns a variant's name in pictures.
func nameOf(v Variant) string {
	name := map[string]string{
		Allreduce: "allreduce", Linear: "two-phase commit, linear", Log: "two-phase commit, log", Early: "early-returning",
	}[v.Algorithm]
	if v.Rebalanced && v.Algorithm != Allreduce {
		name += ", rebalanced"
	}
	return name
}
