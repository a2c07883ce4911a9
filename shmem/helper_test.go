package shmem_test

import (
	"testing"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// TestMain adds the flag -nodes, which says on how many nodes jobs run.
func TestMain(m *testing.M) { shmemtest.Main(m) }

// oneNode is for tests of what jobs of several nodes do not have: comparisons of GOSHMEM_CHECK; package mpi; values that are
// combined without allocation.
var oneNode = shmemtest.Nodes(1)

// ok fails the test on an error.
func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must returns the result of a call and fails the test on its error: must(shmem.Alloc[int](w,
// 1))(t).
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		ok(t, err)
		return v
	}
}

// jobOutputs keeps what each job of a Run has printed. On several numbers of nodes there are several jobs.
type jobOutputs []string

// Write takes the whole output of a job.
func (o *jobOutputs) Write(b []byte) (int, error) {
	*o = append(*o, string(b))
	return len(b), nil
}

// spans says whether the PEs of the world are on several nodes.
func spans(w *shmem.World) bool { return w.Shared().NPEs() < w.NPEs() }

// isNear says whether a PE is on the node of this one.
func isNear(w *shmem.World, pe int) bool {
	_, near := w.Team().Translate(pe, w.Shared())
	return near
}
