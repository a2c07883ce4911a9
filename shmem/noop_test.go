package shmem_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// Calls on empty handles do nothing where the specification says so. Only one PE makes them, so
// none of them waits for the others.
func TestSpecifiedNoOps(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		if w.MyPE() == 1 {
			var c *shmem.Ctx
			var team *shmem.Team
			ok(t, team.Destroy())
			ok(t, c.Destroy())
			ok(t, c.Fence())
			ok(t, c.Quiet())
			ok(t, c.QuietPE(0))
			ok(t, c.SessionStart())
			ok(t, c.SessionStop())
			ok(t, shmem.Free(w, shmem.Sym[int32]{}))
			if x := must(shmem.Realloc(w, shmem.Sym[int32]{}, 0))(t); x.Len() != 0 {
				t.Errorf("Realloc of the zero Sym to 0 elements has %d elements", x.Len())
			}
		}
		x := must(shmem.Realloc(w, shmem.Sym[int32]{}, 3))(t)
		if x.Len() != 3 {
			t.Errorf("Realloc of the zero Sym to 3 elements has length %d", x.Len())
		}
		ok(t, shmem.P(w.Ctx(), x.At(2), 7, 1-w.MyPE()))
		ok(t, w.Barrier())
		if got := x.Local()[2]; got != 7 {
			t.Errorf("element of the object that Realloc allocated is %d, want 7", got)
		}
		ok(t, shmem.Free(w, x))
		wantError(t, shmem.Free(w, x), shmem.ErrFreed)
	})
}

// A broadcast may have the same object as source and destination, of any size.
func TestBroadcastInPlace(t *testing.T) {
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		for _, n := range []int{1, 3, 100, 1_000, 10_000, 300_000} {
			x := must(shmem.Alloc[int64](w, n))(t)
			for root := range w.NPEs() {
				for i := range x.Local() {
					x.Local()[i] = int64(w.MyPE()<<32 | i)
				}
				ok(t, w.Barrier())
				ok(t, shmem.Broadcast(w.Team(), x, x, root))
				for i, got := range x.Local() {
					if got != int64(root<<32|i) {
						t.Fatalf("%d elements from PE %d: element %d is %#x", n, root, i, got)
					}
				}
				ok(t, w.Barrier()) // no PE writes while another one reads the root's object
			}
			if n > 1 {
				wantError(t, shmem.Broadcast(w.Team(), x.Slice(1, n), x.Slice(0, n-1), 0), shmem.ErrOverlap)
			}
			ok(t, shmem.Free(w, x))
		}
	})
}

// A job ends without an error after a collective over all PEs timed out on one PE, whichever PE
// finalizes first. The other PEs arrive late, or never call that collective.
func TestFinalizeAfterDeadline(t *testing.T) {
	for name, late := range map[string]func(w *shmem.World) error{
		"the others arrive late":   func(w *shmem.World) error { return w.Barrier() },
		"the others never call it": func(*shmem.World) error { return nil },
		"the others call two": func(w *shmem.World) error {
			err := w.Barrier()
			if next := w.Barrier(); !errors.Is(next, shmem.ErrTeamBroken) && !errors.Is(next, shmem.ErrPEFinalized) {
				return errors.Join(err, next, errors.New("the second barrier does not say that the team is broken"))
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
				given := must(shmem.Calloc[int64](w, 1))(t)
				if w.MyPE() == 0 {
					ctx, stop := context.WithCancel(t.Context())
					stop()
					wantError(t, w.With(ctx).Barrier(), context.Canceled, "the team is broken; hint:", "Finalize ends well")
					for pe := 1; pe < w.NPEs(); pe++ {
						ok(t, shmem.P(w.Ctx(), given, 1, pe))
					}
					return
				}
				ok(t, shmem.WaitUntil(w.Ctx(), given, shmem.EQ, 1))
				if err := late(w); err != nil && !slices.ContainsFunc([]error{shmem.ErrTeamBroken, shmem.ErrPEFinalized}, func(e error) bool { return errors.Is(err, e) }) {
					t.Error(err)
				}
			})
		})
	}
}
