package cli

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/goshmem/goshmem/internal/lab/detectfigures"
)

const detectFiguresHelp = `Make the figures of a paper on failure detection, ours beside the published
values: a table of each, and a picture in the directory of --out.

  oshrun detect-figures --out pictures
  oshrun detect-figures --figure 10,13 --nodes 16 --samples 30 --out pictures
  oshrun detect-figures --figure 9 --swim swim.json --out pictures
  oshrun detect-figures --out docs/pictures --doc docs/detection.md

The paper: Zhong, Bouteiller, Luo and Bosilca, General Failure Detection and
Propagation in HPC and Distributed Systems. Figures:

%s
Rows are

  emulated    real jobs on nodes that this machine stands for. Nodes that die take
              their interface with them (--emulate N:netns), which takes root
  simulated   oshrun sim detect: our machines in virtual time; literal is the paper's
              algorithm as printed, and with members that are PEs it stands for ULFM
  measured    SWIM, from a report of swimbench that --swim names:
              go -C bench run ./cmd/swimbench --members 8,32,64,256 --period 500ms --json
  paper       numbers in the paper's text, with the section

Samples of emulated rows are mixed in time. Fits are curves a log2 N + b through the
medians of three or more rows. If an emulated failure is missed, one is reported that
was none, or a job ends in another way, the exit status is 1.

--doc replaces the tables in a document, each between the lines
"<!-- detect-figures N: begin -->" and "<!-- detect-figures N: end -->".

With --json, one object with program, version, seed, samples, sim_samples, cpus, load
and figures, an array of objects {figure, title, rows, fits, noise, paper, file}. Rows
have the fields of detect-bench, and how and detector. noise is a report of oshrun noise.`

// newDetectFigures returns the command that makes the figures of the paper on failure detection.
func newDetectFigures() *cobra.Command {
	o := detectfigures.Defaults()
	o.Tiers, o.Program, o.Parallel = tiers, detectPE, runtime.NumCPU()
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "detect-figures",
		Short: "Make a paper's figures of failure detection, ours beside the published values",
		Long: fmt.Sprintf(detectFiguresHelp, helpRows(detectfigures.Titles(),
			func(t *detectfigures.Title) (name, about string) { return t.Name, t.About })),
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Seed = seedOf(cmd, o.Seed)
			return runDetectFigures(cmd, o, asJSON)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringSliceVar(&o.Figures, "figure", nil, "which `figures`: "+strings.Join(detectfigures.Names(), ", ")+" (default: all)")
	fs.StringVar(&o.Dir, "out", "", "draw the figures into `DIR`, as SVG")
	fs.IntSliceVar(&o.Nodes, "nodes", o.Nodes, "`numbers` of emulated nodes; figures of one number take the largest")
	fs.IntSliceVar(&o.SimNodes, "sim-nodes", o.SimNodes, "`numbers` of simulated nodes")
	fs.DurationSliceVar(&o.Periods, "periods", o.Periods, "`periods` of the heartbeats; figures of one period take the longest")
	fs.DurationSliceVar(&o.Accuracy, "accuracy", o.Accuracy, "`periods` of the heartbeats in Figure 8")
	fs.IntVar(&o.Iterations, "iterations", o.Iterations, "iterations of each size in Figure 7")
	fs.DurationVar(&o.Time, "time", o.Time, "repeat the iterations of each size in Figure 7 for this long in each round; the paper measures for 20 s in all")
	fs.IntVar(&o.Samples, "samples", o.Samples, "failures of each emulated row, and rounds of Figure 7")
	fs.IntVar(&o.SimSamples, "sim-samples", o.SimSamples, "samples of each simulated row")
	fs.StringSliceVar(&o.SWIM, "swim", nil, "`files` with the output of swimbench --json")
	fs.StringVar(&o.Doc, "doc", "", "replace the tables in `FILE`: docs/detection.md")
	fs.Uint64Var(&o.Seed, "seed", 0, "seed of the failures and of their order (default: a new one, which is printed)")
	addJSONFlag(cmd, &asJSON)
	_ = cmd.RegisterFlagCompletionFunc("figure", completeList(detectfigures.Names())) // the command has the flag
	_ = cmd.MarkFlagDirname("out")
	_ = cmd.MarkFlagFilename("swim", "json")
	_ = cmd.MarkFlagFilename("doc", "md")
	completeNothing(cmd, "nodes", "sim-nodes", "periods", "accuracy")
	return cmd
}

func runDetectFigures(cmd *cobra.Command, o detectfigures.Options, asJSON bool) error {
	m := measurement[*detectfigures.Report]{
		counts: "failures", check: o.Check, asJSON: asJSON,
		measure: func(ctx context.Context, progress func(done, all int)) (*detectfigures.Report, error) {
			o.Progress = progress
			return detectfigures.Make(ctx, o)
		},
		table: detectFiguresTables,
		failures: func(r *detectfigures.Report) error {
			if o.Doc != "" {
				if err := r.UpdateDocument(o.Doc); err != nil {
					return err
				}
			}
			return r.Failures()
		},
	}
	return m.run(cmd)
}

// detectFiguresTables returns the tables of all figures.
func detectFiguresTables(r *detectfigures.Report) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "ms from the failure: %s\n", r.Conditions())
	for _, f := range r.Figures {
		fmt.Fprintf(&b, "\nFigure %s: %s\n", f.Name, f.Title)
		tabulate(&b, f.Table())
		for _, line := range f.Notes() {
			fmt.Fprintln(&b, line)
		}
		if f.File != "" {
			fmt.Fprintln(&b, f.File)
		}
	}
	return b.Bytes()
}
