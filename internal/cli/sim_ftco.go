package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/goshmem/goshmem/internal/lab/figures"
	"github.com/goshmem/goshmem/internal/lab/plot"
	"github.com/goshmem/goshmem/internal/launch"
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
what programs use, over one root. Node 0 never fails and starts like all others; its own finish
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
	var file string
	return experiment[*ftco.Report]{
		name: "ftco", short: "Simulate fault-tolerant collectives in the LogP model", long: simFTCOHelp,
		flags: func(fs *pflag.FlagSet) {
			fs.IntVar(&o.Nodes, "nodes", o.Nodes, "number of nodes")
			fs.IntVar(&o.Radix, "radix", o.Radix, "k of the tree; 0: the one of 2 to 20 with the least latency without failures")
			fs.StringVar(&o.Topology, "topology", o.Topology, "tree: knomial or kary")
			fs.StringVar(&o.Roots, "roots", o.Roots, "single, or multi: k roots, each connected with all others; shipped: single")
			fs.StringVar(&o.Collective, "collective", o.Collective, "allreduce, reduce or bcast")
			fs.StringVar(&o.Service, "service", o.Service, "service distance: rsd, disd, or none for no fault tolerance")
			fs.IntVar(&o.Spread, "spread", o.Spread, "start nodes at random in this number of steps")
			fs.StringVar(&o.Dist, "dist", o.Dist, "distribution of the starts: uniform, or normal with a tenth of the spread as deviation")
			fs.IntVar(&o.Inactive, "inactive", o.Inactive, "nodes that have failed before the start (drawn with replacement)")
			fs.IntVar(&o.Online, "online", o.Online, "nodes that fail while it runs (drawn with replacement)")
			fs.StringVar(&o.Config, "config", o.Config, "published or shipped")
			fs.IntVar(&o.Detection, "detection", o.Detection, "shipped: steps from a failure to its news")
			fs.StringVar(&file, "plot", "", "draw how many runs had which latency, into a file that ends in .svg")
		},
		words: ftco.Words, table: simFTCOTable,
		latency: &o.Latency, overhead: &o.Overhead, runs: &o.Runs, parallel: &o.Parallel, seed: &o.Seed,
	}.command(func(cmd *cobra.Command) (*ftco.Report, error) {
		if o.Config == "shipped" && !cmd.Flags().Changed("roots") {
			o.Roots = "single" // it has no other
		}
		return runSimFTCO(o, file)
	})
}

// runSimFTCO makes an experiment. If there is a file, it draws the distribution of
// the latency into it.
func runSimFTCO(o ftco.Options, file string) (*ftco.Report, error) {
	if file != "" && !plot.Knows(file) {
		return nil, logp.BadOption("plot", file, "a name that ends in .svg")
	}
	if file != "" { // rather than after hours
		if _, err := os.Stat(filepath.Dir(file)); err != nil {
			return nil, &statusError{status: launch.StatusError, err: fmt.Errorf("sim ftco: --plot: %w", err)}
		}
	}
	results, o, err := ftco.Results(o)
	if err != nil {
		return nil, err
	}
	if file != "" {
		if err := figures.Distribution(results, o).Write(file); err != nil {
			return nil, err
		}
	}
	return ftco.Summary(results, o), nil
}

// simFTCOTable returns the report as a table.
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
		rows = append(rows, append([]string{f.name}, decimals(f.figure.Mean, f.figure.Min, f.figure.Max)...))
	}
	tabulate(&b, rows)
	return b.Bytes()
}
