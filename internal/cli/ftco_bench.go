package cli

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/goshmem/goshmem/detector/kernel"
	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/lab/ftcobench"
	"github.com/goshmem/goshmem/internal/lab/sample"
)

const ftcoBenchHelp = `Kill members of a team in a reduction, in real jobs, and say when the survivors
have the right result. This is section 5.1 of Margolin and Barak, Tree-Based
Fault-Tolerant Collective Operations for MPI, on real processes.

  oshrun ftco-bench                                     all parts, one node, 8 PEs
  oshrun ftco-bench --notice-delay 2s --parts table1    as the paper's Table 1
  oshrun ftco-bench --nodes 8,16 -n 16,32,64 --json     members are nodes
  oshrun ftco-bench --parts figure6 --doubles 1,64K --plot ftco.svg

Each job makes a team of all PEs and reduces some times. Then the last members of the
team die, each in its own way:

%s
On one node the members are PEs. On several nodes they are nodes, which this machine
stands for (oshrun --emulate), and a node dies with its agent. With --when before,
the first victims die at the start of the reduction, into which they do not go. With
during, they go into it and die at a random time of it: some when all have their data.
A member that dies upon news does not go into the reduction.

Parts:

  table1   the reduction of one double by a tolerant team, with each of these faults
  figure6  by size, with no fault and with one: the reduction of a tolerant team, which
           goes on among the survivors, and the way of ULFM: the reduction of a strict
           team, which fails; Team.Shrink; the reduction of the team of survivors. The
           steps of both are those of the paper's Figure 5.

A time is that from a survivor's call to its right result; of each job it is the
longest of all survivors. Rows without faults count each of the reductions.

--notice-delay holds the news of each death back for that time. It stands for the
timeout with which the paper's implementation finds out about a death, 2 s there.
Here the kernel or another node tells of a death, and nobody waits for a timeout. The
delay begins where the news comes in: on one node with the end of the process, on
several nodes with the word of another node.

Each survivor compares its result with the exact sum over the PEs of which the library
says that their data are in it. These must be the same for all survivors, and be all
survivors and no PE that was dead. If a result is wrong, or a survivor has none when
the job's time is over, the exit status is 1. What cannot be measured here is listed
with the reason.

With --json, one object with program, version, seed, notice_delay_ms, watchdog, cpus,
load and cases, an array of objects:

  nodes, pes, members         members: how many parts of the team die alone
  doubles, way, faults, when  what was done; when is empty without faults
  samples                     jobs
  longest_ms                  see above
  longest_mean_ms             its mean, which the paper has
  lead_ms                     from the call to the first death; negative: the survivor was late
  news_ms                     from the call to the last news of a death; then, tolerant:
  resumed_ms                  from the news to the result; or, strict:
  failed_ms                   from the call to the error
  shrunk_ms                   from the error to the end of the last Shrink
  retried_ms                  from there to the result
  left_out                    jobs whose result lacks the data of a dead PE
  wrong, missed, problem      what must not be, and the first of it in words
  not_available               why there are no samples

All times but the mean are objects {min, p50, max} of milliseconds, or null.`

// ftcoPE is the name of the program that the PEs of ftco-bench run. It has no other use.
const ftcoPE = "ftco-pe"

// newFTCOBench returns the command that measures what failures cost collectives.
func newFTCOBench() *cobra.Command {
	o := ftcobench.Options{Samples: 10, Watchdog: kernel.PIDFD.String(), Tiers: tiers, Program: ftcoPE, DelayFlag: newsDelayFlag}
	var files, sizes []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "ftco-bench",
		Short:             "Measure what failures cost collectives",
		Long:              fmt.Sprintf(ftcoBenchHelp, helpRows(ftcobench.AllFaults, func(f *ftcobench.Faults) (name, about string) { return f.Name, f.About })),
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Seed = seedOf(cmd, o.Seed)
			o.Doubles = nil
			for _, size := range sizes {
				n, err := envvar.ParseSize(size) // numbers with the same suffixes
				if err != nil {
					return usagef("oshrun ftco-bench --doubles 1,64K", "--doubles: %q, want a number such as 1024 or 64K", size)
				}
				o.Doubles = append(o.Doubles, int(min(n, 1<<62))) // Check refuses so many
			}
			return runFTCOBench(cmd, o, files, asJSON)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringSliceVar(&o.Parts, "parts", ftcobench.PartNames(), "what is measured: "+strings.Join(ftcobench.PartNames(), ", "))
	fs.StringSliceVar(&o.When, "when", ftcobench.MomentNames(), "when the first members die: "+strings.Join(ftcobench.MomentNames(), ", "))
	fs.IntSliceVar(&o.Nodes, "nodes", []int{1}, "`numbers` of nodes; more than one are emulated")
	fs.IntSliceVarP(&o.PEs, "np", "n", []int{8}, "`numbers` of PEs of the jobs")
	fs.StringSliceVar(&sizes, "doubles", []string{"1", "1K", "128K"}, "`numbers` of doubles that figure6 reduces; 1K is 1024")
	fs.DurationVar(&o.NoticeDelay, "notice-delay", 0, "hold the news of each death back for `time`, such as 2s: the paper's timeout")
	fs.StringVar(&o.Watchdog, "watchdog", o.Watchdog, "how deaths are learnt of: "+strings.Join(tiers, ", "))
	fs.IntVar(&o.Samples, "samples", o.Samples, "jobs of each case")
	fs.Uint64Var(&o.Seed, "seed", 0, "seed of the order of jobs and of the times of deaths (default: a new one, which is printed)")
	fs.StringSliceVar(&files, "plot", nil, "draw figure6 into `files` that end in .svg; table1 if that alone is measured")
	addJSONFlag(cmd, &asJSON)
	completeFlags(cmd, map[string][]string{"parts": ftcobench.PartNames(), "when": ftcobench.MomentNames(), "watchdog": tiers})
	completeNothing(cmd, "nodes", "np", "doubles", "notice-delay")
	return cmd
}

func runFTCOBench(cmd *cobra.Command, o ftcobench.Options, files []string, asJSON bool) error {
	m := measurement[*ftcobench.Report]{
		counts: "jobs", check: o.Check, asJSON: asJSON,
		plots: []plotFlag[*ftcobench.Report]{{"--plot", files, (*ftcobench.Report).Picture}},
		measure: func(ctx context.Context, progress func(done, all int)) (*ftcobench.Report, error) {
			o.Progress = progress
			return ftcobench.Measure(ctx, o)
		},
		table: ftcoTable, failures: (*ftcobench.Report).Failures,
	}
	return m.run(cmd)
}

// ftcoTable returns the report as a table.
func ftcoTable(r *ftcobench.Report) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "ms from the call to the result, the longest of the survivors: median (least to most)\nwatchdog %s, news held back for %g ms; seed %d, %d processors, load %s before, %s after\n",
		r.Watchdog, r.NoticeDelay, r.Seed, r.CPUs, r.Load[0], r.Load[1])
	ftcoTable1(&b, r)
	ftcoFigure6(&b, r)
	for _, note := range r.Notes() {
		fmt.Fprintln(&b, note)
	}
	return b.Bytes()
}

// ftcoTable1 writes the results in the form of the paper's Table 1.
func ftcoTable1(b *bytes.Buffer, r *ftcobench.Report) {
	if !slices.ContainsFunc(r.Cases, func(c *ftcobench.Result) bool { return c.Faults == "parallel" }) {
		return // Figure 6 alone was measured
	}
	rows := [][]string{{"NODES", "PES", "FIRST DEATHS", "NO FAULT", "1 FAULT", "2 IN PARALLEL", "2 IN SERIES", "3 MIXED"}}
	for _, g := range r.Groups() {
		for _, when := range ftcobench.MomentNames() {
			row, found := []string{fmt.Sprint(g.Nodes), fmt.Sprint(g.PEs), when}, false
			for _, f := range ftcobench.AllFaults {
				c := ftcobench.Case{Nodes: g.Nodes, PEs: g.PEs, Doubles: 1, Way: ftcobench.Tolerant, Faults: f.Name, When: when}
				if f.Name == "none" {
					c.When = ""
				}
				res := r.Find(c)
				found = found || res != nil && c.When != ""
				row = append(row, ftcoSpread(longestOf(res)))
			}
			if found {
				rows = append(rows, row)
			}
		}
	}
	writeTitled(b, "Tolerant reduction of one double (Table 1)", rows)
}

// longestOf returns the longest times of a result, or nil if r is nil.
func longestOf(r *ftcobench.Result) *sample.Spread {
	if r == nil {
		return nil
	}
	return r.Longest
}

// ftcoFigure6 writes the results in the form of the paper's Figures 6 and 5.
func ftcoFigure6(b *bytes.Buffer, r *ftcobench.Report) {
	costs := [][]string{{"NODES", "PES", "DOUBLES", "DEATH", "TOLERANT", "STRICT, SHRINK, RETRY", "STRICT / TOLERANT"}}
	steps := [][]string{{"NODES", "PES", "DOUBLES", "DEATH", "WAY", "JOBS", "WITHOUT THE DEAD", "NEWS", "RESUME", "ERROR", "SHRINK", "RETRY"}}
	for _, g := range r.Groups() {
		for _, size := range r.Sizes() {
			for _, when := range append([]string{""}, ftcobench.MomentNames()...) {
				c := ftcobench.Case{Nodes: g.Nodes, PEs: g.PEs, Doubles: size, Faults: "one", When: when}
				start := []string{fmt.Sprint(g.Nodes), fmt.Sprint(g.PEs), fmt.Sprint(size), when}
				if when == "" {
					c.Faults, start[3] = "none", "none"
				}
				c.Way = ftcobench.Tolerant
				tolerant := r.Find(c)
				c.Way = ftcobench.Strict
				strict := r.Find(c)
				if tolerant == nil && strict == nil {
					continue
				}
				ratio := "-"
				if tolerant != nil && strict != nil {
					ratio = fmt.Sprintf("%.2f", strict.Longest.P50/tolerant.Longest.P50)
				}
				costs = append(costs, append(start, ftcoSpread(longestOf(tolerant)), ftcoSpread(longestOf(strict)), ratio))
				for _, res := range []*ftcobench.Result{tolerant, strict} {
					if res != nil && when != "" {
						steps = append(steps, append(start[:4:4], res.Way, fmt.Sprint(res.Samples), fmt.Sprint(res.LeftOut), ftcoSpread(res.News), ftcoSpread(res.Resumed),
							ftcoSpread(res.Failed), ftcoSpread(res.Shrunk), ftcoSpread(res.Retried)))
					}
				}
			}
		}
	}
	writeTitled(b, "One fault: a tolerant team against a strict one that shrinks (Figure 6)", costs)
	writeTitled(b, "Steps of these (Figure 5)", steps)
}

// writeTitled writes a table under its title, if it has rows besides its head.
func writeTitled(b *bytes.Buffer, title string, rows [][]string) {
	if len(rows) > 1 {
		fmt.Fprintf(b, "\n%s\n", title)
		tabulate(b, rows)
	}
}

// ftcoSpread is spread for times of which some are seconds: from 100 ms on they have one decimal.
func ftcoSpread(s *sample.Spread) string {
	if s == nil {
		return "-"
	}
	digits := func(v float64) string {
		if v >= 100 {
			return fmt.Sprintf("%.1f", v)
		}
		return fmt.Sprintf("%.3g", v)
	}
	return fmt.Sprintf("%s (%s to %s)", digits(s.P50), digits(s.Min), digits(s.Max))
}
