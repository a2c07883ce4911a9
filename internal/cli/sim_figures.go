package cli

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/goshmem/goshmem/internal/lab/figures"
	"github.com/goshmem/goshmem/internal/launch"
)

const simFiguresHelp = `Draw the figures of the papers' simulations, ours beside the published points,
each as SVG into DIR, and say how far they are apart.

  oshrun sim figures pictures
  oshrun sim figures pictures --nodes 4096       quickly
  oshrun sim figures pictures --spread 16384     all of Table 2: several minutes

Margolin and Barak (FTCO): Figure 7, latency over the number of nodes; 8 and 9,
what an inactive node costs; 10, latency with failures; Table 2, nodes that start
late. Hursey et al. (agreement): Figure 2, of which the paper's text gives three
numbers; they are quotients, and drawn as such.`

// figuresReport is what --json writes.
type figuresReport struct {
	Nodes   int         `json:"nodes"`
	Runs    int         `json:"runs"`
	Spread  int         `json:"spread"`
	Seed    uint64      `json:"seed"`
	Figures []figureSay `json:"figures"`
}

type figureSay struct {
	Figure string   `json:"figure"`
	Files  []string `json:"files"`
	Says   string   `json:"says"`
}

// newSimFigures returns the command that draws figures.
func newSimFigures() *cobra.Command {
	o := figures.Defaults()
	o.Parallel = runtime.NumCPU()
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "figures DIR",
		Short: "Draw the papers' simulated figures, ours beside the published points",
		Long:  simFiguresHelp,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return usagef("oshrun sim figures pictures", "sim figures: %d arguments, want one: the directory for the figures", len(args))
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			drawn, err := drawFigures(cmd, args[0], o)
			if err != nil {
				return err
			}
			return emitFigures(cmd, o, drawn, asJSON)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.IntVar(&o.Nodes, "nodes", o.Nodes, "no more nodes than these; Table 2 is of 65536")
	fs.IntVar(&o.Runs, "runs", o.Runs, "runs with failures among up to 4096 nodes; fewer among more, for the same work")
	fs.IntVar(&o.Spread, "spread", o.Spread, "largest spread of Table 2 that is simulated")
	fs.Uint64Var(&o.Seed, "seed", o.Seed, "seed of the random numbers")
	fs.StringVar(&o.Only, "only", "", "draw one figure: "+strings.Join(figures.Names(), ", "))
	fs.IntVar(&o.Parallel, "parallel", o.Parallel, "experiments at a time; changes no result")
	addJSONFlag(cmd, &asJSON)
	completeFlags(cmd, map[string][]string{"only": figures.Names()})
	return cmd
}

// checkFigures looks at the options.
func checkFigures(o *figures.Options) error {
	const hint = "oshrun sim figures --help"
	for _, n := range []struct {
		name             string
		value, low, high int
	}{
		{"nodes", o.Nodes, 1024, 65536}, {"runs", o.Runs, 1, 100000}, {"spread", o.Spread, 0, 16384}, {"parallel", o.Parallel, 1, 1 << 16},
	} {
		if n.value < n.low || n.value > n.high {
			return usagef(hint, "--%s: \"%d\", want %d to %d", n.name, n.value, n.low, n.high)
		}
	}
	if o.Only != "" && !slices.Contains(figures.Names(), o.Only) {
		return usagef(hint, "--only: %q, want %s", o.Only, strings.Join(figures.Names(), ", "))
	}
	return nil
}

// drawFigures draws the figures, and shows on a terminal how far it is.
func drawFigures(cmd *cobra.Command, dir string, o figures.Options) ([]figures.Drawn, error) {
	if err := checkFigures(&o); err != nil {
		return nil, err
	}
	o.Progress = showProgress(cmd, "experiments")
	drawn, err := figures.Draw(dir, o)
	if err != nil {
		return nil, &statusError{status: launch.StatusError, err: fmt.Errorf("sim figures: %w", err)}
	}
	return drawn, nil
}

// emitFigures says what was drawn.
func emitFigures(cmd *cobra.Command, o figures.Options, drawn []figures.Drawn, asJSON bool) error {
	if asJSON {
		r := figuresReport{Nodes: o.Nodes, Runs: o.Runs, Spread: o.Spread, Seed: o.Seed}
		for _, d := range drawn {
			r.Figures = append(r.Figures, figureSay(d))
		}
		return emitJSON(cmd, r)
	}
	var b bytes.Buffer
	for _, d := range drawn {
		fmt.Fprintf(&b, "%s\n  %s\n", strings.Join(d.Files, " "), d.Says)
	}
	return emit(cmd, b.Bytes())
}
