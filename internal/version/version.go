// Package version has the version of this build, and the levels of the specifications that it implements.
package version

import (
	"runtime/debug"
	"strings"
)

// Number is the version of the next release of this source. CHANGELOG.md has a section for it.
const Number = "0.1.0"

// The levels of the specifications.
const (
	OpenSHMEM = "1.6, without deprecated names"
	PMIx      = "4.2 (client-facing, in progress)"
)

const module = "github.com/goshmem/goshmem"

// String returns the version of this build: Number for a release, otherwise Number with -dev and the revision,
// if the go command recorded it.
func String() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Number + "-dev"
	}
	return versionOf(info)
}

// versionOf returns the version for a build's information.
func versionOf(info *debug.BuildInfo) string {
	v := info.Main.Version
	for _, d := range info.Deps {
		if d.Path == module { // goshmem is a dependency of the main module
			v = d.Version
		}
	}
	if v == "v"+Number {
		return Number
	}
	v = Number + "-dev"
	if info.Main.Path != module {
		return v // the recorded revision is the main module's
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			v += "+" + s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true" && strings.Contains(v, "+"):
			v += ".modified"
		}
	}
	return v
}
