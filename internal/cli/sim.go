package cli

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/sim/logp"
)

const simHelp = `Simulate parts of goshmem at sizes that no machine at hand has.

Simulations are deterministic: equal options, the seed among them, give equal
results on every machine, whatever number of processors it has.`

// newSim returns the command that holds all simulations.
func newSim() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Simulate collectives at sizes beyond this machine",
		Long:  simHelp,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("oshrun sim --help", "sim: %q, want the name of a simulation: ftco, agree, detect, explore or figures", args[0])
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSimFTCO(), newSimAgree(), newSimDetect(), newSimExplore(), newSimFigures())
	return cmd
}

// experiment is a command that makes runs in the LogP model and gives a report of
// type R, as a table or as JSON.
type experiment[R any] struct {
	name, short, long string

	flags func(fs *pflag.FlagSet)
	words map[string][]string // values of the flags that take words
	table func(R) []byte

	// The options of all experiments. They hold the defaults.
	latency, overhead, runs, parallel *int
	seed                              *uint64
}

// command returns the command. run makes its report. An error of run is a usage error if
// it is logp.ErrOptions; otherwise the simulation has failed.
func (e experiment[R]) command(run func(cmd *cobra.Command) (R, error)) *cobra.Command {
	hint := "oshrun sim " + e.name + " --help"
	var asJSON bool
	cmd := &cobra.Command{
		Use:               e.name,
		Short:             e.short,
		Long:              e.long,
		Args:              noSimArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if *e.parallel < 1 {
				return usagef(hint, "--parallel: \"%d\", want 1 or more", *e.parallel)
			}
			r, err := run(cmd)
			switch {
			case errors.Is(err, logp.ErrOptions):
				return &usageError{err: err, hint: hint}
			case err != nil:
				return &statusError{status: launch.StatusError, err: fmt.Errorf("sim %s: %w", e.name, err)}
			case asJSON:
				return emitJSON(cmd, r)
			}
			return emit(cmd, e.table(r))
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	e.flags(fs)
	fs.IntVar(e.latency, "latency", *e.latency, "L: steps that a message travels; a multiple of the overhead")
	fs.IntVar(e.overhead, "overhead", *e.overhead, "o: steps to send a message, or to handle one")
	fs.IntVar(e.runs, "runs", *e.runs, "number of runs")
	fs.Uint64Var(e.seed, "seed", *e.seed, "seed of the random numbers")
	*e.parallel = runtime.NumCPU()
	fs.IntVar(e.parallel, "parallel", *e.parallel, "runs at a time; changes no result")
	addJSONFlag(cmd, &asJSON)
	completeFlags(cmd, e.words)
	return cmd
}

// noSimArgs refuses arguments of a simulation, such as the value of a flag that has none.
func noSimArgs(cmd *cobra.Command, args []string) error {
	if err := noArgs(cmd, args); err != nil {
		return usagef(cmd.CommandPath()+" --help", "sim %w", err)
	}
	return nil
}

// decimals returns the cells of figures. Whole numbers have no decimals.
func decimals(figures ...float64) (cells []string) {
	for _, x := range figures {
		digits := 3
		if x == math.Trunc(x) {
			digits = 0
		}
		cells = append(cells, strconv.FormatFloat(x, 'f', digits, 64))
	}
	return cells
}
