// Package figures repeats simulations of papers and draws the results beside the published points.
//
//   - Margolin and Barak, Tree-Based Fault-Tolerant Collective Operations for MPI, Figures 7 to 10 and Table 2.
//   - Hursey, Naughton, Vallee and Graham, A Log-Scaling Fault Tolerant Agreement Algorithm, Figure 2.
package figures

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/goshmem/goshmem/internal/lab/plot"
	"github.com/goshmem/goshmem/sim/ftco"
)

// Options limit what is computed.
type Options struct {
	Nodes    int // most nodes of a simulation
	Runs     int // runs with failures, for up to 4096 nodes; fewer for more nodes
	Spread   int // largest input spread of Table 2 that is simulated
	Seed     uint64
	Parallel int    // experiments that run at a time
	Only     string // name of one figure; empty: all figures

	Progress func(done, all int) // called after each experiment; nil: no call
}

// Defaults returns options that take about a minute on two processors.
func Defaults() Options {
	return Options{Nodes: 65536, Runs: 200, Spread: 1024, Seed: 1}
}

// Drawn is a figure in its files.
type Drawn struct {
	Figure string   // the name of its file, without .svg
	Files  []string // as written: one
	Says   string   // what was computed, and how it compares
}

// drawing is a figure to draw.
type drawing struct {
	name string
	jobs []func() error                // experiments, in any order
	make func() (*plot.Figure, string) // draws their results, and describes them
}

// Names returns the names of all figures.
func Names() []string {
	var names []string
	for _, f := range makers {
		names = append(names, f.name)
	}
	return names
}

var makers = []struct {
	name string
	make func(o *Options, d *ftco.Data) drawing
}{
	{"ftco-figure-7", figure7},
	{"ftco-figure-8", figure8},
	{"ftco-figure-9", figure9},
	{"ftco-figure-10", figure10},
	{"ftco-table-2-latency", table2Latency},
	{"ftco-table-2-work", table2Work},
	{"agreement-figure-2a", figure2a},
	{"agreement-figure-2b", figure2b},
}

// Draw writes all figures to a directory. It creates the directory if it does not exist.
func Draw(dir string, o Options) ([]Drawn, error) {
	data, err := ftco.PublishedData()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	all, err := o.compute(data)
	if err != nil {
		return nil, err
	}
	var drawn []Drawn
	for _, f := range all {
		file := filepath.Join(dir, f.name+".svg")
		if err := f.figure.Write(file); err != nil {
			return nil, err
		}
		drawn = append(drawn, Drawn{Figure: f.name, Files: []string{file}, Says: f.says})
	}
	return drawn, nil
}

// computed is a figure with all of its points.
type computed struct {
	name   string
	figure *plot.Figure
	says   string
}

// compute runs the experiments of all figures and draws them beside the published data.
func (o *Options) compute(data *ftco.Data) ([]computed, error) {
	var drawings []drawing
	var jobs []func() error
	for _, m := range makers {
		if o.Only != "" && o.Only != m.name {
			continue
		}
		d := m.make(o, data)
		d.name = m.name
		drawings = append(drawings, d)
		jobs = append(jobs, d.jobs...)
	}
	if err := o.runJobs(jobs); err != nil {
		return nil, err
	}
	var all []computed
	for _, d := range drawings {
		figure, says := d.make()
		all = append(all, computed{d.name, figure, says})
	}
	return all, nil
}

// runJobs runs jobs, Options.Parallel at a time, and reports progress. It returns the first error.
func (o *Options) runJobs(jobs []func() error) error {
	var (
		wg         sync.WaitGroup
		mu         sync.Mutex
		next, done int
		first      error
	)
	for range max(1, o.Parallel) {
		wg.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for next < len(jobs) && first == nil {
				job := jobs[next]
				next++
				mu.Unlock()
				err := job()
				mu.Lock()
				done++
				if first == nil {
					first = err
				}
				if o.Progress != nil {
					o.Progress(done, len(jobs))
				}
			}
		})
	}
	wg.Wait()
	return first
}

// cache holds reports of collectives by their options, because figures 8 to 10 show the same experiments.
var cache struct {
	sync.Mutex
	reports map[ftco.Options]func() (*ftco.Report, error)
}

// runExperiment runs an experiment with a collective, or returns its cached report.
func (o *Options) runExperiment(change func(*ftco.Options)) (*ftco.Report, error) {
	q := ftco.Defaults()
	q.Seed, q.Parallel = o.Seed, 1
	change(&q)
	cache.Lock()
	once, ok := cache.reports[q]
	if !ok {
		once = sync.OnceValues(func() (*ftco.Report, error) { return ftco.Run(q) })
		if cache.reports == nil {
			cache.reports = map[ftco.Options]func() (*ftco.Report, error){}
		}
		cache.reports[q] = once
	}
	cache.Unlock()
	return once()
}

// sizes returns low, 2*low, 4*low, ... up to high and Options.Nodes.
func (o *Options) sizes(low, high int) (list []int) {
	for n := low; n <= min(high, o.Nodes); n *= 2 {
		list = append(list, n)
	}
	return list
}

// newSeries returns a series with the given X and room for its Y, which experiments fill.
func newSeries(name string, style plot.Style, xs []int) plot.Series {
	s := plot.Series{Name: name, Style: style, Y: make([]float64, len(xs))}
	for _, x := range xs {
		s.X = append(s.X, float64(x))
	}
	return s
}

// deviation is the largest difference between computed and published points, in per cent.
type deviation struct {
	worst float64 // the largest difference
	where string  // its point
	count int     // points that were compared
}

// compare compares a point with the published one.
func (a *deviation) compare(ours, published float64, format string, args ...any) {
	a.count++
	d := 100 * (ours/published - 1)
	if a.where == "" || math.IsNaN(d) || math.Abs(d) > math.Abs(a.worst) {
		a.worst, a.where = d, fmt.Sprintf(format, args...)
	}
}

func (a *deviation) String() string {
	switch {
	case a.count == 0:
		return "no point computed"
	case a.worst == 0:
		return fmt.Sprintf("all %d points exact", a.count)
	}
	return fmt.Sprintf("%d points, the farthest %+.1f %% (%s)", a.count, a.worst, a.where)
}

// sortedKeys returns the numeric keys of published data, ascending.
func sortedKeys[T any](m map[string]T) (list []int) {
	for s := range m {
		if n, err := strconv.Atoi(s); err == nil {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list
}
