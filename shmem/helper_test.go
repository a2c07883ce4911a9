package shmem_test

import (
	"testing"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// TestMain adds the flag -nodes, which says on how many nodes jobs run.
func TestMain(m *testing.M) { shmemtest.Main(m) }

// oneNode is for tests of what jobs of several nodes do not have: tolerant teams, Agree and what is built on it, the
// comparison of collective calls, teams in any order of members, memory of other PEs by loads and stores, and calls that
// allocate nothing.
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

// spans says whether the PEs of the world are on several nodes.
func spans(w *shmem.World) bool { return w.Shared().NPEs() < w.NPEs() }

// isNear says whether a PE is on the node of this one.
func isNear(w *shmem.World, pe int) bool {
	_, near := w.Team().Translate(pe, w.Shared())
	return near
}
