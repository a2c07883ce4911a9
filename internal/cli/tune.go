package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/goshmem/goshmem/coll/tree"
	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/internal/nodes"
)

const tuneHelp = `Measure how long messages between nodes take, and say which radix k is the best
for the trees of nodes along which fences and collectives between nodes go.

  oshrun tune --host a,b,c,d
  oshrun tune --emulate 4 --dry-run

It starts daemons as a job on these hosts does, and measures the way between them
and oshrun: a round trip to one, and to all at once. From these come L, how long a
message is on its way, and o, how long a processor takes to send or handle one. The
table has the best k for 2 to 1024 nodes by the LogP model, and the time of a
broadcast with it and with the default.

L and o are stored, for the network that was measured: emulated nodes or hosts, by
--interface, with or without --control stdio. Jobs on as many as 4 nodes read them,
from $XDG_CONFIG_HOME/goshmem/tune.json or ~/.config/goshmem/tune.json. Without
them, each start of such a job measures for at most 3 ms. --coll-radix and
GOSHMEM_COLL_RADIX take precedence.

With --json, one object:

  network                   its name in the file
  file                      where L and o are stored; empty with --dry-run
  nodes, cycles             how many nodes were asked, and how often
  round_trip_ns             to one of them: the least, of the median node
  all_ns                    to all at once: the least
  latency_ns, overhead_ns   L and o
  rows                      array of {nodes, radix, broadcast_ns, default_ns}`

// tuneReport is what oshrun tune prints; tuneHelp documents it.
type tuneReport struct {
	Network   string    `json:"network"`
	File      string    `json:"file"`
	Nodes     int       `json:"nodes"`
	Cycles    int       `json:"cycles"`
	RoundTrip int64     `json:"round_trip_ns"`
	All       int64     `json:"all_ns"`
	Latency   int       `json:"latency_ns"`
	Overhead  int       `json:"overhead_ns"`
	Rows      []tuneRow `json:"rows"`
}

// tuneRow is the best radix for a number of nodes.
type tuneRow struct {
	Nodes     int `json:"nodes"`
	Radix     int `json:"radix"`
	Broadcast int `json:"broadcast_ns"`
	Default   int `json:"default_ns"` // with tree.DefaultRadix
}

// mostTuneNodes is the number of nodes of the last row.
const mostTuneNodes = 1024

// newTune returns the command that measures the way between nodes.
func newTune() *cobra.Command {
	f := runFlags{habitFlags: habitFlags{perNode: "1"}} // a node for each host, however many slots it has
	var asJSON, dry bool
	cmd := &cobra.Command{
		Use:               "tune",
		Short:             "Measure which trees of nodes are the best, and store it",
		Long:              tuneHelp,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.tune(cmd, dry, asJSON)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringArrayVar(&f.habitFlags.hosts, "host", nil, "measure the `HOSTS` a,b, or choose among those of a file or of Slurm")
	fs.StringVar(&f.hostfile, "hostfile", "", "measure the hosts of this `FILE`")
	fs.StringVar(&f.nodes, "nodes", "", "use the first `N` hosts")
	f.registerNodes(fs)
	fs.BoolVar(&dry, "dry-run", false, "store nothing")
	addJSONFlag(cmd, &asJSON)
	fs.Lookup("data-interface").Hidden = true // PEs use it, and there are none
	completeNothing(cmd, "host", "nodes")
	return cmd
}

// tune measures, stores and prints.
func (f *runFlags) tune(cmd *cobra.Command, dry, asJSON bool) error {
	if err := noneEmpty(cmd.Flags()); err != nil {
		return err
	}
	starter, span, err := f.tuneNodes()
	if err != nil {
		return err
	}
	v, err := measureNodes(cmd, starter, span)
	if err != nil {
		return err
	}
	r, err := newTuneReport(f.networkName(), &v)
	if err != nil {
		return &statusError{status: launch.StatusError, err: fmt.Errorf("tune: %w", err)}
	}
	var unstored error
	if !dry {
		if r.File, err = storeTuned(r.Network, tuned{Latency: r.Latency, Overhead: r.Overhead, Measured: time.Now().UTC().Truncate(time.Second)}); err != nil {
			unstored = &statusError{status: launch.StatusError, err: fmt.Errorf("tune: L and o are not stored: %w", err)}
		}
	}
	if asJSON {
		err = emitJSON(cmd, r)
	} else {
		err = emit(cmd, r.text())
	}
	return errors.Join(err, unstored)
}

// tuneNodes returns the nodes that are measured, and what starts their daemons.
func (f *runFlags) tuneNodes() (starter nodes.Starter, span launch.Span, err error) {
	if f.data != "" {
		return starter, span, usagef("--interface "+f.data, "--data-interface: %q, want nothing: tune measures the way between daemons, which --interface chooses", f.data)
	}
	layout, err := f.layOut([]part{{flags: f}}, newIsHere())
	if err != nil {
		return starter, span, err
	}
	if layout.IsHere() || len(layout.Nodes) < 2 {
		return starter, span, usagef("oshrun tune --host a,b,c,d, or --emulate 4", "tune: 1 host, want 2 or more")
	}
	var o launch.Options
	if err := f.setStarter(&o); err != nil {
		return starter, span, err
	}
	starter, ok := o.Starter.(nodes.Starter)
	if !ok {
		return starter, span, fmt.Errorf("tune: daemons are started by a %T, want a nodes.Starter", o.Starter)
	}
	for i := range layout.Nodes {
		n := &layout.Nodes[i]
		span.Hosts, span.Here = append(span.Hosts, n.Host), append(span.Here, n.Here)
	}
	return starter, span, nil
}

// measureNodes starts the daemons, and measures. A signal ends that.
func measureNodes(cmd *cobra.Command, starter nodes.Starter, span launch.Span) (v nodes.Survey, err error) {
	stderr := cmd.ErrOrStderr()
	newLogger, err := logger(false, hasColors(stderr, os.Getenv("NO_COLOR")))
	if err != nil {
		return v, err
	}
	hooks := daemon.Hooks{Logger: zerolog.Nop(), Notice: func(text string) { fmt.Fprintf(stderr, "oshrun: %s\n", launch.Printable(text)) }}
	if newLogger != nil {
		hooks.Logger = newLogger(stderr)
	}
	mortal := outlivePipes() // daemons are ended in order
	defer mortal()
	ctx, stop := interruptible(cmd)
	defer stop()
	v, err = starter.Measure(ctx, span, hooks)
	if err == nil {
		return v, nil
	}
	if cause, ok := errors.AsType[*interruption](context.Cause(ctx)); ok {
		return v, failed("tune", cause)
	}
	hint := "oshrun doctor says what this machine can do"
	if h, ok := errors.AsType[*daemon.HintError](err); ok {
		hint = h.Hint
	}
	return v, &launch.SetUpError{Err: fmt.Errorf("tune: %w", err), Hint: hint}
}

// newTuneReport computes the best radixes.
func newTuneReport(network string, v *nodes.Survey) (*tuneReport, error) {
	r := &tuneReport{
		Network: network, Nodes: v.Nodes, Cycles: v.Cycles, RoundTrip: v.Typical.Nanoseconds(), All: v.All.Nanoseconds(),
		Latency: v.LogP.Latency, Overhead: v.LogP.Overhead,
	}
	for n := 2; n <= mostTuneNodes; n *= 2 {
		usual, err := tree.NewKnomial(n, tree.DefaultRadix)
		if err != nil {
			return nil, err
		}
		row := tuneRow{Nodes: n, Default: v.LogP.BcastKnomial(usual)}
		if row.Radix, row.Broadcast, err = v.LogP.BestKnomial(n, tree.MostRadix); err != nil {
			return nil, err
		}
		r.Rows = append(r.Rows, row)
	}
	return r, nil
}

// text is what people read.
func (r *tuneReport) text() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s: %d nodes, each asked %d times; round trip to one %s µs, to all at once %s µs\n",
		r.Network, r.Nodes, r.Cycles, micros(r.RoundTrip), micros(r.All))
	fmt.Fprintf(&b, "L = %s µs, o = %s µs\n\n", micros(int64(r.Latency)), micros(int64(r.Overhead)))
	rows := [][]string{{"NODES", "BEST K", "BROADCAST, µs", fmt.Sprintf("WITH K = %d, µs", tree.DefaultRadix)}}
	for _, row := range r.Rows {
		rows = append(rows, []string{strconv.Itoa(row.Nodes), strconv.Itoa(row.Radix), micros(int64(row.Broadcast)), micros(int64(row.Default))})
	}
	tabulate(&b, rows)
	if r.File != "" {
		fmt.Fprintf(&b, "\nstored in %s\n", visible(r.File))
	}
	return b.Bytes()
}

// micros returns nanoseconds as microseconds.
func micros(ns int64) string { return fmt.Sprintf("%.1f", float64(ns)/1000) }
