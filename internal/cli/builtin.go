package cli

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/goshmem/goshmem/graph500"
	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/lab/agreebench"
	"github.com/goshmem/goshmem/internal/lab/detectbench"
	"github.com/goshmem/goshmem/internal/lab/fabench"
	"github.com/goshmem/goshmem/internal/lab/ftcobench"
	"github.com/goshmem/goshmem/internal/lab/ulfmbench"
	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/perftest"
)

// builtins are the programs inside oshrun.
var builtins = map[string]func(args []string, stdout, stderr io.Writer) int{
	"bench":    perftest.Main,
	"graph500": runGraph500,
	detectPE:   detectbench.Main,
	agreePE:    agreebench.Main,
	ftcoPE:     ftcobench.Main,
	ulfmPE:     ulfmbench.Main,
	faPE:       fabench.Main,
}

// builtinNames are the names of those that are for users.
func builtinNames() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(builtins)), func(name string) bool {
		return name == detectPE || name == agreePE || name == ftcoPE || name == ulfmPE || name == faPE
	})
}

// newPE returns the hidden command that runs a built-in program as a PE.
func newPE() *cobra.Command {
	return &cobra.Command{
		Use: "pe program [args]", Hidden: true, DisableFlagParsing: true,
		Short: "run a built-in program in this process",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || builtins[args[0]] == nil {
				return usagef("", "pe: want one of %v", builtinNames())
			}
			code := builtins[args[0]](args[1:], cmd.OutOrStdout(), cmd.ErrOrStderr())
			return &statusError{status: code}
		},
	}
}

func runGraph500(args []string, stdout, stderr io.Writer) int {
	p := graph500.Program{Stdout: stdout, Stderr: stderr}
	bar, err := envvar.ProgressBar(os.LookupEnv)
	if err != nil {
		fmt.Fprintf(stderr, "graph500: %v\n", err)
		return launch.StatusUsage
	}
	if bar {
		p.Progress = progressBars(stderr, time.Now)
	}
	return p.Main(args)
}
