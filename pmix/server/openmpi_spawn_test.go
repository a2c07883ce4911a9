package server_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goshmem/goshmem/internal/house/testenv"
	"github.com/goshmem/goshmem/pmix/codec"
)

// MPI_Comm_spawn and MPI_Comm_get_parent work in an unmodified Open MPI: parents and children sum over both groups.
func TestOpenMPISpawn(t *testing.T) {
	s := newStageFor(t, testenv.CompileC(t, testenv.OpenMPI, "testdata/mpispawn.c"))
	s.must("job-1", 2)
	s.running.Wait()
	var got []string
	for p, lines := range s.lines {
		for _, line := range lines {
			got = append(got, p.Nspace+": "+line)
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{
		"child-1: argument: an argument", "child-1: argument: an argument",
		"child-1: child 2 of 4, sum 6", "child-1: child 3 of 4, sum 6",
		"job-1: parent 0 of 4, sum 6", "job-1: parent 1 of 4, sum 6",
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := len(s.lines[codec.Proc{Nspace: "child-1", Rank: 1}]); n != 2 {
		t.Errorf("%d lines of one child, want 2", n)
	}
}
