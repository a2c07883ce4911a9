// Package version says what this build is and which levels of the
// specifications it implements.
package version

import (
	"runtime/debug"
	"strings"
)

// Number is the version that this source becomes when it is released. CHANGELOG.md has a section
// for it.
const Number = "0.1.0"

// The levels of the specifications.
const (
	OpenSHMEM = "1.6, without deprecated names"
	PMIx      = "4.2 (client-facing, in progress)"
)

const module = "github.com/goshmem/goshmem"

// String returns the version of this build: that of the release, or Number with -dev and, where the
// go command recorded it, the revision that was built.
func String() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Number + "-dev"
	}
	return of(info)
}

// of returns the version that a build's information tells.
func of(info *debug.BuildInfo) string {
	v := info.Main.Version
	for _, d := range info.Deps {
		if d.Path == module { // used as a library: the main module is somebody else's
			v = d.Version
		}
	}
	if v == "v"+Number {
		return Number
	}
	v = Number + "-dev"
	if info.Main.Path != module {
		return v // what is recorded is the revision of the main module
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
