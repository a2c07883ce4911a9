package cli

import (
	"github.com/spf13/cobra"
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
				return usagef("oshrun sim --help", "sim: %q, want the name of a simulation: ftco, agree, explore or figures", args[0])
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSimFTCO(), newSimAgree(), newSimExplore(), newSimFigures())
	return cmd
}
