package graph500

import (
	"fmt"
	"io"
	"strconv"
)

// The text block of the reference program: same keys, same order, values from column 33 (Graph500 3.0, section
// "Output"; the reference writes "bfs  " where the specification's names have "bfs_").

// quantities has the statistics of a result.
type quantities struct {
	time, nedge, validate Statistics
	teps                  Rates
}

// quantities computes the statistics.
func (r *Result) quantities() quantities {
	n := len(r.Searches)
	seconds, edges, validate := make([]float64, n), make([]float64, n), make([]float64, n)
	for i, s := range r.Searches {
		seconds[i], edges[i], validate[i] = s.Seconds, float64(s.Edges), s.ValidateSeconds
	}
	return quantities{
		time: statisticsOf(seconds), nedge: statisticsOf(edges),
		validate: statisticsOf(validate), teps: ratesOf(seconds, edges),
	}
}

// WriteText prints the text block.
func (r *Result) WriteText(out io.Writer) error {
	p := printer{out: out}
	p.line("SCALE", strconv.Itoa(r.Options.Scale))
	p.line("edgefactor", strconv.Itoa(r.Options.EdgeFactor))
	p.line("NBFS", strconv.Itoa(len(r.Searches)))
	p.line("graph_generation", short(r.GenerationSeconds, 6))
	p.line("num_mpi_processes", strconv.Itoa(r.PEs))
	p.line("construction_time", short(r.ConstructionSeconds, 6))
	q := r.quantities()
	p.statistics("bfs  ", "_time", q.time, 6)
	p.statistics("", "_nedge", q.nedge, 11)
	p.rates(q.teps)
	p.statistics("bfs  ", "_validate", q.validate, 6)
	return p.err
}

// printer prints lines until one fails.
type printer struct {
	out io.Writer
	err error
}

// line prints a key and its value.
func (p *printer) line(key, value string) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.out, "%-32s%s\n", key+":", value)
	}
}

// statistics prints the lines of a quantity.
func (p *printer) statistics(prefix, suffix string, s Statistics, digits int) {
	p.line(prefix+"min"+suffix, short(s.Min, digits))
	p.line(prefix+"firstquartile"+suffix, short(s.FirstQuartile, digits))
	p.line(prefix+"median"+suffix, short(s.Median, digits))
	p.line(prefix+"thirdquartile"+suffix, short(s.ThirdQuartile, digits))
	p.line(prefix+"max"+suffix, short(s.Max, digits))
	p.line(prefix+"mean"+suffix, short(s.Mean, digits))
	p.line(prefix+"stddev"+suffix, short(s.StdDev, digits))
}

// rates prints the lines of the rates.
func (p *printer) rates(r Rates) {
	p.line("bfs  min_TEPS", short(r.Min, 6))
	p.line("bfs  firstquartile_TEPS", short(r.FirstQuartile, 6))
	p.line("bfs  median_TEPS", short(r.Median, 6))
	p.line("bfs  thirdquartile_TEPS", short(r.ThirdQuartile, 6))
	p.line("bfs  max_TEPS", short(r.Max, 6))
	// The reference marks the figure that counts.
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.out, "%-29s!  %s\n", "bfs  harmonic_mean_TEPS:", short(r.HarmonicMean, 6))
	}
	p.line("bfs  harmonic_stddev_TEPS", short(r.HarmonicStdDev, 6))
}

// short prints a number as C's %.<digits>g does.
func short(x float64, digits int) string { return strconv.FormatFloat(x, 'g', digits, 64) }
