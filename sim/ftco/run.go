package ftco

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/goshmem/goshmem/coll/ftco"
	"github.com/goshmem/goshmem/coll/tree"
	"github.com/goshmem/goshmem/sim/logp"
)

// Figure is a quantity over several runs.
type Figure struct {
	Mean float64 `json:"mean"`
	Min  float64 `json:"min"`
	Max  float64 `json:"max"`
}

// Report is the result of an experiment.
type Report struct {
	Options     Options `json:"options"` // with the radix that the runs used
	Latency     Figure  `json:"latency_steps"`
	Messages    Figure  `json:"messages_per_node"`
	OutSpread   Figure  `json:"output_spread_steps"`
	MaxQueue    Figure  `json:"max_queue"`
	FailedNodes Figure  `json:"failed_nodes"` // nodes that failed before the end of the run
}

// runner runs one collective after the other.
type runner interface {
	run(cfg logp.Config, seed uint64) (logp.Result, error)
}

// Run runs an experiment.
func Run(o Options) (*Report, error) {
	results, o, err := Results(o)
	if err != nil {
		return nil, err
	}
	return Summary(results, o), nil
}

// Summary makes the report of results and options that Results has returned.
func Summary(results []logp.Result, o Options) *Report {
	rep := &Report{Options: o}
	scale := float64(o.Overhead)
	rep.Latency = figure(results, func(r *logp.Result) float64 { return scale * float64(r.Latency) })
	rep.OutSpread = figure(results, func(r *logp.Result) float64 { return scale * float64(r.OutSpread) })
	rep.Messages = figure(results, func(r *logp.Result) float64 { return float64(r.Messages) / float64(o.Nodes) })
	rep.MaxQueue = figure(results, func(r *logp.Result) float64 { return float64(r.MaxQueue) })
	rep.FailedNodes = figure(results, func(r *logp.Result) float64 { return float64(r.Dead) })
	return rep
}

// Results runs an experiment. It returns the results of the runs, in order, and the options with the
// radix that the runs used.
func Results(o Options) ([]logp.Result, Options, error) {
	if err := o.Check(); err != nil {
		return nil, o, err
	}
	if o.Radix == 0 {
		k, err := o.bestRadix()
		if err != nil {
			return nil, o, err
		}
		o.Radix = k
	}
	results := make([]logp.Result, o.Runs)
	errs := make([]error, o.Runs)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(max(1, o.Parallel), o.Runs, runtime.NumCPU()) { // more goroutines would only take memory
		wg.Go(func() {
			r, err := o.newRunner()
			var cfg logp.Config
			for {
				i := int(next.Add(1)) - 1
				if i >= o.Runs {
					return
				}
				if err != nil {
					errs[i] = err
					return
				}
				cfg = logp.Config{
					Nodes: o.Nodes, Latency: int32(o.Latency / o.Overhead), Starts: cfg.Starts, Deaths: cfg.Deaths,
					Root: o.Collective == "reduce",
				}
				seed := mix(o.Seed, uint64(i))
				o.drawRun(&cfg, seed)
				results[i], errs[i] = r.run(cfg, seed)
			}
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			return nil, o, fmt.Errorf("run %d of seed %d: %w", i, o.Seed, err)
		}
	}
	return results, o, nil
}

// mix returns the seed of a run.
func mix(seed, run uint64) uint64 {
	x := seed*0x9e3779b97f4a7c15 + run + 1
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// figure summarizes a quantity over all results.
func figure(results []logp.Result, of func(*logp.Result) float64) Figure {
	f := Figure{Min: of(&results[0]), Max: of(&results[0])}
	for i := range results {
		x := of(&results[i])
		f.Mean += x / float64(len(results))
		f.Min, f.Max = min(f.Min, x), max(f.Max, x)
	}
	return f
}

// newRunner makes the machines of an experiment.
func (o *Options) newRunner() (runner, error) {
	if o.Config == "shipped" {
		s, err := logp.NewShipped(logp.ShippedConfig{
			N: o.Nodes, Radix: o.Radix, Call: ftco.Call{Kind: o.kind()}, Detection: int32(max(1, o.Detection/o.Overhead)),
		})
		if err != nil {
			return nil, err
		}
		return &shippedRunner{s, logp.NewEngine[logp.ShippedMsg](s)}, nil
	}
	t, err := tree.NewLevels(tree.LevelsConfig{N: o.Nodes, K: o.Radix, Shape: o.shape(), MultiRoot: o.Roots == "multi"})
	if err != nil {
		return nil, err
	}
	g, err := ftco.NewPublishedGroup(ftco.PublishedConfig{
		Tree: t, Collective: o.kind(), Latency: int32(o.Latency / o.Overhead), Service: o.service(), Seed: o.Seed,
	})
	if err != nil {
		return nil, err
	}
	p := logp.NewPublished(g)
	return &publishedRunner{p, logp.NewEngine[ftco.PubMsg](p)}, nil
}

// publishedRunner runs the machines as published.
type publishedRunner struct {
	machines *logp.Published
	engine   *logp.Engine[ftco.PubMsg]
}

func (r *publishedRunner) run(cfg logp.Config, seed uint64) (logp.Result, error) {
	r.machines.Reset(seed)
	return r.engine.Run(cfg)
}

// shippedRunner runs the machines that programs use.
type shippedRunner struct {
	machines *logp.Shipped
	engine   *logp.Engine[logp.ShippedMsg]
}

func (r *shippedRunner) run(cfg logp.Config, _ uint64) (logp.Result, error) {
	r.machines.Reset()
	return r.engine.Run(cfg)
}

// bestRadix returns the k from 2 to 20 with the least latency when no node fails or is late: "the
// matching optimal k". Of several it returns the smallest.
func (o *Options) bestRadix() (int, error) {
	if o.Roots == "single" {
		p := tree.LogP{Latency: o.Latency / o.Overhead, Overhead: 1}
		k, _, err := p.BestRadix(o.Nodes, o.shape(), 20)
		return k, err
	}
	q := *o
	q.Runs, q.Spread, q.Inactive, q.Online, q.Parallel, q.Config = 1, 0, 0, 0, 1, "published"
	best, least := 0, 0.0
	for k := 2; k <= min(20, max(2, o.Nodes)); k++ {
		q.Radix = k
		rep, err := Run(q)
		if err != nil {
			return 0, err
		}
		if best == 0 || rep.Latency.Mean < least {
			best, least = k, rep.Latency.Mean
		}
	}
	return best, nil
}
