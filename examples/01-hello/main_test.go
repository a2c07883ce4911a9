package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/launch"
)

// The test binary is the example itself when it is started as a PE.
func TestMain(m *testing.M) {
	if _, isPE := os.LookupEnv("PMIX_RANK"); isPE {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestHello(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out, said bytes.Buffer
	status, err := launch.Run(t.Context(), launch.Options{Apps: []launch.App{{NPEs: 3, Program: self}}, Stdout: &out, Stderr: &said})
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	slices.Sort(lines)
	want := []string{
		"PE 0 of 3: my left neighbor is PE 2", "PE 1 of 3: my left neighbor is PE 0", "PE 2 of 3: my left neighbor is PE 1",
	}
	if status != 0 || err != nil || !slices.Equal(lines, want) {
		t.Errorf("status %d, %v, output %q, want %q; %s", status, err, lines, want, &said)
	}
}
