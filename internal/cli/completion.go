package cli

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
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
