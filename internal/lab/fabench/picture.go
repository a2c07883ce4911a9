package fabench

import (
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/internal/lab/plot"
)

// Picture draws the time of a whole job by case, as Figure 2 does, beside that of a restart from the beginning.
func (r *Report) Picture() *plot.Figure {
	f := &plot.Figure{
		Title:  fmt.Sprintf("Deaths in transactions (FA-MPI, Figure 2): %d ranks, %d iterations", r.PEs, r.Iterations),
		YLabel: "s of a whole job, median with least and most",
	}
	var apps []string
	for _, c := range r.Cases {
		if !slices.Contains(f.Names, c.Case) {
			f.Names = append(f.Names, c.Case)
		}
		if !slices.Contains(apps, c.App) {
			apps = append(apps, c.App)
		}
	}
	for i, app := range apps {
		whole := plot.Series{Name: app, Style: plot.Published}
		again := plot.Series{Name: app + ", restart", Style: plot.Published}
		for _, c := range r.Cases {
			if c.App != app {
				continue
			}
			x := float64(slices.Index(f.Names, c.Case))
			whole.AddRange(plot.Beside(x, 2*i, 2*len(apps)), c.Total.P50, c.Total.Min, c.Total.Max)
			if c.Restart != nil {
				again.AddRange(plot.Beside(x, 2*i+1, 2*len(apps)), c.Restart.P50, c.Restart.Min, c.Restart.Max)
			}
		}
		f.Series = append(f.Series, whole)
		if len(again.X) > 0 {
			f.Series = append(f.Series, again)
		}
	}
	return f
}
