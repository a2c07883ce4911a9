package cli

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/goshmem/goshmem/internal/lab/noise"
	"github.com/goshmem/goshmem/internal/launch"
)

const noiseHelp = `Run a program with failure detection off and on, in turns, and say what detection
costs: the overhead, the band of natural variability (one standard deviation
without detection), and the smallest effect that the samples would have shown.

  oshrun noise -n 2 -- bench put get -m 64K
  oshrun noise -n 2 --samples 30 --plot noise.svg -- graph500 --scale 16
  oshrun noise -n 2 --control -- bench barrier      can these samples show anything?
  oshrun noise --emulate 4 -n 4 --heartbeat-period 1ms,10ms,100ms,off -- bench barrier

A pair is a run with detection off and one with it on, in random order. bench and
graph500 are asked for their own figures; of other programs the wall time is
taken, from the start of oshrun to its end. What programs print is dropped.

With --emulate N, jobs have N nodes, which are all this machine. With a list in
--heartbeat-period, the periods are compared with off instead, all with the same
detection of PEs: a round is a run with heartbeats off, and one with each period of
the list, in random order. off in the list is a second run without heartbeats: its
row shows what these samples take for an effect where there is none.

With --control, a hog that takes 5 % of a core runs beside the program in the runs
with detection, and has to be found: the exit status is 1 if it is not. In a list of
periods, each but off has a hog, which has to be found in each.

With --json, one object with program, pes, emulate, samples, warmup, seed, watchdog,
cpus, load, control {percent_of_core, found} or null, rows, and all, the mean of the
rows in each pair. With a list of periods, rows and all are in periods, an array of
objects {heartbeat_period, rows, all}. A row:

  name, test, bytes, unit    what was measured
  off, on                    {mean, deviation, samples}
  overhead_percent           (mean on - mean off) / mean off
  band_percent               standard deviation without detection, of the mean
  low_percent, high_percent  95 % interval of the overhead
  detectable_percent         smallest effect to be found: 95 % confidence, 80 % power
  maxima_percent             (greatest on - greatest off) / greatest off, of all runs
                             and, where the program says it, of all PEs: the paper's
                             equation (1) takes maxima. One slow run decides it`

// newNoise returns the command that measures what detection costs.
func newNoise() *cobra.Command {
	o := noise.Options{PEs: runtime.NumCPU(), Samples: 10, Warmup: 1, Tiers: tiers}
	var files, periods []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "noise [flags] -- program [args]",
		Short:             "Measure what failure detection costs a program",
		Long:              noiseHelp,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completePrograms,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Program, o.Seed = args, seedOf(cmd, o.Seed)
			if cmd.Flags().Changed("heartbeat-period") {
				o.Periods = append([]string{}, periods...) // not nil, which is no list
			}
			return runNoise(cmd, o, files, asJSON)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.SetInterspersed(false)
	fs.IntVarP(&o.PEs, "np", "n", o.PEs, "number of PEs")
	fs.StringVar(&o.Emulate, "emulate", "", "jobs have `N` nodes, which are all this machine; N:netns: each with a network of its own")
	fs.StringSliceVar(&periods, "heartbeat-period", nil, "compare `periods` of the heartbeats between nodes with off, such as 1ms,10ms,100ms,off; with --emulate")
	fs.IntVar(&o.Samples, "samples", o.Samples, "pairs of runs, or rounds of --heartbeat-period")
	fs.IntVar(&o.Warmup, "warmup", o.Warmup, "pairs or rounds before those, which do not count")
	fs.StringVar(&o.Watchdog, "watchdog", "", "how failures are seen in the runs with detection: "+strings.Join(tiers, ", ")+" (default: the best)")
	fs.BoolVar(&o.Control, "control", false, "with a hog that must be found in the runs with detection")
	fs.Uint64Var(&o.Seed, "seed", 0, "seed of the order in pairs (default: a new one, which is printed)")
	fs.StringSliceVar(&files, "plot", nil, "draw the overhead over the band into `files` that end in .svg")
	addJSONFlag(cmd, &asJSON)
	completeFlags(cmd, map[string][]string{"watchdog": tiers})
	return cmd
}

func runNoise(cmd *cobra.Command, o noise.Options, files []string, asJSON bool) error {
	m := measurement[*noise.Report]{
		counts: "pairs of runs", check: func() error { return checkNoise(&o) }, asJSON: asJSON,
		plots: []plotFlag[*noise.Report]{{"--plot", files, (*noise.Report).Picture}},
		measure: func(ctx context.Context, progress func(done, all int)) (*noise.Report, error) {
			o.Progress = progress
			return noise.Measure(ctx, o)
		},
		table: noiseTable,
		failures: func(r *noise.Report) error {
			if r.Control != nil && !r.Control.Found {
				return &statusError{status: launch.StatusError} // the verdict says why
			}
			return nil
		},
	}
	return m.run(cmd)
}

// checkNoise checks the options, --emulate as a run of oshrun does.
func checkNoise(o *noise.Options) error {
	if err := o.Check(); err != nil || o.Emulate == "" {
		return err
	}
	f := nodeFlags{emulate: o.Emulate}
	_, err := f.emulation(func(int) int { return o.PEs })
	return err
}

// noiseTable returns the report as a table.
func noiseTable(r *noise.Report) []byte {
	var b bytes.Buffer
	where, turns := "", "pairs of runs"
	if r.Emulate != "" {
		where = ", --emulate " + r.Emulate
	}
	header := []string{"FIGURE", "UNIT", "OFF", "ON", "OVERHEAD %", "BAND %", "95 % INTERVAL", "DETECTABLE %", "MAXIMA %"}
	if len(r.Periods) > 0 {
		turns = "rounds"
		header = slices.Insert(header, 0, "PERIOD")
	}
	fmt.Fprintf(&b, "%s, %d PEs%s, watchdog %s, %d %s after %d, seed %d; %d processors, load %s before, %s after\n",
		strings.Join(r.Program, " "), r.PEs, where, r.Watchdog, r.Samples, turns, r.Warmup, r.Seed, r.CPUs, r.Load[0], r.Load[1])
	rows := [][]string{header}
	for _, c := range r.Comparisons() {
		var first []string
		if c.Period != "" {
			first = []string{c.Period}
		}
		for _, row := range c.Rows {
			rows = append(rows, slices.Concat(first, []string{row.Name, row.Unit, side(row.Off), side(row.On)}, effect(&row)))
		}
		if len(c.Rows) > 1 {
			rows = append(rows, slices.Concat(first, []string{"all", "", "", ""}, effect(&c.All)))
		}
	}
	tabulate(&b, rows)
	for _, line := range r.Verdict() {
		fmt.Fprintln(&b, line)
	}
	return b.Bytes()
}

// side returns a cell of a table: the mean and the deviation.
func side(s *noise.Side) string { return fmt.Sprintf("%.4g ± %.2g", s.Mean, s.Deviation) }

// effect returns the cells that say what detection costs.
func effect(row *noise.Row) []string {
	return []string{
		fmt.Sprintf("%+.2f", row.Overhead), fmt.Sprintf("±%.2f", row.Band),
		fmt.Sprintf("%+.2f to %+.2f", row.Low, row.High), fmt.Sprintf("%.2f", row.Detectable), fmt.Sprintf("%+.2f", row.Maxima),
	}
}
