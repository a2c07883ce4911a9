package agree

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/goshmem/goshmem/coll/agree"
	"github.com/goshmem/goshmem/coll/ftco"
	"github.com/goshmem/goshmem/sim/logp"
)

// Figure is a quantity over several runs.
type Figure struct {
	Mean float64 `json:"mean"`
	Min  float64 `json:"min"`
	Max  float64 `json:"max"`
}

// Outcomes counts how runs ended. In a blocked run some node did not return, and would have to abort.
type Outcomes struct {
	Decided   int `json:"decided"`
	Undecided int `json:"undecided"`
	Blocked   int `json:"blocked"`
}

// Phase is one of the two agreements over all runs. Latency is of the runs in which all nodes returned,
// and nil if there is none.
type Phase struct {
	Latency  *Figure  `json:"latency_steps"`
	Messages *Figure  `json:"messages_per_node"`
	Outcomes Outcomes `json:"outcomes"`
}

// Report is the result of an experiment.
type Report struct {
	Options Options `json:"options"`
	First   Phase   `json:"first"` // the agreement in which nodes die, or are known to have died
	Next    Phase   `json:"next"`  // the agreement after it, in runs that did not block
	// Faultless is the number of steps of an agreement without failures: the time in which nodes die.
	// It is zero unless nodes die during the agreement.
	Faultless int `json:"faultless_steps"`
}

// ErrDisagree reports an agreement that survivors ended in two ways.
var ErrDisagree = errors.New("survivors disagree")

// result is the result of one agreement.
type result struct {
	made     bool          // the agreement took place
	outcome  agree.Outcome // 0: blocked
	latency  int32
	messages int64
}

// Run runs an experiment.
func Run(o Options) (*Report, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	horizon, err := o.horizon()
	if err != nil {
		return nil, err
	}
	results := make([][2]result, o.Runs)
	errs := make([]error, o.Runs)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(max(1, o.Parallel), o.Runs, runtime.NumCPU()) { // more goroutines would only take memory
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= o.Runs {
					return
				}
				results[i], errs[i] = o.run(rand.New(rand.NewPCG(o.Seed, uint64(i))), horizon)
			}
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("run %d of seed %d: %w", i, o.Seed, err)
		}
	}
	return &Report{
		Options: o, First: o.phase(results, 0), Next: o.phase(results, 1), Faultless: int(horizon) * o.Overhead,
	}, nil
}

// horizon returns the time of an agreement without failures, in units of the overhead. Nodes that die
// during the agreement die in that time.
func (o *Options) horizon() (int32, error) {
	if o.Failures == 0 || o.When == "before" {
		return 0, nil
	}
	q := *o
	q.Failures = 0
	r, err := q.run(rand.New(rand.NewPCG(0, 0)), 0)
	return r[0].latency, err
}

// run runs the two agreements once.
func (o *Options) run(r *rand.Rand, horizon int32) (results [2]result, err error) {
	victims := o.victims(r)
	if o.Algorithm == "allreduce" {
		results[0], err = o.allreduce(len(victims))
		results[1] = results[0]
		return results, err
	}
	d, err := newDriver(o)
	if err != nil {
		return results, err
	}
	cfg := logp.Config{Nodes: o.Nodes, Latency: int32(o.Latency / o.Overhead), Drain: true}
	for _, v := range victims {
		at := int32(logp.Inactive)
		if o.When == "during" {
			at = r.Int32N(max(1, horizon))
		}
		cfg.Deaths = append(cfg.Deaths, logp.Death{Node: v, Step: at})
	}
	if o.When == "before" {
		d.announceDead(victims)
	}
	e := logp.NewEngine[message](d)
	for i := range results {
		d.prepare()
		if _, err := e.Run(cfg); err != nil {
			return results, err
		}
		if results[i], err = d.result(); err != nil || results[i].outcome == 0 {
			return results, err
		}
		for j := range cfg.Deaths { // all deaths have happened, and their news has come
			cfg.Deaths[j].Step = logp.Inactive
		}
	}
	return results, nil
}

// result returns how the agreement ended for the living nodes.
func (d *driver) result() (result, error) {
	r := result{made: true, messages: d.sent}
	first := never
	for v := range d.nodes {
		n := &d.nodes[v]
		switch {
		case d.dead[v]:
			continue
		case n.done == never && !n.blocked:
			return r, fmt.Errorf("%w: node %d neither returns nor blocks", logp.ErrStuck, v)
		case n.done == never:
			return result{made: true, messages: d.sent}, nil
		}
		if first == never {
			first = int32(v)
		}
		if f := &d.nodes[first]; n.outcome != f.outcome || n.failed != f.failed {
			return r, fmt.Errorf("%w: nodes %d and %d", ErrDisagree, first, v)
		}
		r.outcome, r.latency = n.outcome, max(r.latency, n.done)
	}
	return r, nil
}

// allreduce runs the baseline: the collective of programs among the nodes that are left, in a tree of
// their own.
func (o *Options) allreduce(dead int) (result, error) {
	n := o.Nodes - dead
	s, err := logp.NewShipped(logp.ShippedConfig{N: n, Radix: o.Radix, Call: ftco.Call{Kind: ftco.Allreduce}, Detection: 1})
	if err != nil {
		return result{}, err
	}
	r, err := logp.NewEngine[logp.ShippedMsg](s).Run(logp.Config{Nodes: n, Latency: int32(o.Latency / o.Overhead)})
	return result{made: true, outcome: agree.Decided, latency: r.Latency, messages: r.Messages}, err
}

// phase summarizes one of the two agreements over all runs.
func (o *Options) phase(results [][2]result, which int) (p Phase) {
	var latency, messages []float64
	for i := range results {
		r := &results[i][which]
		if !r.made {
			continue
		}
		messages = append(messages, float64(r.messages)/float64(o.Nodes))
		switch r.outcome {
		case agree.Decided:
			p.Outcomes.Decided++
		case agree.Undecided:
			p.Outcomes.Undecided++
		default:
			p.Outcomes.Blocked++
			continue
		}
		latency = append(latency, float64(int(r.latency)*o.Overhead))
	}
	p.Latency, p.Messages = figure(latency), figure(messages)
	return p
}

// figure summarizes values. It returns nil if there is none.
func figure(values []float64) *Figure {
	if len(values) == 0 {
		return nil
	}
	f := Figure{Min: values[0], Max: values[0]}
	for _, x := range values {
		f.Mean += x
		f.Min, f.Max = min(f.Min, x), max(f.Max, x)
	}
	f.Mean /= float64(len(values))
	return &f
}
