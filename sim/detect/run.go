package detect

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Figure is a quantity over several samples.
type Figure struct {
	Mean float64 `json:"mean"`
	Min  float64 `json:"min"`
	P50  float64 `json:"p50"`
	Max  float64 `json:"max"`
}

// Report is the result of an experiment. First and Last are of samples in which all survivors learned of all deaths, and
// nil if there is none.
type Report struct {
	Options Options `json:"options"`

	Case     string  `json:"case"`
	Nodes    int     `json:"nodes"`
	PEs      int     `json:"pes"`
	Tier     string  `json:"tier"`
	Samples  int     `json:"samples"`
	PeriodMS float64 `json:"period_ms"`

	Victims      int     `json:"victims"`  // nodes that died in each sample, or nodes of which one PE died
	First        *Figure `json:"first_ms"` // from the deaths until a survivor knew of one
	Last         *Figure `json:"last_ms"`  // until all survivors knew of all
	Reports      Figure  `json:"reports"`  // broadcasts
	Copies       Figure  `json:"report_messages"`
	Pings        Figure  `json:"ring_messages_per_node_s"` // before the deaths
	FalseReports int     `json:"false_reports"`            // living nodes that were reported, in all samples
	Missed       int     `json:"missed"`                   // deaths of which some survivor did not learn, in all samples
}

// Run runs an experiment.
func Run(o Options) (*Report, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	samples := make([]sample, o.Samples)
	errs := make([]error, o.Samples)
	victims := make([]int, o.Samples)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(max(1, o.Parallel), o.Samples, runtime.NumCPU()) { // more goroutines would only take memory
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= o.Samples {
					return
				}
				w, err := newWorld(&o, uint64(i))
				if err != nil {
					errs[i] = err
					return
				}
				victims[i] = w.unknown
				samples[i] = w.run()
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return o.summarize(samples, victims[0]), nil
}

// summarize makes the report.
func (o *Options) summarize(samples []sample, victims int) *Report {
	r := &Report{
		Options: *o, Case: o.Fail, Nodes: o.Nodes, PEs: o.Nodes * o.PEs, Tier: o.Tier, Samples: o.Samples,
		PeriodMS: milliseconds(int64(o.Period)), Victims: victims / o.deadPerNode(),
	}
	if o.isLiteral() {
		r.Tier = "literal"
		if o.PRRTE {
			r.Tier = "prrte"
		}
	}
	var complete []sample
	for i := range samples {
		r.FalseReports += samples[i].falseReports
		r.Missed += samples[i].missed
		if samples[i].missed == 0 && victims > 0 {
			complete = append(complete, samples[i])
		}
	}
	if len(complete) > 0 {
		first := figure(complete, func(s *sample) float64 { return milliseconds(s.first) })
		last := figure(complete, func(s *sample) float64 { return milliseconds(s.last) })
		r.First, r.Last = &first, &last
	}
	r.Reports = figure(samples, func(s *sample) float64 { return float64(s.reports) })
	r.Copies = figure(samples, func(s *sample) float64 { return float64(s.copies) })
	r.Pings = figure(samples, func(s *sample) float64 {
		return float64(s.pings) / float64(o.Nodes) / time.Duration(s.warm).Seconds()
	})
	return r
}

func milliseconds(ns int64) float64 { return float64(ns) / 1e6 }

// figure summarizes a quantity over samples.
func figure(samples []sample, of func(*sample) float64) Figure {
	all := make([]float64, len(samples))
	f := Figure{}
	for i := range samples {
		all[i] = of(&samples[i])
		f.Mean += all[i]
	}
	f.Mean /= float64(len(samples))
	slices.Sort(all)
	n := len(all)
	f.Min, f.P50, f.Max = all[0], (all[(n-1)/2]+all[n/2])/2, all[n-1]
	return f
}
