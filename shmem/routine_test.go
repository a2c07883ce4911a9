package shmem_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/house/coverage"
	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// routines are the tests of the specification's routines, by the routines' names.
var routines = map[string]func(t *testing.T, w *shmem.World){}

// routine adds the test of one routine:
//
//	var _ = routine("shmem_put", func(t *testing.T, w *shmem.World) { ... })
//
// All PEs call it, in jobs of each size of peCounts, one test after the other in the
// order of names. It leaves nothing behind on the heap, and fails if the routine does
// nothing, or does it in a wrong place: "make mutants" looks whether it does.
func routine(name string, test func(t *testing.T, w *shmem.World)) struct{} {
	name, listed := coverage.Canonical(name)
	switch {
	case !listed:
		panic("a test of " + name + ", which is no routine")
	case routines[name] != nil:
		panic("two tests of " + name)
	}
	routines[name] = test
	return struct{}{}
}

// arm makes a mutant wrong, or right again, where the package was built with mutants.
var arm = func(bool) {}

var (
	routinePatience    = 30 * time.Second // ends the waits of a routine's test
	routineJobPatience = 2 * time.Minute  // ends a job
)

// TestRoutines runs the tests of all routines, or of the one that the environment names.
func TestRoutines(t *testing.T) {
	names := slices.Sorted(maps.Keys(routines))
	if only := os.Getenv(coverage.RoutineVar); only != "" {
		names = []string{only}
	}
	for _, n := range peCounts {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			shmemtest.Run(t, n, func(t *testing.T, w *shmem.World) {
				for _, name := range names {
					ctx, stop := context.WithTimeout(t.Context(), routinePatience)
					good := t.Run(name, func(t *testing.T) {
						arm(true)
						defer arm(false)
						routines[name](t, w.With(ctx))
					})
					stop()
					if !good {
						t.FailNow() // the PEs are no longer in step
					}
				}
			}, shmemtest.Timeout(routineJobPatience))
		})
	}
}

var _ = routine("shmem_my_pe", func(t *testing.T, w *shmem.World) {
	seen := must(shmem.Calloc[int64](w, w.NPEs()))(t)
	if w.MyPE() < 0 || w.MyPE() >= w.NPEs() {
		t.Fatalf("PE %d of %d", w.MyPE(), w.NPEs())
	}
	for pe := range w.NPEs() {
		must(shmem.AtomicFetchAdd(w.Ctx(), seen.At(w.MyPE()), 1, pe))(t)
	}
	ok(t, w.Barrier())
	for pe, n := range seen.Local() {
		if n != 1 {
			t.Errorf("%d PEs say that they are PE %d", n, pe)
		}
	}
	ok(t, shmem.Free(w, seen))
})
