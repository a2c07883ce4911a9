package exampletest

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// build is README.md's command to build oshrun and the examples.
const build = "CGO_ENABLED=0 go build -o .bin/ ./cmd/oshrun ./examples/..."

// Every example has a line in README.md, in the order of the folders, and a test. Larger programs, whose names have no number, have a link there.
func TestEveryExampleHasALine(t *testing.T) {
	var lines, folders []string
	for _, r := range Rows(t, "../../../README.md") {
		lines = append(lines, r.Name)
	}
	entries, err := os.ReadDir("../../../examples")
	if err != nil {
		t.Fatal(err)
	}
	var programs []string
	for _, e := range entries {
		if numbered := e.Name()[0] >= '0' && e.Name()[0] <= '9'; numbered {
			folders = append(folders, e.Name())
		} else {
			programs = append(programs, e.Name())
		}
		if _, err := os.Stat("../../../examples/" + e.Name() + "/main_test.go"); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(lines, folders) {
		t.Errorf("README.md has lines for %v, want %v", lines, folders)
	}
	text, err := os.ReadFile("../../../README.md")
	if err != nil || !strings.Contains(string(text), "\n    "+build+"\n") {
		t.Errorf("README.md lacks %q: %v", build, err)
	}
	for _, name := range programs {
		if link := "[examples/" + name + "](examples/" + name + "/main.go)"; !strings.Contains(string(text), link) {
			t.Errorf("README.md lacks %q", link)
		}
	}
}
