package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/spf13/cobra"

	"github.com/goshmem/goshmem/internal/launch"
)

// testRoot returns a root command with all the tools and nothing else.
func testRoot() *cobra.Command {
	root := &cobra.Command{Use: "oshrun", SilenceErrors: true, SilenceUsage: true}
	help := newHelp(root)
	root.SetHelpCommand(help)
	root.AddCommand(newInfo([]string{"graph500"}), newDoctor(), newSim(), newNoise(), newDetectBench(), newDetectFigures(), newNetfault(), newAgreeBench(), newFTCOBench(), newULFMBench(), newFABench(), newTune(), newCompletion(root), help)
	return root
}

// say runs a command line and returns what it printed.
func say(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var b bytes.Buffer
	root := testRoot()
	root.SetArgs(args)
	root.SetOut(&b)
	root.SetErr(&b)
	err := root.Execute()
	return b.String(), err
}

// sayJSON runs a command line and decodes its output, which must have no fields that the type lacks.
func sayJSON[T any](t *testing.T, args ...string) (v T) {
	t.Helper()
	text, err := say(t, args...)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	dec := json.NewDecoder(bytes.NewBufferString(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%q printed no JSON of this form: %v\n%s", args, err, text)
	}
	return v
}

func TestTabulate(t *testing.T) {
	var b bytes.Buffer
	tabulate(&b, [][]string{
		{"name", "value", ""},
		{"", "error", ""},
		{"long name", "a\tb\n", "last"},
		{"bytes", "\xff", "<&>"},
	})
	const want = `name       value
           error
long name  "a\tb\n"  last
bytes      "\xff"    <&>
`
	if b.String() != want {
		t.Errorf("table is\n%s, want\n%s", &b, want)
	}
}

func TestStatusError(t *testing.T) {
	cause := errors.New("cause")
	if err := error(&statusError{status: 4, err: cause}); !errors.Is(err, cause) || err.Error() != "cause" {
		t.Errorf("error %q does not carry its cause", err)
	}
	if err := (&statusError{status: 4}); err.Error() != "exit status 4" || err.Unwrap() != nil {
		t.Errorf("error without a cause says %q", err)
	}
}

// If output cannot be written, the command returns an error with its own status.
func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full: ", err)
	}
	defer full.Close()
	for _, args := range [][]string{{"info"}, {"info", "--json"}, {"help", "exit-codes"}, {"completion", "bash"}, {"doctor"}} {
		root := testRoot()
		root.SetArgs(args)
		root.SetOut(full)
		status, ok := errors.AsType[*statusError](root.Execute())
		if !ok || status.status != launch.StatusError || status.err == nil {
			t.Errorf("%q to a full disk: %v, want status %d", args, status, launch.StatusError)
		}
	}
}
