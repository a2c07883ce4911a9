//go:build !explore

package coll_test

import (
	"os/exec"
	"testing"

	"github.com/goshmem/goshmem/internal/weave"
)

// TestExplored explores the package's own code. It builds explore_test.go into a program whose
// accesses to shared memory let other members go on.
func TestExplored(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds a program and explores for half a minute")
	}
	o, err := weave.New("..", t.TempDir())
	if err == nil {
		err = o.Weave("coll", weave.Coll)
	}
	if err != nil {
		t.Fatal(err)
	}
	program, err := o.Build(t.Context(), "coll", "explore")
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"Data", "Direct", "Headed", "Teams"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			out, err := exec.CommandContext(t.Context(), program, "-test.v", "-test.run=^TestExplore"+what+"$").CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
