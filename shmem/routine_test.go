package shmem_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

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
// nothing, or does it in a wrong place.
func routine(name string, test func(t *testing.T, w *shmem.World)) struct{} {
	if routines[name] != nil {
		panic("two tests of " + name)
	}
	routines[name] = test
	return struct{}{}
}

// routinePatience ends the waits of a routine's test.
const routinePatience = 30 * time.Second

func TestRoutines(t *testing.T) {
	for _, n := range peCounts {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			shmemtest.Run(t, n, func(t *testing.T, w *shmem.World) {
				for _, name := range slices.Sorted(maps.Keys(routines)) {
					ctx, stop := context.WithTimeout(t.Context(), routinePatience)
					good := t.Run(name, func(t *testing.T) { routines[name](t, w.With(ctx)) })
					stop()
					if !good {
						t.FailNow() // the PEs are no longer in step
					}
				}
			})
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
