package cli

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/goshmem/goshmem/internal/launch"
)

const doctorHelp = `Try what goshmem uses of this machine, and print a line for each finding.

The exit status is 0, also where something is missing that goshmem can do
without, and 4 where it cannot run at all.

With --json, an array of {name, status, value, hint}:

  name    what was looked at; the names and their order are stable
  status  ok, note (works, but with a limit worth knowing), or missing
  value   what was found
  hint    what it is for, or what would help; empty if status is ok`

// health is the status of a finding.
type health string

const (
	healthOK      health = "ok"
	healthNote    health = "note"    // works, but with a limit worth knowing
	healthMissing health = "missing" // is not there, or failed when tried
)

// finding is one line of the diagnosis; doctorHelp documents it.
type finding struct {
	Name   string `json:"name"`
	Status health `json:"status"`
	Value  string `json:"value"`
	Hint   string `json:"hint"`
}

// probe is one thing to try. Its function leaves the name of the finding to
// the probe. Without what is needed, goshmem cannot run.
type probe struct {
	name string
	need bool
	try  func() finding
}

func fine(format string, args ...any) finding {
	return finding{Status: healthOK, Value: fmt.Sprintf(format, args...)}
}

func noted(value, hint string) finding {
	return finding{Status: healthNote, Value: value, Hint: hint}
}

func missing(err error, hint string) finding {
	return finding{Status: healthMissing, Value: err.Error(), Hint: hint}
}

// tried turns the outcome of a trial into a finding.
func tried(err error, value, hint string) finding {
	if err != nil {
		return missing(err, hint)
	}
	return finding{Status: healthOK, Value: value}
}

// newDoctor returns the command that says what this machine can do.
func newDoctor() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "doctor",
		Short:             "Check what this machine can do",
		Long:              doctorHelp,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			findings, lacking := diagnose(probes)
			show := emitFindings
			if asJSON {
				show = func(cmd *cobra.Command, f []finding) error { return emitJSON(cmd, f) }
			}
			if err := show(cmd, findings); err != nil {
				return err
			}
			return lacking
		},
	}
	addJSONFlag(cmd, &asJSON)
	return cmd
}

// diagnose runs the probes. The error names what is needed and missing. It is
// over when the first probe fails: without the right system all others would,
// too.
func diagnose(probes []probe) (findings []finding, lacking error) {
	var names []string
	for i, p := range probes {
		f := p.try()
		f.Name = p.name
		findings = append(findings, f)
		if p.need && f.Status == healthMissing {
			names = append(names, p.name)
			if i == 0 {
				break
			}
		}
	}
	if len(names) > 0 {
		lacking = &statusError{
			status: launch.StatusSetUp,
			err:    fmt.Errorf("doctor: goshmem cannot run on this machine: missing %s", strings.Join(names, ", ")),
		}
	}
	return findings, lacking
}

// emitFindings prints no heading: the columns speak for themselves, and on a
// system without support there is one line.
func emitFindings(cmd *cobra.Command, findings []finding) error {
	var rows [][]string
	for _, f := range findings {
		rows = append(rows, []string{f.Name, string(f.Status), f.Value, f.Hint})
	}
	var b bytes.Buffer
	tabulate(&b, rows)
	return emit(cmd, b.Bytes())
}
