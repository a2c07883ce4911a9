package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/launch"
)

func TestHelpRoot(t *testing.T) {
	text, err := say(t, "help")
	if err != nil || !strings.Contains(text, "doctor") || !strings.Contains(text, "Usage:") {
		t.Errorf("help: %v\n%s", err, text)
	}
}

// The help of a command is the same in whichever way it is asked for.
func TestHelpCommand(t *testing.T) {
	for _, name := range []string{"info", "doctor", "sim", "noise", "detect-bench", "detect-figures", "netfault", "agree-bench", "ftco-bench", "ulfm-bench", "fa-bench", "tune", "completion", "help"} {
		text, err := say(t, "help", name)
		if err != nil || !strings.Contains(text, "oshrun "+name) {
			t.Errorf("help %s: %v\n%s", name, err, text)
		}
		other, err := say(t, name, "--help")
		if d := cmp.Diff(text, other); d != "" || err != nil {
			t.Errorf("%s --help: %v (-help %s +--help):\n%s", name, err, name, d)
		}
	}
}

func TestHelpExitCodes(t *testing.T) {
	text, err := say(t, "help", "exit-codes")
	if err != nil {
		t.Fatal(err)
	}
	for _, status := range []any{
		launch.StatusOK, launch.StatusError, launch.StatusUsage, 3, launch.StatusSetUp,
		launch.StatusTimeout, "128+n", launch.StatusInterrupted, "other",
	} {
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(fmt.Sprint(status)) + ` +\S`).MatchString(text) {
			t.Errorf("no line for %v:\n%s", status, text)
		}
	}
	if d := cmp.Diff(exitCodes, sayJSON[[]exitCode](t, "help", "exit-codes", "--json")); d != "" {
		t.Errorf("JSON (-table +decoded):\n%s", d)
	}
}

func TestHelpEnvironment(t *testing.T) {
	text, err := say(t, "help", "environment")
	if err != nil {
		t.Fatal(err)
	}
	var names, decoded []string
	for _, v := range envvar.All() {
		names = append(names, v.Name)
		for _, want := range []string{v.Name, v.Alias, v.Value, v.Default, v.Doc} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in the entry of %s:\n%s", want, v.Name, text)
			}
		}
	}
	for _, v := range sayJSON[[]documentedVar](t, "help", "environment", "--json") {
		decoded = append(decoded, v.Name)
	}
	if d := cmp.Diff(names, decoded); d != "" {
		t.Errorf("JSON (-table +decoded):\n%s", d)
	}
}

func TestHelpErrors(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"help", "exit-code"}, []string{`"exit-code"`, "exit-codes", "environment", "doctor", "info"}},
		{[]string{"help", "exit-codes", "environment"}, []string{"2 arguments"}},
		{[]string{"help", "--json"}, []string{"--json", "exit-codes, environment, mpirun"}},
		{[]string{"help", "info", "--json"}, []string{"--json", `"info"`}},
	} {
		text, err := say(t, c.args...)
		if err == nil || text != "" {
			t.Errorf("%q: error %v, output %q", c.args, err, text)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q: error lacks %q: %v", c.args, w, err)
			}
		}
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range shells {
		text, err := say(t, "completion", shell)
		if err != nil || !strings.Contains(text, "oshrun") || len(text) < 1000 {
			t.Errorf("completion %s: %v, %d bytes", shell, err, len(text))
		}
	}
	for _, args := range [][]string{{"completion"}, {"completion", "ksh"}, {"completion", "bash", "zsh"}} {
		if _, err := say(t, args...); err == nil || !strings.Contains(err.Error(), "bash, zsh, fish, powershell") {
			t.Errorf("%q: %v, want an error that lists the shells", args, err)
		}
	}
}

// The completion scripts get words from oshrun.
func TestCompleteWords(t *testing.T) {
	for _, c := range []struct{ args, want []string }{
		{[]string{"help", ""}, []string{"exit-codes", "environment", "mpirun", "output", "signals", "stats", "watchdog", "info", "doctor", "sim", "noise", "detect-bench", "detect-figures", "netfault", "agree-bench", "ftco-bench", "ulfm-bench", "fa-bench", "tune", "completion", "help"}},
		{[]string{"help", "info", ""}, nil},
		{[]string{"completion", ""}, shells},
		{[]string{"info", ""}, nil},
	} {
		text, err := say(t, append([]string{"__complete"}, c.args...)...)
		if err != nil {
			t.Errorf("complete %q: %v", c.args, err)
		}
		checkCompletion(t, c.args, text, c.want)
	}
}

// Values of flags are completed. Hidden names are not offered.
func TestCompleteValues(t *testing.T) {
	for _, c := range []struct{ args, want []string }{
		{[]string{"--bind-to", ""}, []string{"none", "core", "numa", "socket", "hwthread", "l3cache"}},
		{[]string{"-n", "2", "--map-by", ""}, []string{"core", "slot", "numa", "socket", "hwthread", "l3cache", "node", "seq"}},
		{[]string{"--display", ""}, displayWords},
		{[]string{"--stdin", ""}, []string{"0", "all", "none"}},
		{[]string{"--rank"}, nil},
	} {
		status, text, said := execute(t, append([]string{"__complete"}, c.args...)...)
		if status != 0 {
			t.Errorf("complete %q: status %d, %s", c.args, status, said)
		}
		checkCompletion(t, c.args, text, c.want)
	}
}

// Words of built-in programs are completed, even after options of other launchers and in later parts of a job. Other
// programs get files.
func TestCompleteBuiltins(t *testing.T) {
	for _, c := range []struct{ args, want []string }{
		{[]string{"-n", "4", "graph500", "--sc"}, []string{"--scale"}},
		{[]string{"graph500", "--scale", "16", "--"}, []string{"--edgefactor", "--help", "--json", "--roots", "--scale", "--seed", "--validate"}},
		{[]string{"-np", "4", "bench", "put", "--me"}, []string{"--message-size"}},
		{[]string{"bench", "put_"}, []string{"put_bw", "put_nbi"}},
		{[]string{"bench", "put", "--json", ""}, nil}, // a file
		{[]string{"-n", "1", "bench", "put", ":", "-n", "2", "graph500", "--r"}, []string{"--roots"}},
		{[]string{"-n", "1", "bench", "put", ":", "-n", "2", "gr"}, []string{"graph500"}},
		{[]string{"-n", "2", "./program", "--sc"}, nil},
	} {
		status, text, said := execute(t, append([]string{"__complete"}, c.args...)...)
		if status != 0 {
			t.Errorf("complete %q: status %d, %s", c.args, status, said)
		}
		checkCompletion(t, c.args, text, c.want)
	}
}

// checkCompletion compares the words in an answer to a shell with the wanted ones.
func checkCompletion(t *testing.T, args []string, text string, wanted []string) {
	t.Helper()
	var got []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, ":") { // the directive, followed by text for the user
			break
		}
		word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
		got = append(got, word)
	}
	slices.Sort(got)
	if want := slices.Sorted(slices.Values(wanted)); !slices.Equal(got, want) {
		t.Errorf("complete %q: %q, want %q", args, got, want)
	}
}
