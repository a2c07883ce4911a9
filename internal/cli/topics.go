package cli

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/launch"
)

const helpHelp = `Print the help of oshrun, of a command or on a topic:

  exit-codes   what the exit status of oshrun says
  environment  the environment variables that goshmem reads and sets
  mpirun       options of mpirun, mpiexec.hydra and srun, and oshrun's for them
  output       input and output of PEs: what oshrun promises
  signals      what signals to oshrun do, and what failures of PEs
  stats        what --stats tells of a job
  watchdog     how failures of PEs are noticed, and told

With --json, a topic is an array of objects:

  exit-codes   {status, meaning}; status is a string, for some stand for many
  environment  {name, deprecated_name, value, default, set_by, doc}
  mpirun       {option, of, here}
  output       {subject, meaning}
  signals      {signal, effect}
  stats        {field, meaning}
  watchdog     {tier, needs, learns}`

// exitCode is a row of exitCodes.
type exitCode struct {
	Status  string `json:"status"`
	Meaning string `json:"meaning"`
}

// exitCodes is what the exit status of oshrun says.
var exitCodes = []exitCode{
	{strconv.Itoa(launch.StatusOK), "the job ended well"},
	{strconv.Itoa(launch.StatusError), "error while running: a PE ended without Finalize, a node was lost, or output could not be written"},
	{strconv.Itoa(launch.StatusUsage), "the command line or a setting is wrong; nothing was started"},
	{strconv.Itoa(launch.StatusTolerated), "PEs had failed and the others finished well: with --recover, or where PEs were ended by others on purpose"},
	{strconv.Itoa(launch.StatusSetUp), "the job could not be set up"},
	{strconv.Itoa(launch.StatusTimeout), "--timeout was over"},
	{strconv.Itoa(launch.StatusSignal) + "+n", "a PE was killed by signal n, or oshrun was asked to end by it"},
	{strconv.Itoa(launch.StatusInterrupted), "interrupted: signal 2, as Ctrl-C sends it"},
	{strconv.Itoa(launch.StatusPipe), "nobody reads the output any more, as behind | head: the job was ended"},
	{"other", "the status of the first PE that failed, which may also be one of the above. Abort codes are truncated to 8 bits; 256 becomes 255"},
}

// documentedVar is an environment variable in the topic environment.
type documentedVar struct {
	Name           string `json:"name"`
	DeprecatedName string `json:"deprecated_name"`
	Value          string `json:"value"`
	Default        string `json:"default"`
	SetBy          string `json:"set_by"`
	Doc            string `json:"doc"`
}

// topic is what help knows beside the commands.
type topic struct {
	name  string
	short string
	data  func() any // for JSON
	text  func() []byte
}

func topics() []topic {
	return []topic{
		{"exit-codes", "what the exit status of oshrun says", func() any { return exitCodes }, exitCodesText},
		{"environment", "the environment variables", func() any { return documentedVars() }, environmentText},
		{"mpirun", "options of mpirun, mpiexec.hydra and srun", func() any { return habitRows() }, habitText},
		{"output", "input and output of PEs", outputData, outputText},
		{"signals", "what signals to oshrun do, and failures", func() any { return signalRows }, signalText},
		{"stats", "what --stats tells", func() any { return statsFields }, statsHelp},
		{"watchdog", "how failures of PEs are noticed", func() any { return watchdogRows }, watchdogText},
	}
}

func exitCodesText() []byte {
	rows := [][]string{{"STATUS", "MEANING"}}
	for _, c := range exitCodes {
		rows = append(rows, []string{c.Status, c.Meaning})
	}
	var b bytes.Buffer
	tabulate(&b, rows)
	return b.Bytes()
}

func documentedVars() []documentedVar {
	var out []documentedVar
	for _, v := range envvar.All() {
		out = append(out, documentedVar{
			Name: v.Name, DeprecatedName: v.Alias, Value: v.Value,
			Default: v.Default, SetBy: v.SetBy.String(), Doc: v.Doc,
		})
	}
	return out
}

// environmentText gives each variable two lines: in one row each the table
// would be wider than any terminal.
func environmentText() []byte {
	var rows [][]string
	for _, v := range documentedVars() {
		facts := v.Value + "; default: " + v.Default + "; set by " + v.SetBy
		if v.DeprecatedName != "" {
			facts += "; deprecated name " + v.DeprecatedName
		}
		rows = append(rows, []string{v.Name, facts}, []string{"", v.Doc})
	}
	var b bytes.Buffer
	tabulate(&b, rows)
	b.WriteString(`
A deprecated name is read only where the variable itself is not set.
A size is a number, then optionally k, m, g or t for a power of 1024: 65536, 512M, 1.5G.
"oshrun info" shows the values in effect.
`)
	return b.Bytes()
}

// newHelp returns the command help of root.
func newHelp(root *cobra.Command) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "help [topic|command]",
		Short: "Help on oshrun, a command or a topic",
		Long:  helpHelp,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("help: %d arguments, want one topic or command", len(args))
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return helpWords(root), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			return showHelp(cmd, root, helpRequest{name, asJSON})
		},
	}
	addJSONFlag(cmd, &asJSON)
	return cmd
}

// helpRequest is what help is asked for; without a name, for that of root.
type helpRequest struct {
	name   string
	asJSON bool
}

func showHelp(cmd, root *cobra.Command, req helpRequest) error {
	for _, t := range topics() {
		switch {
		case t.name != req.name:
		case req.asJSON:
			return emitJSON(cmd, t.data())
		default:
			return emit(cmd, t.text())
		}
	}
	target := root
	if req.name != "" {
		target = nil
	}
	for _, c := range root.Commands() {
		if c.Name() == req.name {
			target = c
		}
	}
	switch {
	case target == nil:
		return fmt.Errorf("help: topic %q, want %s", req.name, wordList(root))
	case req.asJSON:
		return fmt.Errorf("help: --json: %q is no table, want a topic: %s", target.Name(), topicList())
	}
	target.InitDefaultHelpFlag()
	target.InitDefaultVersionFlag()
	return target.Help()
}

// topicList returns the names of the topics in words.
func topicList() string {
	var names []string
	for _, t := range topics() {
		names = append(names, t.name)
	}
	return strings.Join(names, ", ")
}

// wordList returns in words all that help can be asked for.
func wordList(root *cobra.Command) string {
	var names []string
	for _, c := range root.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	return "one of the topics " + topicList() + ", or a command: " + strings.Join(names, ", ")
}

// helpWords returns all that help can be asked for, with descriptions as the
// completion of a shell takes them.
func helpWords(root *cobra.Command) (words []string) {
	for _, t := range topics() {
		words = append(words, t.name+"\t"+t.short)
	}
	for _, c := range root.Commands() {
		if !c.Hidden {
			words = append(words, c.Name()+"\t"+c.Short)
		}
	}
	return words
}
