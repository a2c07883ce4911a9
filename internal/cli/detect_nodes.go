package cli

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/goshmem/goshmem/internal/lab/detectbench"
)

const detectNodesHelp = `
Between nodes, which this machine stands for:

  oshrun detect-bench --emulate 8 -n 16                           cases of one node
  oshrun detect-bench --emulate 8:netns --cases node,cut,random:3 nodes with networks
  oshrun detect-bench --emulate 8 --heartbeat-period 50ms,100ms --heartbeat-tier process,user

The survivors on all other nodes wait as above. A time is that from just before the
failure until a survivor knows of all PEs that have died; stored is a time of each
node. All emulated nodes share one clock, so their times can be compared: the report
says "one clock: emulated". What dies is drawn anew for each failure. Cases:

%s
Without --cases, all that take no number but none. daemon and agent are noticed by what runs
on the node or by the end of a connection; node with netns, and cut, only by silence.
--heartbeat-period, --heartbeat-tier, --watchdog and --lease are passed on to the jobs
if they are given. Several periods or tiers are compared with each other.

A survivor that has not learnt of all deaths within 30 s (and --lease, if given) is
missed, and so is one that dies. A report of a PE or of a node that lives is false.

With --baseline literal there are rows of the published algorithm, in virtual time:
each PE is a member of its ring, with a timeout of two periods, one for each dead
member in a row. prrte is the same as PRRTE 2.0 had it. Their tier ends in
"simulated"; they have no network and no processors, so they are lower bounds.

none runs a job for two seconds, or the time of --calm, in which any report is false.
With --traffic, PEs put data to each other in all cases. With --loss 10, the network
loses a tenth of what each node sends, at random, once all PEs are ready:

  oshrun detect-bench --emulate 4:netns --cases none --calm 1m --loss 10

With --hybrid, survivors wait in a call of package mpi, too. mpi is when it returns.
Both models of each PE have to see each other's declaration, and the same deaths.

With --json there are, in addition: emulate, clock and watchdog of the whole, and
detector, simulated, hybrid, mpi_ms, models_unseen and inject_ms of each case: the
end of the injection, which has several steps; with --loss also loss_percent of the
whole, and packets and packets_lost of each case. The tier is that of the heartbeats,
"default" if none was given; period_ms is 0 then.`

// detectNodeFlags are the flags of detect-bench for measurements between nodes.
type detectNodeFlags struct {
	emulate string
	tiers   []string
	periods []string
	lease   string

	hybrid    bool
	traffic   bool
	baselines []string

	calm string
	loss float64
}

// detectNodeOnly are the flags that need --emulate.
var detectNodeOnly = []string{"heartbeat-period", "heartbeat-tier", "lease", "hybrid", "traffic", "baseline", "calm", "loss"}

func (f *detectNodeFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.emulate, "emulate", "", "measure between `N` nodes, which this machine stands for; N:netns: each with a network of its own")
	fs.StringSliceVar(&f.periods, "heartbeat-period", nil, "period of heartbeats between nodes, such as 50ms; `times` are compared (default: that of the job)")
	fs.StringSliceVar(&f.tiers, "heartbeat-tier", nil, "who answers heartbeats: "+strings.Join(detectbench.HeartbeatTierNames, ", ")+" (default: that of the job)")
	fs.StringVar(&f.lease, "lease", "", "how long a node may be out of reach before it is lost: seconds, or 30s, 1m (default: that of the job)")
	fs.BoolVar(&f.hybrid, "hybrid", false, "PEs use package mpi, too, and wait for a message of what dies")
	fs.BoolVar(&f.traffic, "traffic", false, "PEs put 64 KiB to each other all the time")
	fs.StringSliceVar(&f.baselines, "baseline", nil, "simulated `detectors` beside the jobs: "+strings.Join(detectbench.BaselineNames, ", "))
	fs.StringVar(&f.calm, "calm", "", "how long a job of the case none runs: seconds, or 30s, 1m (default: 2s)")
	fs.Float64Var(&f.loss, "loss", 0, "`percent` of the packets between nodes that are lost at random; with netns only")
	_ = cmd.RegisterFlagCompletionFunc("baseline", completeList(detectbench.BaselineNames)) // the command has both flags
	_ = cmd.RegisterFlagCompletionFunc("heartbeat-tier", completeList(detectbench.HeartbeatTierNames))
	_ = cmd.RegisterFlagCompletionFunc("cases", func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		words := detectbench.CaseNames()
		if cmd.Flags().Changed("emulate") {
			words = detectbench.NodeCaseNames()
		}
		return completeList(words)(cmd, args, prefix)
	})
	completeFlags(cmd, map[string][]string{"emulate": {"4", "4:" + networks}})
	completeNothing(cmd, "heartbeat-period", "lease", "calm", "loss")
}

// checkUnused returns an error if a flag is given that means nothing on one node.
func (f *detectNodeFlags) checkUnused(cmd *cobra.Command) error {
	for _, name := range detectNodeOnly {
		if cmd.Flags().Changed(name) {
			return usagef("oshrun detect-bench --emulate 4", "--%s: %s, want --emulate N with it: it is for failures between nodes", name, cmd.Flags().Lookup(name).Value)
		}
	}
	return nil
}

// options returns the options of a measurement between nodes. o has those that both kinds have.
func (f *detectNodeFlags) options(cmd *cobra.Command, o detectbench.Options) (n detectbench.NodeOptions, err error) {
	if cmd.Flags().Changed("size") {
		return n, usagef("leave out --size", "--size: %v, want nothing with --emulate, whose cases fill no memory", cmd.Flags().Lookup("size").Value)
	}
	n = detectbench.NodeOptions{
		Cases: o.Cases, Samples: o.Samples, PEs: o.PEs, HeartbeatTiers: f.tiers, Watchdog: o.Watchdog, Seed: o.Seed, Tiers: o.Tiers, Program: o.Program,
		Hybrid: f.hybrid, Traffic: f.traffic, Baselines: f.baselines, Loss: f.loss,
	}
	where := nodeFlags{emulate: f.emulate}
	a, err := where.emulation(func(nodes int) int { return nodes })
	if err != nil {
		return n, err
	}
	n.Nodes, n.Apart = len(a.Hosts), where.isApart()
	if !cmd.Flags().Changed("np") {
		n.PEs = n.Nodes
	}
	for _, text := range f.periods {
		d, err := duration("--heartbeat-period", text)
		if err == nil && d == 0 {
			err = usagef("--heartbeat-period 100ms", "--heartbeat-period: %q, want a time such as 100ms", text)
		}
		if err != nil {
			return n, err
		}
		n.HeartbeatPeriods = append(n.HeartbeatPeriods, d)
	}
	if f.calm != "" {
		if n.Calm, err = duration("--calm", f.calm); err != nil {
			return n, err
		}
	}
	where.lease = f.lease
	if f.lease != "" {
		n.Lease, err = where.leaseTime()
	}
	return n, err
}

func runDetectNodes(cmd *cobra.Command, o detectbench.NodeOptions, files []string, asJSON bool) error {
	m := measurement[*detectbench.Report]{
		counts: "failures", check: o.Check, asJSON: asJSON,
		plots: []plotFlag[*detectbench.Report]{{"--plot", files, (*detectbench.Report).Picture}},
		measure: func(ctx context.Context, progress func(done, all int)) (*detectbench.Report, error) {
			o.Progress = progress
			return detectbench.MeasureNodes(ctx, o)
		},
		table: detectNodesTable, failures: (*detectbench.Report).Failures,
	}
	return m.run(cmd)
}

// detectNodesTable returns the report of a measurement between nodes as a table.
func detectNodesTable(r *detectbench.Report) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "ms from the failure: median (least to most); --emulate %s, %s; seed %d, %d processors, load %s before, %s after\n",
		r.Emulate, r.Clock, r.Seed, r.CPUs, r.Load[0], r.Load[1])
	if r.Loss > 0 {
		fmt.Fprintf(&b, "%v %% of the packets between nodes are lost: %s\n", r.Loss, lossesOf(r))
	}
	hybrid := slices.ContainsFunc(r.Cases, func(c *detectbench.Result) bool { return c.Hybrid })
	rows := [][]string{{"CASE", "NODES", "PES", "TIER", "PERIOD", "SAMPLES", "STORED", "RETURNED, FIRST", "RETURNED, LAST", "CALLED", "SAID", "INJECTED", "FALSE", "MISSED"}}
	if hybrid {
		rows[0] = append(rows[0], "MPI", "UNSEEN")
	}
	var notes []string
	for _, c := range r.Cases {
		if c.NotHere != "" {
			notes = append(notes, fmt.Sprintf("not available here: case %s, tier %s: %s", c.Case, c.Tier, c.NotHere))
			continue
		}
		period := "-"
		if c.Period > 0 {
			period = fmt.Sprint(c.Period)
		}
		rows = append(rows, []string{
			c.Case, fmt.Sprint(c.Nodes), fmt.Sprint(c.PEs), c.Tier, period, fmt.Sprint(c.Samples), spread(c.Stored), spread(c.First), spread(c.Last),
			spread(c.Called), spread(c.Said), spread(c.Injected), fmt.Sprint(c.False), fmt.Sprint(c.Missed),
		})
		if hybrid {
			rows[len(rows)-1] = append(rows[len(rows)-1], spread(c.MPI), fmt.Sprint(c.Unseen))
		}
	}
	tabulate(&b, rows)
	for _, note := range notes {
		fmt.Fprintln(&b, note)
	}
	return b.Bytes()
}

// lossesOf says how many packets each case has lost.
func lossesOf(r *detectbench.Report) string {
	var all []string
	for _, c := range r.Cases {
		if c.Packets > 0 {
			all = append(all, fmt.Sprintf("%s %d of %d", c.Case, c.PacketsLost, c.Packets))
		}
	}
	return strings.Join(all, ", ")
}
