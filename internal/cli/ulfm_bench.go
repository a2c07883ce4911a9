package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/goshmem/goshmem/internal/lab/sample"
	"github.com/goshmem/goshmem/internal/lab/ulfmbench"
)

const ulfmBenchHelp = `Measure the calls of package mpi that survive deaths, as the benchmark programs of
ULFM do (github.com/ICLDisco/ulfm-testing).

  oshrun ulfm-bench                                       all cases, 2 to 8 ranks
  oshrun ulfm-bench --cases agree,shrink -n 8 --dead 0,2 --samples 50
  oshrun ulfm-bench --nodes 2 -n 4,8 --json

Cases:
  agree, iagree      Comm.Agree; Comm.Iagree with Wait
  shrink, ishrink    Comm.Shrink; Comm.Ishrink with Wait
  revoke             from the call of Comm.Revoke at rank 0 to ErrRevoked at the last
                     rank, while the others wait in Recv or in Barrier
  barrier            a rank kills itself by SIGKILL while the others are in Barrier: from
                     just before the kill to the error at each survivor
  recvany            the same, with the others in Recv from AnySource
  respawn            the same in Barrier, then Shrink, Spawn of one process in the place
                     of the dead one, and Merge with a barrier of all

Phases of agree to ishrink:
  steady             a sample is --calls calls, one after the other. Its time is that of a
                     call at the slowest survivor; a call of Allreduce of 8 bytes has its
                     samples beside it, in random order
  first              with --dead: the call that the survivors make while the dead ranks kill
                     themselves. It includes the time by which the deaths are known. One
                     sample of each job, at the slowest survivor

--jobs jobs run for each case, number of ranks and of dead ones, in random order. Rank 0
lives; the seed draws who dies. A job of barrier, recvany or respawn has one death.

If a call gives another result or error than it must, the exit status is 1.

With --json, one object with program, version, seed, nodes, jobs, samples, calls, cpus,
load and results, an array of objects:

  case, phase, ranks, dead    phase: steady, first; of revoke recv, barrier; else death,
                              of respawn also shrink, spawn, merge, and whole for all
  samples, us                 us: an object {min, p50, max} of microseconds
  allreduce_us                the same of a call of Allreduce, or null
  times_allreduce             steady: divided by the Allreduce of the same round, median;
                              first: by the median Allreduce of the job; 0: there is none,
                              or one survivor
  wrong, what                 what must not be, and the last of it in words`

// ulfmPE is the name of the program that the ranks of ulfm-bench run. It has no other use.
const ulfmPE = "ulfm-pe"

// newULFMBench returns the command that measures the calls that survive deaths.
func newULFMBench() *cobra.Command {
	o := ulfmbench.Defaults()
	o.Program = ulfmPE
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "ulfm-bench",
		Short:             "Measure agreements, revocations and deaths in package mpi",
		Long:              ulfmBenchHelp,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Seed = seedOf(cmd, o.Seed)
			return runULFMBench(cmd, o, asJSON)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringSliceVar(&o.Cases, "cases", o.Cases, "which: "+strings.Join(ulfmbench.Cases, ", "))
	fs.IntSliceVarP(&o.Sizes, "sizes", "n", o.Sizes, "numbers of ranks")
	fs.IntSliceVar(&o.Dead, "dead", o.Dead, "numbers of dead ranks of agree to ishrink, each for the sizes of which it is half at most")
	fs.IntVar(&o.Nodes, "nodes", o.Nodes, "number of nodes; more than one are emulated")
	fs.IntVar(&o.Jobs, "jobs", o.Jobs, "jobs of each case, number of ranks and of dead ones")
	fs.IntVar(&o.Samples, "samples", o.Samples, "samples in each job: of calls, and of revocations in each wait")
	fs.IntVar(&o.Calls, "calls", o.Calls, "calls in a sample")
	fs.Uint64Var(&o.Seed, "seed", 0, "seed of all orders and draws (default: a new one, which is printed)")
	addJSONFlag(cmd, &asJSON)
	completeFlags(cmd, map[string][]string{"cases": ulfmbench.Cases})
	completeNothing(cmd, "sizes", "dead", "nodes", "jobs", "samples", "calls", "seed")
	return cmd
}

func runULFMBench(cmd *cobra.Command, o ulfmbench.Options, asJSON bool) error {
	m := measurement[*ulfmbench.Report]{
		counts: "jobs", check: o.Check, asJSON: asJSON,
		measure: func(ctx context.Context, progress func(done, all int)) (*ulfmbench.Report, error) {
			o.Progress = progress
			return ulfmbench.Measure(ctx, o)
		},
		table: ulfmTable, failures: (*ulfmbench.Report).Failures,
	}
	return m.run(cmd)
}

// ulfmTable returns the report as a table.
func ulfmTable(r *ulfmbench.Report) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "us; %d jobs of each kind, %d samples of %d calls in each; nodes: %d; seed %d, %d processors, load %s before, %s after\n",
		r.Jobs, r.Samples, r.Calls, r.Nodes, r.Seed, r.CPUs, r.Load[0], r.Load[1])
	rows := [][]string{{"CASE", "PHASE", "RANKS", "DEAD", "SAMPLES", "MEDIAN", "MIN", "MAX", "ALLREDUCE", "X ALLREDUCE", "WRONG"}}
	for _, c := range r.Results {
		times, allreduce := "-", "-"
		if c.Times > 0 {
			times = fmt.Sprintf("%.2f", c.Times)
		}
		if c.Allreduce != nil {
			allreduce = ulfmTime(c.Allreduce.P50)
		}
		t := c.Time
		if t == nil {
			t = &sample.Spread{}
		}
		rows = append(rows, []string{
			c.Case, c.Phase, fmt.Sprint(c.Ranks), fmt.Sprint(c.Dead), fmt.Sprint(c.Samples),
			ulfmTime(t.P50), ulfmTime(t.Min), ulfmTime(t.Max), allreduce, times, fmt.Sprint(c.Wrong),
		})
	}
	tabulate(&b, rows)
	return b.Bytes()
}

// ulfmTime returns a time in microseconds: from 100 us on without decimals.
func ulfmTime(us float64) string {
	if us >= 100 {
		return fmt.Sprintf("%.0f", us)
	}
	return fmt.Sprintf("%.3g", us)
}
