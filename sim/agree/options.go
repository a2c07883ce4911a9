package agree

import (
	"fmt"

	"github.com/goshmem/goshmem/coll/agree"
	"github.com/goshmem/goshmem/sim/logp"
)

// Options describe one experiment. Fields have the names of oshrun's flags in JSON.
type Options struct {
	Nodes     int    `json:"nodes"`
	Algorithm string `json:"algorithm"` // linear, log, early or allreduce
	Radix     int    `json:"radix"`     // k of the tree
	Failures  int    `json:"failures"`
	Who       string `json:"who"`  // random, root, inner or leaves
	When      string `json:"when"` // before or during
	Rebalance bool   `json:"rebalance"`
	Promote   bool   `json:"promote"`
	Durable   bool   `json:"durable"`
	Runs      int    `json:"runs"`
	Seed      uint64 `json:"seed"`
	Latency   int    `json:"latency"`   // L, in steps
	Overhead  int    `json:"overhead"`  // o, in steps
	Detection int    `json:"detection"` // steps from a death to its news
	Parallel  int    `json:"-"`         // runs at a time; 0: one
}

// Words are the words that each option takes.
var Words = map[string][]string{
	"algorithm": {"linear", "log", "early", "allreduce"},
	"who":       {"random", "root", "inner", "leaves"},
	"when":      {"before", "during"},
}

// Defaults returns the defaults: the paper's 512 processes and binomial tree. The news of a death takes
// as long as two messages. An agreement among 64 nodes takes 144 steps; if the news took 100, few
// survivors would still be in it when they hear of the death.
func Defaults() Options {
	return Options{
		Nodes: 512, Algorithm: "log", Radix: 2, Who: "random", When: "before",
		Runs: 1, Seed: 1, Latency: 10, Overhead: 1, Detection: 20,
	}
}

// Limits of experiments. Beyond them nodes do not fit into memory, or numbers overflow.
const (
	mostNodes = 1 << 14
	mostSteps = 1 << 20
	mostRuns  = 1 << 20
)

// Check returns what is wrong with the options.
func (o *Options) Check() error {
	if err := logp.CheckOptions([]logp.Number{
		{Name: "nodes", Value: o.Nodes, Low: 1, High: mostNodes},
		{Name: "radix", Value: o.Radix, Low: 2, High: mostNodes},
		{Name: "failures", Value: o.Failures, Low: 0, High: o.Nodes - 1},
		{Name: "runs", Value: o.Runs, Low: 1, High: mostRuns},
		{Name: "latency", Value: o.Latency, Low: 1, High: mostSteps},
		{Name: "overhead", Value: o.Overhead, Low: 1, High: mostSteps},
		{Name: "detection", Value: o.Detection, Low: 1, High: mostSteps},
	}, []logp.Word{
		{Name: "algorithm", Value: o.Algorithm, Words: Words["algorithm"]},
		{Name: "who", Value: o.Who, Words: Words["who"]},
		{Name: "when", Value: o.When, Words: Words["when"]},
	}); err != nil {
		return err
	}
	if err := logp.CheckLatency(o.Latency, o.Overhead); err != nil {
		return err
	}
	return o.checkTogether()
}

// checkTogether checks options that depend on each other.
func (o *Options) checkTogether() error {
	switch {
	case o.Algorithm == "allreduce" && o.When == "during" && o.Failures > 0:
		return logp.BadOption("when", o.When, "before with --algorithm allreduce, which runs among the nodes that are left")
	case o.Promote && o.Algorithm != "linear" && o.Algorithm != "log":
		return logp.BadOption("promote", "true", "--algorithm linear or log; the others never block")
	case o.Durable && o.Algorithm != "early":
		return logp.BadOption("durable", "true", "--algorithm early; the others have no such option")
	}
	if o.Failures > 0 {
		if n := len(o.candidates()); o.Failures > n {
			return logp.BadOption("failures", fmt.Sprint(o.Failures), fmt.Sprintf("0 to %d with --who %s", n, o.Who))
		}
	}
	return nil
}

// algorithm returns the algorithm for package coll/agree.
func (o *Options) algorithm() agree.Algorithm {
	switch o.Algorithm {
	case "linear":
		return agree.Linear
	case "early":
		return agree.EarlyReturning
	}
	return agree.Log
}
