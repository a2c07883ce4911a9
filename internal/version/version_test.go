package version

import (
	"os"
	"regexp"
	"runtime/debug"
	"testing"
)

// The changelog's first section of a version is that of Number.
func TestChangelog(t *testing.T) {
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	first := regexp.MustCompile(`(?m)^## (\d+\.\d+\.\d+)\b`).FindSubmatch(text)
	if first == nil || string(first[1]) != Number {
		t.Errorf("first version in CHANGELOG.md: %q, want %s", first, Number)
	}
}

func TestOf(t *testing.T) {
	const dev = Number + "-dev"
	for _, c := range []struct {
		what string
		info debug.BuildInfo
		want string
	}{
		{"a release", debug.BuildInfo{Main: debug.Module{Path: module, Version: "v" + Number}}, Number},
		{"go run", debug.BuildInfo{Main: debug.Module{Path: module, Version: "(devel)"}}, dev},
		{"a checkout", debug.BuildInfo{
			Main:     debug.Module{Path: module, Version: "v0.0.0-20260101000000-0123456789ab"},
			Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "false"}},
		}, dev + "+0123456789ab"},
		{"a changed checkout", debug.BuildInfo{
			Main:     debug.Module{Path: module, Version: "(devel)"},
			Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}},
		}, dev + "+0123456789ab.modified"},
		{"a library of a release", debug.BuildInfo{
			Main: debug.Module{Path: "example.com/user", Version: "v7.0.0"},
			Deps: []*debug.Module{{Path: "other", Version: "v1.0.0"}, {Path: module, Version: "v" + Number}},
		}, Number},
		{"a library by replace", debug.BuildInfo{
			Main:     debug.Module{Path: "example.com/user", Version: "(devel)"},
			Deps:     []*debug.Module{{Path: module, Version: "v0.0.0"}},
			Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "fedcba9876543210"}},
		}, dev},
	} {
		if got := versionOf(&c.info); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}
