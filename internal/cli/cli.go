// Package cli is oshrun's command line.
package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/internal/version"
)

// Execute runs oshrun with the given arguments and returns its exit status.
//
// The first word decides: if it is a subcommand, that is run; everything else
// is a job, whose flags end at the first word that is not one.
func Execute(args []string, stdin *os.File, stdout, stderr io.Writer) int {
	root := newRoot(stdin)
	tools := newTools(root)
	var err error
	if isTool(args, tools) {
		root.AddCommand(tools...)
		if isCompletion(args[0]) {
			args = translateIncomplete(args, root.Flags())
		}
	} else {
		args, err = translate(args, root.Flags())
	}
	if err == nil {
		root.SetArgs(args)
		root.SetOut(stdout)
		root.SetErr(stderr)
		err = root.Execute()
	}
	if err == nil {
		return launch.StatusOK
	}
	quiet, _ := root.Flags().GetBool("quiet") // the flag is there
	return report(stderr, err, quiet)
}

// newTools returns the subcommands.
func newTools(root *cobra.Command) []*cobra.Command {
	help := newHelp(root)
	root.SetHelpCommand(help)
	return []*cobra.Command{
		newInfo(builtinNames()), newDoctor(), newSim(), newNoise(), newDetectBench(), newDetectFigures(), newNetfault(), newAgreeBench(), newFTCOBench(), newULFMBench(), newFABench(), newTune(), newCompletion(root), newLicenses(), help, newPE(), newDaemon(), newAgent(), newHeartbeat(),
	}
}

// isTool says whether the first word is a subcommand, or asks for completion of
// a command line.
func isTool(args []string, tools []*cobra.Command) bool {
	if len(args) == 0 {
		return false
	}
	if args[0] == "-h" || args[0] == "--help" || isCompletion(args[0]) {
		return true
	}
	for _, c := range tools {
		if args[0] == c.Name() {
			return true
		}
	}
	return false
}

// isCompletion says whether the script of a shell asks for completion of what follows.
func isCompletion(word string) bool {
	return word == cobra.ShellCompRequestCmd || word == cobra.ShellCompNoDescRequestCmd
}

// usageError is an error in the command line itself.
type usageError struct {
	err  error
	hint string
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(hint, format string, args ...any) error {
	return &usageError{err: fmt.Errorf(format, args...), hint: hint}
}

// report prints an error with its hint, unless quiet, and returns the exit status that it
// stands for: the one place where that is decided.
func report(stderr io.Writer, err error, quiet bool) int {
	var (
		status *statusError
		setUp  *launch.SetUpError
		usage  *usageError
		value  *envvar.ValueError
	)
	code, hint := launch.StatusUsage, "oshrun --help"
	switch {
	case errors.As(err, &status):
		if status.err == nil {
			return status.status
		}
		code, hint = status.status, ""
	case errors.As(err, &setUp) && errors.As(err, &value):
		hint = "oshrun help environment" // a variable's value is as much a mistake as a flag's
	case errors.As(err, &setUp):
		code, hint = launch.StatusSetUp, setUp.Hint
	case errors.As(err, &usage) && usage.hint != "":
		hint = usage.hint
	}
	fmt.Fprintf(stderr, "oshrun: %s\n", launch.Printable(err.Error()))
	if hint != "" && !quiet {
		fmt.Fprintf(stderr, "hint: %s\n", launch.Printable(hint))
	}
	return code
}

// flagError says in this program's words what is wrong with a flag.
func flagError(err error) error {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return &usageError{err: err}
	}
	switch f := bad.GetFlag(); {
	case f.Name == "np":
		return usagef("oshrun -n 4 program", "-n: number of PEs %q, want %s", bad.GetValue(), launch.WantPEs())
	case f.Value.Type() == "bool":
		return usagef("", "--%s: %q, want true or false", f.Name, bad.GetValue())
	default:
		return usagef("", "--%s: %q: %w", f.Name, bad.GetValue(), bad.Unwrap())
	}
}

func newRoot(stdin *os.File) *cobra.Command {
	var f runFlags
	root := &cobra.Command{
		Use:           "oshrun [flags] program [args] [: [flags] program [args]]...",
		Short:         "oshrun starts goshmem jobs",
		Long:          rootHelp,
		Version:       version.String(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args, stdin)
		},
		ValidArgsFunction: completePrograms,
	}
	root.SetVersionTemplate("oshrun {{.Version}}\n")
	root.Flags().SetInterspersed(false)
	root.Flags().SortFlags = false
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if cmd.HasParent() {
			return commandFlagError(cmd, err)
		}
		return flagError(err)
	})
	f.register(root.Flags())
	completeValues(root)
	return root
}
