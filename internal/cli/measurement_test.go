package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/goshmem/goshmem/internal/lab/plot"
	"github.com/goshmem/goshmem/internal/launch"
)

// experimentJSON runs a measuring command in a separate process and decodes its JSON.
func experimentJSON[T any](t *testing.T, status int, args ...string) (v T) {
	t.Helper()
	j := start(t, args...)
	j.expect(status)
	dec := json.NewDecoder(&j.stdout)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%q printed no JSON of this form: %v; stderr:\n%s", args, err, &j.stderr)
	}
	return v
}

// drawn checks that both pictures of a name exist.
func drawn(t *testing.T, name string) {
	t.Helper()
	for _, ext := range []string{".svg", "-2.svg"} {
		if st, err := os.Stat(name + ext); err != nil || st.Size() < 1000 {
			t.Errorf("%s: %v, want a picture", name+ext, err)
		}
	}
}

// interrupts checks that an interrupt ends the current job of a measuring command, and the command.
func interrupts(t *testing.T, command string) {
	t.Helper()
	args := strings.Fields(command)
	j := start(t, args...)
	for begun := false; !begun; begun = len(children(t, j.cmd.Process.Pid)) > 0 { // a job is running
	}
	check(t, j.cmd.Process.Signal(syscall.SIGINT))
	j.expect(130, args[0]+": ", "interrupted by signal 2 (SIGINT)")
}

// hides checks that the program of a measuring command's PEs is hidden from users, and says whose it is if one starts it.
func hides(t *testing.T, program, command string) {
	t.Helper()
	if slices.Contains(builtinNames(), program) || builtins[program] == nil {
		t.Errorf("built-in programs %v, want %s among them, but hidden", builtinNames(), program)
	}
	j := start(t, "-n", "1", program)
	j.expect(1, "this program is part of oshrun "+command)
}

// A report is printed even if its picture cannot be drawn. Of several errors the first counts; an error that has an exit
// status keeps it.
func TestMeasurementRun(t *testing.T) {
	picture := func(string) *plot.Figure { return &plot.Figure{Title: "without series"} }
	wrong, silent := errors.New("2 wrong results"), &statusError{status: launch.StatusError}
	for name, c := range map[string]struct {
		files    []string
		failures error
		want     string // empty: no error
	}{
		"all well":        {nil, nil, ""},
		"no picture":      {[]string{t.TempDir() + "/a.svg"}, wrong, "m: --plot: cannot draw figure"},
		"a wrong result":  {nil, wrong, "m: 2 wrong results"},
		"a silent status": {nil, silent, "exit status 1"},
	} {
		m := measurement[string]{
			check: func() error { return nil }, plots: []plotFlag[string]{{"--plot", c.files, picture}},
			measure:  func(context.Context, func(done, all int)) (string, error) { return "report", nil },
			table:    func(r string) []byte { return []byte(r) },
			failures: func(string) error { return c.failures },
		}
		var out strings.Builder
		cmd := &cobra.Command{Use: "m"}
		cmd.SetOut(&out)
		cmd.SetContext(t.Context())
		err := m.run(cmd)
		var status *statusError
		if out.String() != "report" || (err == nil) != (c.want == "") || err != nil && (!strings.HasPrefix(err.Error(), c.want) || !errors.As(err, &status) || status.status != launch.StatusError) {
			t.Errorf("%s: printed %q, error %v, want the report and %q", name, &out, err, c.want)
		}
	}
}
