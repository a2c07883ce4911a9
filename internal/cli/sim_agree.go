package cli

import (
	"bytes"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/goshmem/goshmem/sim/agree"
)

const simAgreeHelp = `Run agreements among many nodes in the LogP model: in each step a node sends one
message or handles one, and a message takes L steps between them. The machines
are those that programs use.

  oshrun sim agree --nodes 512 --algorithm linear
  oshrun sim agree --failures 256 --who inner            a tree full of holes
  oshrun sim agree --failures 256 --who inner --rebalance
  oshrun sim agree --failures 3 --who root --when during --runs 100

A run is two agreements one after the other: the first, in which nodes are known
to have died or die, and the next, which with --rebalance has a tree of those who
are left. allreduce is what they are measured by: the collective that programs
use, without agreement, in a tree of those who are left.

With --json, one object with options (all of them) and, for first and next:

  latency_steps      from the start of all to the last return, of runs in which
                     all returned; null if there is none
  messages_per_node  messages sent, divided by the number of nodes
  outcomes           how many runs decided, were undecided, or blocked

The first two are objects {mean, min, max} over the runs.

With --when during, faultless_steps is the time of an agreement without failures,
into which the deaths fall. A --detection of more than half of it hides undecided
agreements: most survivors return, or block, before they hear of a death. The
table says so then.`

// newSimAgree returns the command that simulates agreements.
func newSimAgree() *cobra.Command {
	o := agree.Defaults()
	return experiment[*agree.Report]{
		name: "agree", short: "Simulate agreements in the LogP model", long: simAgreeHelp,
		flags: func(fs *pflag.FlagSet) {
			fs.IntVar(&o.Nodes, "nodes", o.Nodes, "number of nodes")
			fs.StringVar(&o.Algorithm, "algorithm", o.Algorithm, "linear or log (two-phase commit), early (early-returning), or allreduce")
			fs.IntVar(&o.Radix, "radix", o.Radix, "k of the k-nomial tree")
			fs.IntVar(&o.Failures, "failures", o.Failures, "nodes that die")
			fs.StringVar(&o.Who, "who", o.Who, "random or leaves; root and others at random; inner: those with most nodes below first")
			fs.StringVar(&o.When, "when", o.When, "before: all know; during: at random in the time of an agreement without failures")
			fs.IntVar(&o.Detection, "detection", o.Detection, "steps from a death during the agreement to its news")
			fs.BoolVar(&o.Rebalance, "rebalance", o.Rebalance, "after an agreement that lists new dead, the tree holds the others only")
			fs.BoolVar(&o.Promote, "promote", o.Promote, "linear, log: who would block is undecided")
			fs.BoolVar(&o.Durable, "durable", o.Durable, "early: nobody returns before every living node holds the decision")
		},
		words: agree.Words, table: simAgreeTable,
		latency: &o.Latency, overhead: &o.Overhead, runs: &o.Runs, parallel: &o.Parallel, seed: &o.Seed,
	}.command(func(*cobra.Command) (*agree.Report, error) { return agree.Run(o) })
}

// simAgreeTable returns the report as a table.
func simAgreeTable(r *agree.Report) []byte {
	o := r.Options
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s, %d nodes, k = %d, %d failures (%s, %s), rebalanced %v, L = %d, o = %d, seed %d, %d runs\n",
		o.Algorithm, o.Nodes, o.Radix, o.Failures, o.Who, o.When, o.Rebalance, o.Latency, o.Overhead, o.Seed, o.Runs)
	rows := [][]string{{"AGREEMENT", "FIGURE", "MEAN", "MIN", "MAX"}}
	for _, p := range []struct {
		name  string
		phase *agree.Phase
	}{{"first", &r.First}, {"next", &r.Next}} {
		for _, f := range []struct {
			name   string
			figure *agree.Figure
		}{{"latency, steps", p.phase.Latency}, {"messages per node", p.phase.Messages}} {
			cells := []string{"-", "-", "-"}
			if g := f.figure; g != nil {
				cells = decimals(g.Mean, g.Min, g.Max)
			}
			rows = append(rows, append([]string{p.name, f.name}, cells...))
		}
	}
	tabulate(&b, rows)
	for _, p := range []struct {
		name     string
		outcomes agree.Outcomes
	}{{"first", r.First.Outcomes}, {"next", r.Next.Outcomes}} {
		fmt.Fprintf(&b, "%s: %d decided, %d undecided, %d blocked\n", p.name, p.outcomes.Decided, p.outcomes.Undecided, p.outcomes.Blocked)
	}
	if r.Faultless > 0 {
		fmt.Fprintf(&b, "deaths fall into %d steps, the time of an agreement without failures; the news of one come after %d\n", r.Faultless, o.Detection)
	}
	if r.Faultless > 0 && 2*o.Detection > r.Faultless {
		fmt.Fprintf(&b, "note: so late, news find few survivors in the agreement, and few are undecided; compare --detection %d\n", 2*o.Latency)
	}
	return b.Bytes()
}
