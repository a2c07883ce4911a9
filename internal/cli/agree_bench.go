package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/goshmem/goshmem/internal/lab/agreebench"
)

const agreeBenchHelp = `Measure agreements among the PEs of real jobs, some of them killed before: Figure 2
of Hursey, Naughton, Vallee and Graham. The PEs run the machines of oshrun sim agree,
over a TCP connection from each PE to each one that it sends to.

  oshrun agree-bench                                      2 to 32 PEs, up to half of them dead
  oshrun agree-bench -n 8 --dead 0,2 --samples 50
  oshrun agree-bench --plot sizes.svg --plot-dead dead.svg --json

Algorithms:
  allreduce   the yardstick: no agreement, the survivors alone, as if they were all
  linear      two-phase commit, all others below the coordinator
  log         two-phase commit along a binomial tree
  early       early-returning: an allreduce that survives failures

Agreements are measured with the tree as it was, in which dead PEs are holes, and
rebalanced: the tree holds the survivors only. PE 0 is the coordinator and lives.

--jobs jobs run for each number of PEs and of dead ones. Their victims get SIGKILL;
when the survivors have learned of all deaths, they agree. In each sample every
algorithm has its turn, in random order. A sample is --calls agreements one after the
other; its time is divided by their number:

  coordinator  from the coordinator's first call to its last return
  all          from the first call of any survivor to the last return of any

If a survivor decides what the votes do not say, or two decide differently, the exit
status is 1.

With --json, one object with program, version, seed, who, jobs, samples, calls,
cpus, load and results, an array of objects:

  pes, dead, victims, algorithm, rebalanced, samples
  coordinator_us, all_us      objects {min, p50, max} of microseconds
  times_allreduce             all divided by the allreduce of the same round, median;
                              0: no allreduce
  wrong, differed             what must not be`

// agreePE is the name of the program that the PEs of agree-bench run. It has no other use.
const agreePE = "agree-pe"

// newAgreeBench returns the command that measures agreements.
func newAgreeBench() *cobra.Command {
	o := agreebench.Defaults()
	o.Program = agreePE
	var files, deadFiles []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "agree-bench",
		Short:             "Measure agreements among PEs of which some are dead",
		Long:              agreeBenchHelp,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Seed = seedOf(cmd, o.Seed)
			return runAgreeBench(cmd, o, files, deadFiles, asJSON)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.IntSliceVarP(&o.Sizes, "sizes", "n", o.Sizes, "numbers of PEs")
	fs.IntSliceVar(&o.Dead, "dead", o.Dead, "numbers of dead PEs, each for the sizes of which it is half at most")
	fs.StringSliceVar(&o.Algorithms, "algorithms", o.Algorithms, "which: "+strings.Join(agreebench.Algorithms, ", "))
	fs.StringVar(&o.Who, "who", o.Who, "which PEs die: inner (those with most PEs below them first) or random")
	fs.IntVar(&o.Jobs, "jobs", o.Jobs, "jobs of each number of PEs and of dead ones")
	fs.IntVar(&o.Samples, "samples", o.Samples, "samples of each algorithm in each job")
	fs.IntVar(&o.Calls, "calls", o.Calls, "agreements in a sample")
	fs.Uint64Var(&o.Seed, "seed", 0, "seed of all orders and draws (default: a new one, which is printed)")
	fs.StringSliceVar(&files, "plot", nil, "draw the times without dead PEs into `files` that end in .svg")
	fs.StringSliceVar(&deadFiles, "plot-dead", nil, "draw the times of the most PEs over the dead ones into `files` that end in .svg")
	addJSONFlag(cmd, &asJSON)
	completeFlags(cmd, map[string][]string{"algorithms": agreebench.Algorithms, "who": agreebench.Victims})
	return cmd
}

func runAgreeBench(cmd *cobra.Command, o agreebench.Options, files, deadFiles []string, asJSON bool) error {
	m := measurement[*agreebench.Report]{
		counts: "jobs", check: o.Check, asJSON: asJSON,
		plots: []plotFlag[*agreebench.Report]{
			{"--plot", files, (*agreebench.Report).Picture}, {"--plot-dead", deadFiles, (*agreebench.Report).PictureDead},
		},
		measure: func(ctx context.Context, progress func(done, all int)) (*agreebench.Report, error) {
			o.Progress = progress
			return agreebench.Measure(ctx, o)
		},
		table: agreeTable, failures: (*agreebench.Report).Failures,
	}
	return m.run(cmd)
}

// agreeTable returns the report as a table.
func agreeTable(r *agreebench.Report) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "us for an agreement: median (least to most) of %d samples of %d; dead: %s; seed %d, %d processors, load %s before, %s after\n",
		r.Jobs*r.Samples, r.Calls, r.Who, r.Seed, r.CPUs, r.Load[0], r.Load[1])
	rows := [][]string{{"PES", "DEAD", "ALGORITHM", "TREE", "COORDINATOR", "ALL", "X ALLREDUCE", "WRONG", "DIFFERED"}}
	for _, c := range r.Results {
		tree := "whole"
		switch {
		case c.Rebalanced:
			tree = "rebalanced"
		case c.Dead > 0:
			tree = "with holes"
		}
		times := "-"
		if c.Times > 0 {
			times = fmt.Sprintf("%.2f", c.Times)
		}
		rows = append(rows, []string{
			fmt.Sprint(c.PEs), fmt.Sprint(c.Dead), c.Algorithm, tree, spread(c.Coordinator), spread(c.All), times,
			fmt.Sprint(c.Wrong), fmt.Sprint(c.Differed),
		})
	}
	tabulate(&b, rows)
	return b.Bytes()
}
