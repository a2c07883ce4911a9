package cli

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/sim/detect"
	"github.com/goshmem/goshmem/sim/logp"
)

const simDetectHelp = `Let nodes die among many and see when the others know, in virtual time: the
machines of the detector between nodes, a ring whose members ping each other and a
broadcast of what they find. Nothing is sent, and no job runs.

  oshrun sim detect --nodes 1024 --fail contiguous:64
  oshrun sim detect --nodes 1024 --fail contiguous:64 --order plain
  oshrun sim detect --nodes 1024 --fail contiguous:64 --literal
  oshrun sim detect --nodes 100000 --fail contiguous:1024 --order plain --samples 1
  oshrun sim detect --fail none --loss 5 --duration 60s

All victims die at one moment, drawn from a period. --fail takes none, contiguous:K
(K nodes with successive numbers), random:K, or a list of nodes such as 3,5,9.

With --literal the paper's algorithm runs as printed: heartbeats, a timeout of two
periods, one timeout for each dead member in a row, no fencing; --pes makes each
PE a member. --prrte is the same as PRRTE 2.0 had it.

A sample of 100,000 nodes takes 1 GB of memory, and --parallel samples run at a time.
Each report is a broadcast to all nodes, which takes seconds to simulate among so many.
The permuted ring makes one report for each contiguous victim, --order plain only a few.

With --json, one object with options (all of them; durations in nanoseconds), case,
nodes, pes, tier, samples, period_ms, victims, and:

  first_ms, last_ms         from the deaths until the first survivor knew of one,
                            and until the last one knew of all; null if no sample
                            ended with all deaths known
  reports, report_messages  broadcasts, and their messages
  ring_messages_per_node_s  pings and answers, or heartbeats, before the deaths
  false_reports             living nodes that were reported, in all samples
  missed                    deaths of which some survivor did not learn

Figures are objects {mean, min, p50, max} over the samples.`

// newSimDetect returns the command that simulates the detector between nodes.
func newSimDetect() *cobra.Command {
	const hint = "oshrun sim detect --help"
	o := detect.Defaults()
	o.Parallel = runtime.NumCPU()
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "detect",
		Short:             "Simulate the failure detector between nodes",
		Long:              simDetectHelp,
		Args:              noSimArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Parallel < 1 {
				return usagef(hint, "--parallel: \"%d\", want 1 or more", o.Parallel)
			}
			r, err := detect.Run(o)
			switch {
			case errors.Is(err, logp.ErrOptions):
				return &usageError{err: err, hint: hint}
			case err != nil:
				return &statusError{status: launch.StatusError, err: fmt.Errorf("sim detect: %w", err)}
			case asJSON:
				return emitJSON(cmd, r)
			}
			return emit(cmd, simDetectTable(r))
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.IntVar(&o.Nodes, "nodes", o.Nodes, "number of nodes")
	fs.StringVar(&o.Fail, "fail", o.Fail, "none, contiguous:K, random:K, or a list of nodes")
	fs.StringVar(&o.Death, "death", o.Death, "node: nothing of it answers; daemon: its kernel says so, and closes connections;\npe: one PE of the node, which the node reports at once")
	fs.DurationVar(&o.Period, "heartbeat-period", o.Period, "from ping to ping")
	fs.StringVar(&o.Tier, "tier", o.Tier, "who answers pings: kernel, process or user; decides how long is waited for answers")
	fs.StringVar(&o.Order, "order", o.Order, "of the ring: permuted, or plain: each node watches the one before")
	fs.BoolVar(&o.Literal, "literal", o.Literal, "the paper's algorithm as printed")
	fs.BoolVar(&o.PRRTE, "prrte", o.PRRTE, "the paper's algorithm as PRRTE 2.0 had it")
	fs.IntVar(&o.PEs, "pes", o.PEs, "--literal: PEs of a node, each a member")
	fs.Float64Var(&o.Loss, "loss", o.Loss, "percent of pings, answers and heartbeats that are lost")
	fs.DurationVar(&o.Duration, "duration", o.Duration, "time that is simulated after the deaths, at least")
	fs.DurationVar(&o.Latency, "latency", o.Latency, "time that a message travels; a multiple of the overhead")
	fs.DurationVar(&o.Jitter, "jitter", o.Jitter, "random addition to it, at most, for pings, answers and heartbeats")
	fs.DurationVar(&o.Overhead, "overhead", o.Overhead, "time to send a report to a node, or to handle one")
	fs.IntVar(&o.Samples, "samples", o.Samples, "number of samples")
	fs.Uint64Var(&o.Seed, "seed", o.Seed, "seed of the random numbers")
	fs.IntVar(&o.Parallel, "parallel", o.Parallel, "samples at a time; changes no result")
	addJSONFlag(cmd, &asJSON)
	completeFlags(cmd, detect.Words)
	return cmd
}

// simDetectTable returns the report as a table.
func simDetectTable(r *detect.Report) []byte {
	o := r.Options
	var b bytes.Buffer
	fmt.Fprintf(&b, "%d nodes, %s dead (%d), %s, %s ring, period %v, %g %% lost, seed %d, %d samples\n",
		r.Nodes, o.Fail, r.Victims, r.Tier, o.Order, o.Period, o.Loss, o.Seed, o.Samples)
	rows := [][]string{{"FIGURE", "MEAN", "MIN", "MAX"}}
	for _, f := range []struct {
		name   string
		figure *detect.Figure
	}{
		{"first to know, ms", r.First},
		{"last to know, ms", r.Last},
		{"reports", &r.Reports},
		{"messages of reports", &r.Copies},
		{"ring messages per node and second", &r.Pings},
	} {
		cells := []string{"-", "-", "-"}
		if g := f.figure; g != nil {
			cells = decimals(g.Mean, g.Min, g.Max)
		}
		rows = append(rows, append([]string{f.name}, cells...))
	}
	tabulate(&b, rows)
	fmt.Fprintf(&b, "%d living nodes reported, %d deaths missed\n", r.FalseReports, r.Missed)
	return b.Bytes()
}
