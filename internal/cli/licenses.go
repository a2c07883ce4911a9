package cli

import (
	"bytes"
	"embed"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// licenseTexts has the license of each module that is linked into oshrun, and Go's own. TestLicenses compares them with
// what is linked.
//
//go:embed licenses/*.txt
var licenseTexts embed.FS

// licenseFile returns the name of a module's file in licenseTexts.
func licenseFile(module string) string {
	return "licenses/" + strings.ReplaceAll(module, "/", "_") + ".txt"
}

// newLicenses returns the command that prints the licenses of what is linked.
func newLicenses() *cobra.Command {
	return &cobra.Command{
		Use:               "licenses",
		Short:             "Print the licenses of the modules that are linked into oshrun",
		Long:              "Print name, version and license of Go and of each module that is linked\ninto this oshrun.",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := licensesText()
			if err != nil {
				return err
			}
			return emit(cmd, text)
		},
	}
}

// licensesText returns the licenses of what this program is linked from.
func licensesText() ([]byte, error) {
	var b bytes.Buffer
	add := func(module, version string) error {
		text, err := licenseTexts.ReadFile(licenseFile(module))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "== %s %s\n\n%s\n", module, version, text)
		return nil
	}
	modules := []*debug.Module{{Path: "go", Version: runtime.Version()}}
	if info, ok := debug.ReadBuildInfo(); ok {
		modules = append(modules, info.Deps...)
	}
	for _, m := range modules {
		if err := add(m.Path, m.Version); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}
