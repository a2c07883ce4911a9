package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/goshmem/goshmem/internal/figures"
	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/internal/plot"
	"github.com/goshmem/goshmem/sim/ftco"
	"github.com/goshmem/goshmem/sim/logp"
)

const simFTCOHelp = `Run a fault-tolerant collective among many nodes in the LogP model, as the
simulations of the FTCO paper do: in each step a node sends one message or
handles one, and a message takes L steps between them.

  oshrun sim ftco --nodes 65536 --radix 9
  oshrun sim ftco --nodes 4096 --inactive 10 --runs 100
  oshrun sim ftco --nodes 65536 --radix 9 --spread 1024 --dist normal --json

The configuration published is the algorithm of the paper, with which its
figures are reproduced (docs/ftco.md says which choices that takes); shipped is
what programs use. Node 0 never fails and starts like all others; its own finish
counts in a reduction only.

With --plot, a figure of the distribution of the latency over the runs is drawn.
With --json, one object:

  latency_steps        from the start of the last node to the last finish
  messages_per_node    messages sent, divided by the number of nodes
  output_spread_steps  from the first finish to the last, without node 0
  max_queue            longest inbound queue of any node
  failed_nodes         nodes that failed before the end
  options              all options, with the radix that was used

All but options are objects {mean, min, max} over the runs.`

// newSimFTCO returns the command that simulates fault-tolerant collectives.
func newSimFTCO() *cobra.Command {
	o := ftco.Defaults()
	o.Parallel = runtime.NumCPU()
	var asJSON bool
	var file string
	cmd := &cobra.Command{
		Use:               "ftco",
		Short:             "Simulate fault-tolerant collectives in the LogP model",
		Long:              simFTCOHelp,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Config == "shipped" && !cmd.Flags().Changed("roots") {
				o.Roots = "single" // it has no other
			}
			r, err := runSimFTCO(o, file)
			if err != nil {
				return err
			}
			if asJSON {
				return emitJSON(cmd, r)
			}
			return emit(cmd, simFTCOTable(r))
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.IntVar(&o.Nodes, "nodes", o.Nodes, "number of nodes")
	fs.IntVar(&o.Radix, "radix", o.Radix, "k of the tree; 0: the one of 2 to 20 with the least latency without failures")
	fs.StringVar(&o.Topology, "topology", o.Topology, "tree: knomial or kary")
	fs.StringVar(&o.Roots, "roots", o.Roots, "single, or multi: k roots, each connected with all others; shipped: single")
	fs.StringVar(&o.Collective, "collective", o.Collective, "allreduce, reduce or bcast")
	fs.IntVar(&o.Latency, "latency", o.Latency, "L: steps that a message travels; a multiple of the overhead")
	fs.IntVar(&o.Overhead, "overhead", o.Overhead, "o: steps to send a message, or to handle one")
	fs.StringVar(&o.Service, "service", o.Service, "service distance: rsd, disd, or none for no fault tolerance")
	fs.IntVar(&o.Spread, "spread", o.Spread, "start nodes at random in this number of steps")
	fs.StringVar(&o.Dist, "dist", o.Dist, "distribution of the starts: uniform, or normal with a tenth of the spread as deviation")
	fs.IntVar(&o.Inactive, "inactive", o.Inactive, "nodes that have failed before the start (drawn with replacement)")
	fs.IntVar(&o.Online, "online", o.Online, "nodes that fail while it runs (drawn with replacement)")
	fs.IntVar(&o.Runs, "runs", o.Runs, "number of runs")
	fs.Uint64Var(&o.Seed, "seed", o.Seed, "seed of the random numbers")
	fs.StringVar(&o.Config, "config", o.Config, "published or shipped")
	fs.IntVar(&o.Detection, "detection", o.Detection, "shipped: steps from a failure to its news")
	fs.IntVar(&o.Parallel, "parallel", o.Parallel, "runs at a time; changes no result")
	fs.StringVar(&file, "plot", "", "draw how many runs had which latency, into a file that ends in .svg or .png")
	addJSONFlag(cmd, &asJSON)
	for name, words := range map[string][]string{
		"topology": {"knomial", "kary"}, "roots": {"single", "multi"}, "collective": {"allreduce", "reduce", "bcast"},
		"service": {"rsd", "disd", "none"}, "dist": {"uniform", "normal"}, "config": {"published", "shipped"},
	} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)) // the flags are there
	}
	return cmd
}

// runSimFTCO makes an experiment; wrong options are the user's mistake, a
// simulation that comes to no end is not.
// With a file, it draws how the latency is distributed.
func runSimFTCO(o ftco.Options, file string) (*ftco.Report, error) {
	if file != "" && !plot.Knows(file) {
		return nil, usagef("oshrun sim ftco --help", "--plot: %q, want a name that ends in .svg or .png", file)
	}
	if o.Parallel < 1 {
		return nil, usagef("oshrun sim ftco --help", "--parallel: %q, want 1 or more", strconv.Itoa(o.Parallel))
	}
	if file != "" { // rather than after hours
		if _, err := os.Stat(filepath.Dir(file)); err != nil {
			return nil, &statusError{status: launch.StatusError, err: fmt.Errorf("sim ftco: --plot: %w", err)}
		}
	}
	results, o, err := ftco.Results(o)
	if err == nil && file != "" {
		err = figures.Distribution(results, o).Write(file)
	}
	switch {
	case errors.Is(err, logp.ErrOptions):
		return nil, &usageError{err: err, hint: "oshrun sim ftco --help"}
	case err != nil:
		return nil, &statusError{status: launch.StatusError, err: fmt.Errorf("sim ftco: %w", err)}
	}
	return ftco.Summary(results, o), nil
}

// simFTCOTable is what people read.
func simFTCOTable(r *ftco.Report) []byte {
	o := r.Options
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s, %s, %d nodes, %s tree with k = %d, %s root, L = %d, o = %d, seed %d, %d runs\n",
		o.Config, o.Collective, o.Nodes, o.Topology, o.Radix, o.Roots, o.Latency, o.Overhead, o.Seed, o.Runs)
	rows := [][]string{{"FIGURE", "MEAN", "MIN", "MAX"}}
	for _, f := range []struct {
		name   string
		figure ftco.Figure
	}{
		{"latency, steps", r.Latency},
		{"messages per node", r.Messages},
		{"output spread, steps", r.OutSpread},
		{"longest queue", r.MaxQueue},
		{"failed nodes", r.FailedNodes},
	} {
		row := []string{f.name}
		for _, x := range []float64{f.figure.Mean, f.figure.Min, f.figure.Max} {
			row = append(row, strconv.FormatFloat(x, 'f', 3, 64))
		}
		rows = append(rows, row)
	}
	tabulate(&b, rows)
	return b.Bytes()
}
