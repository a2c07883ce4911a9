// Package version says what this build is and which levels of the
// specifications it implements.
package version

import "runtime/debug"

// The levels of the specifications.
const (
	OpenSHMEM = "1.6, without deprecated names"
	PMIx      = "4.2 (client-facing, in progress)"
)

// String returns the version of the module, as the go command recorded it.
func String() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	for _, d := range info.Deps {
		if d.Path == "github.com/goshmem/goshmem" { // used as a library
			v = d.Version
		}
	}
	if v == "" || v == "(devel)" {
		return "devel"
	}
	return v
}
