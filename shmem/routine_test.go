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

// routines are the tests of the specification's routines, by name.
var routines = map[string]func(t *testing.T, w *shmem.World){}

// routine adds the test of one routine:
//
//	var _ = routine("shmem_put", func(t *testing.T, w *shmem.World) { ... })
//
// All PEs call it, in jobs of each size in peCounts, one test after the other in the order of
// names. It frees all heap memory, and fails if the routine does nothing or works in the wrong
// place: "make mutants" checks that it does.
func routine(name string, test func(t *testing.T, w *shmem.World)) struct{} {
	name, listed := coverage.Canonical(name)
	switch {
	case !listed:
		panic("a test of " + name + ", which is not a routine")
	case routines[name] != nil:
		panic("two tests of " + name)
	}
	routines[name] = test
	return struct{}{}
}

// arm turns a mutant on or off if the package was built with mutants.
var arm = func(bool) {}

var (
	routinePatience    = 30 * time.Second // ends the waits of a routine's test
	routineJobPatience = 2 * time.Minute  // ends a job
)

// TestRoutines runs the tests of all routines, or only the one that the environment names.
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
		t.Fatalf("this is PE %d, want 0 to %d", w.MyPE(), w.NPEs()-1)
	}
	for pe := range w.NPEs() {
		must(shmem.AtomicFetchAdd(w.Ctx(), seen.At(w.MyPE()), 1, pe))(t)
	}
	ok(t, w.Barrier())
	for pe, n := range seen.Local() {
		if n != 1 {
			t.Errorf("%d PEs have the number %d, want 1", n, pe)
		}
	}
	ok(t, shmem.Free(w, seen))
})
