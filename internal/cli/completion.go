package cli

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/goshmem/goshmem/graph500"
	"github.com/goshmem/goshmem/perftest"
)

const completionHelp = `Print the script that makes a shell complete oshrun's command line.

bash, with its package bash-completion: in this shell, or in every new one
  source <(oshrun completion bash)
  oshrun completion bash >~/.local/share/bash-completion/completions/oshrun

zsh, after compinit: in this shell, or in every new one
  source <(oshrun completion zsh)
  oshrun completion zsh >"${fpath[1]}/_oshrun"

fish: in this shell, or in every new one
  oshrun completion fish | source
  oshrun completion fish >~/.config/fish/completions/oshrun.fish

powershell: in this shell; add the line to the file $PROFILE for every new one
  oshrun completion powershell | Out-String | Invoke-Expression`

// shells are those that there is a completion script for.
var shells = []string{"bash", "zsh", "fish", "powershell"}

// newCompletion returns the command that prints completion scripts.
func newCompletion(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:                   "completion " + strings.Join(shells, "|"),
		Short:                 "Print the completion script of a shell",
		Long:                  completionHelp,
		DisableFlagsInUseLine: true,
		ValidArgs:             shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return fmt.Errorf("completion: shell %q, want one of %s", strings.Join(args, " "), strings.Join(shells, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var b bytes.Buffer
			if err := genCompletion(root, &b, args[0]); err != nil {
				return err
			}
			return emit(cmd, b.Bytes())
		},
	}
}

// genCompletion writes the script of a shell, with descriptions of the choices.
func genCompletion(root *cobra.Command, w io.Writer, shell string) error {
	switch shell {
	case "bash":
		return root.GenBashCompletionV2(w, true)
	case "zsh":
		return root.GenZshCompletion(w)
	case "fish":
		return root.GenFishCompletion(w, true)
	default:
		return root.GenPowerShellCompletionWithDesc(w)
	}
}

// usages print the usage texts of built-in programs, from which their words are completed.
var usages = map[string]func(io.Writer){"bench": perftest.Usage, "graph500": graph500.Usage}

// translateIncomplete turns the options of other launchers in a command line whose last
// word is to be completed. An option that it cannot turn stays as it is: the job will refuse it.
func translateIncomplete(args []string, flags *pflag.FlagSet) []string {
	if len(args) < 2 {
		return args
	}
	request, typed, last := args[:1], args[1:len(args)-1], args[len(args)-1:]
	own, err := translate(typed, flags)
	if err != nil {
		return args
	}
	return slices.Concat(request, own, last)
}

// completePrograms completes what stands behind the flags of a job: the program's name,
// which is a built-in one or a file, and the words of a built-in program.
func completePrograms(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	parts := splitParts(args)
	words := parts[len(parts)-1]
	if len(parts) > 1 {
		var err error
		if _, _, words, err = parsePart(words); err != nil {
			return nil, cobra.ShellCompDirectiveDefault
		}
	}
	if len(words) > 0 {
		return completeBuiltin(words[0], words[1:], prefix)
	}
	return startingWith(prefix, builtinNames()), cobra.ShellCompDirectiveDefault
}

// completeBuiltin completes a word of a built-in program's: a flag, or one of the choices
// before the flags. The value of a flag may be one of a few, or a file.
func completeBuiltin(program string, before []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if usages[program] == nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var text bytes.Buffer
	usages[program](&text)
	flags, choices := usageWords(text.String())
	if name, value, attached := strings.Cut(prefix, "="); attached && flags[name].value != "" {
		return completeUsageValue(flags[name], value) // the scripts of the shells put the flag before it
	}
	if n := len(before); n > 0 && flags[before[n-1]].value != "" {
		return completeUsageValue(flags[before[n-1]], prefix)
	}
	if !strings.HasPrefix(prefix, "-") {
		return startingWith(prefix, choices), cobra.ShellCompDirectiveNoFileComp
	}
	var found []string
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		found = append(found, cobra.CompletionWithDesc(name, flags[name].about))
	}
	return startingWith(prefix, found), cobra.ShellCompDirectiveNoFileComp
}

// completeUsageValue completes the value of a flag: a usage text that calls it full|none
// says what it may be.
func completeUsageValue(f usageFlag, prefix string) ([]string, cobra.ShellCompDirective) {
	if words := strings.Split(f.value, "|"); len(words) > 1 {
		return startingWith(prefix, words), cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveDefault
}

// completeList returns what completes a list with commas: the words of the list, and behind them
// a word that is not in it yet. No space follows, because the list may go on.
func completeList(words []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		before := prefix[:strings.LastIndexByte(prefix, ',')+1]
		given := strings.Split(before, ",")
		var found []string
		for _, word := range words {
			if !slices.Contains(given, word) {
				found = append(found, before+word)
			}
		}
		return startingWith(prefix, found), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// usageFlag is a flag as a usage text describes it.
type usageFlag struct {
	value string // what it is called in the text; empty: the flag has none
	about string
}

var (
	flagLine   = regexp.MustCompile(`^ +(?:(-\w), +)?(--[\w-]+)(?: (\S+))? {2,}(.*)`)
	choiceLine = regexp.MustCompile(`^  (\w+) +(.*)`)
)

// usageWords reads a usage text: the lines of its flags, and those of a list before them.
func usageWords(text string) (flags map[string]usageFlag, choices []string) {
	flags = map[string]usageFlag{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if m := flagLine.FindStringSubmatch(line); m != nil {
			for _, name := range m[1:3] {
				flags[name] = usageFlag{m[3], m[4]}
			}
		} else if m := choiceLine.FindStringSubmatch(line); m != nil {
			choices = append(choices, cobra.CompletionWithDesc(m[1], m[2]))
		}
	}
	delete(flags, "") // of those without a letter
	return flags, choices
}

// startingWith returns the words that begin with a prefix.
func startingWith(prefix string, words []string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return !strings.HasPrefix(w, prefix) })
}

// completeFlags completes the values of flags from fixed words. The command has the flags.
func completeFlags(cmd *cobra.Command, words map[string][]string) {
	for name, words := range words {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
}

// completeNothing completes the values of flags with nothing, not even files. The command has the flags.
func completeNothing(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
}
