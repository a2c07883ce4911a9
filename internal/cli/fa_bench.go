package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/goshmem/goshmem/internal/lab/fabench"
	"github.com/goshmem/goshmem/internal/lab/sample"
)

const faBenchHelp = `Run applications in transactions (package mpi/ft) in which ranks die, as Figure 2 of
the paper on FA-MPI has them, beside the same without deaths and beside a restart from
the beginning.

  oshrun fa-bench                                       all cases, 4 ranks
  oshrun fa-bench --cases first,first-rebuild -n 8 --samples 10 --size 40
  oshrun fa-bench --emulate 2 --cases fault-free,node --json --plot figure2.svg

Cases:
%s
A death is a SIGSEGV of the process, without a handler; that of a node is a SIGKILL of
its daemon, its agent and its ranks. Iterations count from 0. Rank 1 dies, in first-2 the
last rank as well, in node all ranks on the node of the last one. With --emulate, ranks go
to the nodes in turn: the next rank, which has the copy of a rank's data, is on another
node. The application copies its data every 10 iterations. What a death costs includes
the iterations since the last copy, which are made again.

Times of whole jobs are from the start of oshrun to its end. RESTART is a job without
transactions that dies in the same iteration, and another one that runs to its end.

Phases, each from the end of the one before to its own end at the last process:
  detect    from just before the signal to the first failed operation of a survivor
  agree     until all survivors have rejected the block, and agreed to begin the recovery.
            It includes the time from the first survivor that sees the death to the last
  shrink    the communicator of the survivors
  spawn     the start of new processes, until they have called Init
  rebuild   the communicator of the survivors and the new processes
  reload    the survivors agree on the last copy, and all restore their data; new ranks
            make their part of the matrix

If a result is not the one without deaths, bit for bit, or a run fails or takes longer
than --timeout, the exit status is 1. After a run that has failed there is no report.

With --json, one object with program, version, seed, pes, nodes, iterations, samples,
cpus, load and cases, an array of objects:

  app, case, pes, nodes, size, policy, dead, iteration, samples
  fault_free_s, total_s       whole jobs: objects {min, p50, max} of seconds
  added_s                     median of total_s without that of fault_free_s
  restart_s                   as total_s, or null
  recovery_s                  from the death to the end of reload, or null
  phases                      an object of such objects by phase, in seconds, or null
  recoveries                  the most in a run; more than 1: one has begun anew
  equal, wrong                whether all results are those without deaths, or another one`

// faPE is the name of the program that the ranks of fa-bench run. It has no other use.
const faPE = "fa-pe"

// newFABench returns the command that measures what deaths cost applications in transactions.
func newFABench() *cobra.Command {
	o := fabench.Defaults()
	o.Program = faPE
	var files []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "fa-bench",
		Short:             "Measure what deaths cost applications in transactions",
		Long:              fmt.Sprintf(faBenchHelp, helpRows(fabench.Cases, func(c *fabench.Case) (name, about string) { return c.Name, c.About })),
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Seed = seedOf(cmd, o.Seed)
			return runFABench(cmd, o, files, asJSON)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringSliceVar(&o.Apps, "apps", o.Apps, "which applications: "+strings.Join(fabench.AppNames(), ", "))
	fs.StringSliceVar(&o.Cases, "cases", nil, "which cases: "+strings.Join(fabench.CaseNames(), ", ")+"\n(default: all; node with --emulate 2 or more)")
	fs.IntVarP(&o.PEs, "np", "n", o.PEs, "number of ranks")
	fs.IntVar(&o.Nodes, "emulate", 0, "let this machine stand for `N` nodes")
	fs.IntVar(&o.Samples, "samples", o.Samples, "runs of each case")
	fs.IntVar(&o.Size, "size", 0, "elements on a side (default: each application's own)")
	fs.IntVar(&o.Iterations, "iterations", o.Iterations, "iterations of a run")
	fs.DurationVar(&o.Timeout, "timeout", o.Timeout, "time for a job")
	fs.Uint64Var(&o.Seed, "seed", 0, "seed of the order of runs (default: a new one, which is printed)")
	fs.StringSliceVar(&files, "plot", nil, "draw the times into `files` that end in .svg")
	addJSONFlag(cmd, &asJSON)
	completeFlags(cmd, map[string][]string{"apps": fabench.AppNames(), "cases": fabench.CaseNames()})
	completeNothing(cmd, "np", "emulate", "samples", "size", "iterations", "timeout", "seed")
	return cmd
}

func runFABench(cmd *cobra.Command, o fabench.Options, files []string, asJSON bool) error {
	if cmd.Flags().Changed("emulate") && o.Nodes < 1 {
		return usagef("oshrun fa-bench --help", "--emulate: %d, want 1 or more nodes", o.Nodes)
	}
	m := measurement[*fabench.Report]{
		counts: "runs", check: o.Check, asJSON: asJSON,
		plots: []plotFlag[*fabench.Report]{{"--plot", files, (*fabench.Report).Picture}},
		measure: func(ctx context.Context, progress func(done, all int)) (*fabench.Report, error) {
			o.Progress = progress
			return fabench.Measure(ctx, o)
		},
		table: faTable, failures: (*fabench.Report).Failures,
	}
	return m.run(cmd)
}

// faTable returns the report as a table.
func faTable(r *fabench.Report) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "median (least to most); %d ranks, %d nodes, %d iterations; seed %d, %d processors, load %s before, %s after\n",
		r.PEs, r.Nodes, r.Iterations, r.Seed, r.CPUs, r.Load[0], r.Load[1])
	rows := [][]string{{"APP", "CASE", "SAMPLES", "FAULT-FREE, s", "TOTAL, s", "ADDED, s", "RESTART, s", "EQUAL"}}
	phases := [][]string{{"APP", "CASE"}}
	for _, phase := range fabench.Phases {
		phases[0] = append(phases[0], strings.ToUpper(phase)+", ms")
	}
	phases[0] = append(phases[0], "ALL, ms")
	for _, c := range r.Cases {
		equal := "yes"
		if !c.Equal {
			equal = "no"
		}
		rows = append(rows, []string{c.App, c.Case, fmt.Sprint(c.Samples), spread(c.FaultFree), spread(c.Total), fmt.Sprintf("%+.2f", c.Added), spread(c.Restart), equal})
		if c.Phases == nil {
			continue
		}
		row := []string{c.App, c.Case}
		for _, phase := range fabench.Phases {
			row = append(row, spread(inMilliseconds(c.Phases[phase])))
		}
		phases = append(phases, append(row, spread(inMilliseconds(c.Recovery))))
	}
	tabulate(&b, rows)
	if len(phases) > 1 {
		fmt.Fprintln(&b, "phases of the recovery:")
		tabulate(&b, phases)
	}
	return b.Bytes()
}

// inMilliseconds returns a spread of seconds in milliseconds.
func inMilliseconds(s *sample.Spread) *sample.Spread {
	if s == nil {
		return nil
	}
	return &sample.Spread{Min: 1000 * s.Min, P50: 1000 * s.P50, Max: 1000 * s.Max}
}
