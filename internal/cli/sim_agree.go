package cli

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/sim/agree"
	"github.com/goshmem/goshmem/sim/logp"
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

The first two are objects {mean, min, max} over the runs.`

// newSimAgree returns the command that simulates agreements.
func newSimAgree() *cobra.Command {
	o := agree.Defaults()
	o.Parallel = runtime.NumCPU()
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "agree",
		Short:             "Simulate agreements in the LogP model",
		Long:              simAgreeHelp,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := runSimAgree(o)
			if err != nil {
				return err
			}
			if asJSON {
				return emitJSON(cmd, r)
			}
			return emit(cmd, simAgreeTable(r))
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.IntVar(&o.Nodes, "nodes", o.Nodes, "number of nodes")
	fs.StringVar(&o.Algorithm, "algorithm", o.Algorithm, "linear or log (two-phase commit), early (early-returning), or allreduce")
	fs.IntVar(&o.Radix, "radix", o.Radix, "k of the k-nomial tree")
	fs.IntVar(&o.Failures, "failures", o.Failures, "nodes that die")
	fs.StringVar(&o.Who, "who", o.Who, "random or leaves; root and others at random; inner: those with most nodes below first")
	fs.StringVar(&o.When, "when", o.When, "before: all know; during: at random in the time of an agreement without failures")
	fs.BoolVar(&o.Rebalance, "rebalance", o.Rebalance, "after an agreement that lists new dead, the tree holds the others only")
	fs.BoolVar(&o.Promote, "promote", o.Promote, "linear, log: who would block is undecided")
	fs.BoolVar(&o.Durable, "durable", o.Durable, "early: nobody returns before every living node holds the decision")
	fs.IntVar(&o.Runs, "runs", o.Runs, "number of runs")
	fs.Uint64Var(&o.Seed, "seed", o.Seed, "seed of the random numbers")
	fs.IntVar(&o.Latency, "latency", o.Latency, "L: steps that a message travels; a multiple of the overhead")
	fs.IntVar(&o.Overhead, "overhead", o.Overhead, "o: steps to send a message, or to handle one")
	fs.IntVar(&o.Detection, "detection", o.Detection, "steps from a death during the agreement to its news")
	fs.IntVar(&o.Parallel, "parallel", o.Parallel, "runs at a time; changes no result")
	addJSONFlag(cmd, &asJSON)
	for name, words := range agree.Words {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)) // the flags are there
	}
	return cmd
}

// runSimAgree makes an experiment.
func runSimAgree(o agree.Options) (*agree.Report, error) {
	if o.Parallel < 1 {
		return nil, usagef("oshrun sim agree --help", "--parallel: %q, want 1 or more", strconv.Itoa(o.Parallel))
	}
	r, err := agree.Run(o)
	switch {
	case errors.Is(err, logp.ErrOptions):
		return nil, &usageError{err: err, hint: "oshrun sim agree --help"}
	case err != nil:
		return nil, &statusError{status: launch.StatusError, err: fmt.Errorf("sim agree: %w", err)}
	}
	return r, nil
}

// simAgreeTable is what people read.
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
			row := []string{p.name, f.name, "-", "-", "-"}
			if g := f.figure; g != nil {
				for i, x := range []float64{g.Mean, g.Min, g.Max} {
					row[2+i] = strconv.FormatFloat(x, 'f', 3, 64)
				}
			}
			rows = append(rows, row)
		}
	}
	tabulate(&b, rows)
	for _, p := range []struct {
		name     string
		outcomes agree.Outcomes
	}{{"first", r.First.Outcomes}, {"next", r.Next.Outcomes}} {
		fmt.Fprintf(&b, "%s: %d decided, %d undecided, %d blocked\n", p.name, p.outcomes.Decided, p.outcomes.Undecided, p.outcomes.Blocked)
	}
	return b.Bytes()
}
