// Package figures draws what the papers' simulations show, ours beside the
// published points: Margolin and Barak, Tree-Based Fault-Tolerant Collective
// Operations for MPI, Figures 7 to 10 and Table 2; Hursey, Naughton, Vallee and
// Graham, A Log-Scaling Fault Tolerant Agreement Algorithm, Figure 2.
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

// Options say how much is computed.
type Options struct {
	Nodes    int // no more nodes than these
	Runs     int // with failures, for up to 4096 nodes; fewer for more
	Spread   int // the largest of Table 2 that is simulated
	Seed     uint64
	Parallel int
	Only     string // the name of one figure; empty: all

	Progress func(done, all int) // nil: nobody looks
}

// Defaults take about a minute on two processors.
func Defaults() Options {
	return Options{Nodes: 65536, Runs: 200, Spread: 1024, Seed: 1}
}

// Drawn is a figure that has been drawn.
type Drawn struct {
	Figure string   // the name of its file, without .svg
	Files  []string // as written: one
	Says   string   // what was computed, and how it compares
}

// drawing is a figure to draw: experiments, and what is made of them.
type drawing struct {
	name string
	jobs []func() error
	make func() (*plot.Figure, string)
}

// Names are those of all figures.
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

// Draw makes all figures in a directory, which it makes if there is none.
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

// compute makes the experiments of all figures, beside the published data.
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
	if err := o.do(jobs); err != nil {
		return nil, err
	}
	var all []computed
	for _, d := range drawings {
		figure, says := d.make()
		all = append(all, computed{d.name, figure, says})
	}
	return all, nil
}

// do does jobs, several at a time, and tells of progress.
func (o *Options) do(jobs []func() error) error {
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

// cache holds reports of collectives by their options, since figures 8 to 10 show the same
// ones.
var cache struct {
	sync.Mutex
	reports map[ftco.Options]func() (*ftco.Report, error)
}

// run makes an experiment with a collective.
func (o *Options) run(change func(*ftco.Options)) (*ftco.Report, error) {
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

// sizes are the powers of two from low up to high and the largest that is asked for.
func (o *Options) sizes(low, high int) (list []int) {
	for n := low; n <= min(high, o.Nodes); n *= 2 {
		list = append(list, n)
	}
	return list
}

// line is one series that is being computed: a value for each X.
func line(name string, style plot.Style, xs []int) plot.Series {
	s := plot.Series{Name: name, Style: style, Y: make([]float64, len(xs))}
	for _, x := range xs {
		s.X = append(s.X, float64(x))
	}
	return s
}

// apart is the largest difference between ours and published, in per cent.
type apart struct {
	worst float64
	where string
	count int
}

func (a *apart) see(ours, published float64, format string, args ...any) {
	a.count++
	d := 100 * (ours/published - 1)
	if a.where == "" || math.IsNaN(d) || math.Abs(d) > math.Abs(a.worst) {
		a.worst, a.where = d, fmt.Sprintf(format, args...)
	}
}

func (a *apart) String() string {
	switch {
	case a.count == 0:
		return "no point computed"
	case a.worst == 0:
		return fmt.Sprintf("all %d points exact", a.count)
	}
	return fmt.Sprintf("%d points, the farthest %+.1f %% (%s)", a.count, a.worst, a.where)
}

// numbers are the keys of published data, ascending.
func numbers[T any](m map[string]T) (list []int) {
	for s := range m {
		if n, err := strconv.Atoi(s); err == nil {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list
}
