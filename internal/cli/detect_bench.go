package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/lab/detectbench"
	"github.com/goshmem/goshmem/internal/lab/sample"
)

const detectBenchHelp = `Make PEs of real jobs fail, one a job, and say how soon the others learn of it.

  oshrun detect-bench                                   all cases, the best tier
  oshrun detect-bench --watchdog all --samples 50       tiers side by side
  oshrun detect-bench --cases small,exit -n 8 --json

Times are from just before the failure is injected, by the clock that all
processes of the machine share:

  stored    the failure is on the page that all PEs see
  returned  a call in which a survivor was blocked returns, with the error
  called    a survivor's callback runs (World.OnFailure)
  said      oshrun's message is read by who reads it

Cases:
%s
A PE that is stopped is not dead: of it, only said is measured. A case or a tier
that this machine does not have is named with the reason. If a failure is missed
by a survivor, or one is reported that was none, the exit status is 1.

With --json, one object with program, version, seed, size_bytes, cpus, load and
cases, an array of objects:

  case, nodes, pes, tier, samples
  period_ms                   of heartbeats; 0: on a node there are none
  first_ms, last_ms           returned, of the first and of the last survivor
  kernel_ms                   the kernel's own time of the death, where the tier has it
  stored_ms, returned_ms, called_ms, said_ms
  false_reports, missed       what must not be
  not_available               why there are no samples

All times are objects {min, p50, max} of milliseconds, or null.`

// detectPE is the name of the program that the PEs of detect-bench run. It has no other use.
const detectPE = "detect-pe"

// newDetectBench returns the command that measures how soon failures are known.
func newDetectBench() *cobra.Command {
	o := detectbench.Options{PEs: 4, Samples: 10, Watchdog: detectbench.Best, Tiers: tiers, Program: detectPE}
	var files []string
	var size string
	var asJSON bool
	var between detectNodeFlags
	cmd := &cobra.Command{
		Use:   "detect-bench",
		Short: "Measure how soon PEs learn that one has failed",
		Long: fmt.Sprintf(detectBenchHelp, helpRows(detectbench.Cases, func(c *detectbench.Case) (name, about string) { return c.Name, c.About })) +
			"\n" + fmt.Sprintf(detectNodesHelp, helpRows(detectbench.NodeCases, func(c *detectbench.NodeCase) (name, about string) { return c.Name, c.About })),
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Seed = seedOf(cmd, o.Seed)
			if cmd.Flags().Changed("emulate") {
				n, err := between.options(cmd, o)
				if err != nil {
					return err
				}
				return runDetectNodes(cmd, n, files, asJSON)
			}
			if err := between.checkUnused(cmd); err != nil {
				return err
			}
			bytes, err := envvar.ParseSize(size)
			if err != nil {
				return usagef("oshrun detect-bench --help", "--size: %w", err)
			}
			o.Size = int(min(bytes, 1<<62)) // no machine has so much
			return runDetectBench(cmd, o, files, asJSON)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringSliceVar(&o.Cases, "cases", nil, "which failures: "+strings.Join(detectbench.CaseNames(), ", ")+" (default: all);\nwith --emulate: see above")
	fs.IntVar(&o.Samples, "samples", o.Samples, "failures of each case in each tier")
	fs.IntVarP(&o.PEs, "np", "n", o.PEs, "number of PEs; the last one fails. With --emulate any; default then: one on each node")
	fs.StringVar(&o.Watchdog, "watchdog", o.Watchdog, "how failures are seen: "+strings.Join(tiers, ", ")+", best, or all one beside the other")
	fs.StringVar(&size, "size", "4G", "`bytes` of the cases with memory")
	fs.Uint64Var(&o.Seed, "seed", 0, "seed of the order of failures (default: a new one, which is printed)")
	fs.StringSliceVar(&files, "plot", nil, "draw the times into `files` that end in .svg")
	addJSONFlag(cmd, &asJSON)
	between.register(cmd)
	completeFlags(cmd, map[string][]string{"watchdog": append([]string{detectbench.Best, detectbench.All}, tiers...)})
	return cmd
}

func runDetectBench(cmd *cobra.Command, o detectbench.Options, files []string, asJSON bool) error {
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		o.Available = meminfo(text, "MemAvailable")
	}
	m := measurement[*detectbench.Report]{
		counts: "failures", check: o.Check, asJSON: asJSON,
		plots: []plotFlag[*detectbench.Report]{{"--plot", files, (*detectbench.Report).Picture}},
		measure: func(ctx context.Context, progress func(done, all int)) (*detectbench.Report, error) {
			o.Progress = progress
			return detectbench.Measure(ctx, o)
		},
		table: detectTable, failures: (*detectbench.Report).Failures,
	}
	return m.run(cmd)
}

// detectTable returns the report as a table.
func detectTable(r *detectbench.Report) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "ms from the failure: median (least to most); seed %d, %d processors, load %s before, %s after\n", r.Seed, r.CPUs, r.Load[0], r.Load[1])
	rows := [][]string{{"CASE", "TIER", "PES", "SAMPLES", "STORED", "RETURNED, FIRST", "RETURNED, LAST", "CALLED", "SAID", "FALSE", "MISSED"}}
	var notes []string
	for _, c := range r.Cases {
		if c.NotHere != "" {
			notes = append(notes, fmt.Sprintf("not available here: case %s, tier %s: %s", c.Case, c.Tier, c.NotHere))
			continue
		}
		rows = append(rows, []string{
			c.Case, c.Tier, fmt.Sprint(c.PEs), fmt.Sprint(c.Samples), spread(c.Stored), spread(c.First), spread(c.Last),
			spread(c.Called), spread(c.Said), fmt.Sprint(c.False), fmt.Sprint(c.Missed),
		})
	}
	tabulate(&b, rows)
	for _, note := range notes {
		fmt.Fprintln(&b, note)
	}
	return b.Bytes()
}

// spread returns a cell of a table: the median, and the least and the greatest value.
func spread(s *sample.Spread) string {
	if s == nil {
		return "-"
	}
	return fmt.Sprintf("%s (%s to %s)", threeDigits(s.P50), threeDigits(s.Min), threeDigits(s.Max))
}

// threeDigits returns a time with three digits, or with all before the point.
func threeDigits(ms float64) string {
	if ms >= 1000 {
		return fmt.Sprintf("%.0f", ms)
	}
	return fmt.Sprintf("%.3g", ms)
}
