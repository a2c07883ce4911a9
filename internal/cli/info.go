package cli

import (
	"bytes"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/version"
)

const infoHelp = `Print what this oshrun is and what the environment tells it.

With --json, one object:

  version         version of goshmem
  openshmem       level of OpenSHMEM
  pmix            level of PMIx
  go_version      release of Go that built it
  os, arch        what it was built for, as Go names them
  builtins        array of the names of the programs inside oshrun
  build_settings  array of {key, value}, as the go command recorded them
  environment     array of {name, value, origin, doc, error, internal}: every variable
                  that goshmem reads, with the value in effect; origin is
                  default, environment, deprecated alias or set by oshrun;
                  error is empty unless the value cannot be used; internal
                  is true for what oshrun sets for PEs and users need not`

// infoReport is what oshrun info prints; infoHelp documents it.
type infoReport struct {
	Version       string         `json:"version"`
	OpenSHMEM     string         `json:"openshmem"`
	PMIx          string         `json:"pmix"`
	GoVersion     string         `json:"go_version"`
	OS            string         `json:"os"`
	Arch          string         `json:"arch"`
	Builtins      []string       `json:"builtins"`
	BuildSettings []buildSetting `json:"build_settings"`
	Environment   []variable     `json:"environment"`
}

type buildSetting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

type variable struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
	Doc    string `json:"doc"`
	Error  string `json:"error"`
	// Internal says that oshrun sets the variable for PEs whatever the user says.
	Internal bool `json:"internal"`
}

// newInfo returns the command that says what this oshrun is.
func newInfo(builtins []string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "info",
		Short:             "Show version, build, built-in programs and environment variables",
		Long:              infoHelp,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := gatherInfo(builtins, os.LookupEnv)
			if asJSON {
				return emitJSON(cmd, r)
			}
			return emit(cmd, r.text())
		},
	}
	addJSONFlag(cmd, &asJSON)
	return cmd
}

func gatherInfo(builtins []string, lookup envvar.Lookup) *infoReport {
	r := &infoReport{
		Version: version.String(), OpenSHMEM: version.OpenSHMEM, PMIx: version.PMIx,
		GoVersion: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Builtins:      append([]string{}, builtins...), // an array in JSON, even if empty
		BuildSettings: []buildSetting{},
	}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, s := range build.Settings {
			r.BuildSettings = append(r.BuildSettings, buildSetting(s))
		}
	}
	for _, s := range envvar.Effective(lookup) {
		v := variable{Name: s.Name, Value: s.Value, Origin: string(s.Origin), Doc: s.Doc, Internal: s.SetBy == envvar.Oshrun}
		if s.Err != nil {
			v.Error = s.Err.Error()
		}
		r.Environment = append(r.Environment, v)
	}
	return r
}

func (r *infoReport) text() []byte {
	builtins := strings.Join(r.Builtins, ", ")
	if builtins == "" {
		builtins = "none"
	}
	var b bytes.Buffer
	tabulate(&b, [][]string{
		{"goshmem", r.Version},
		{"OpenSHMEM", r.OpenSHMEM},
		{"PMIx", r.PMIx},
		{"Go", r.GoVersion + " " + r.OS + "/" + r.Arch},
		{"built-in programs", builtins},
	})
	b.WriteString("\n")
	rows := [][]string{{"BUILD SETTING", "VALUE"}}
	for _, s := range r.BuildSettings {
		rows = append(rows, []string{s.Key, orQuotes(s.Value)})
	}
	tabulate(&b, rows)
	b.WriteString("\n")
	r.appendVariables(&b, "VARIABLE", false)
	b.WriteString("\n")
	r.appendVariables(&b, "SET BY OSHRUN FOR PES", true)
	return b.Bytes()
}

// appendVariables appends the table of the variables that users set, or of the
// internal ones, which oshrun sets for PEs.
func (r *infoReport) appendVariables(b *bytes.Buffer, title string, internal bool) {
	rows := [][]string{{title, "VALUE", "ORIGIN", "MEANING"}}
	for _, v := range r.Environment {
		if v.Internal != internal {
			continue
		}
		rows = append(rows, []string{v.Name, orQuotes(v.Value), v.Origin, v.Doc})
		if v.Error != "" {
			rows = append(rows, []string{"", "", "", "error: " + v.Error})
		}
	}
	tabulate(b, rows)
}

// orQuotes makes an empty value visible.
func orQuotes(value string) string {
	if value == "" {
		return `""`
	}
	return value
}
