package explore

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/coll/ftco"
)

func inconsistent(err error) bool {
	return errors.Is(err, ErrAgree) || errors.Is(err, ErrValid) || errors.Is(err, ErrOnce)
}

// wantInconsistency shrinks a failure and checks that it is an inconsistency caused by the death
// of one member other than the root.
func wantInconsistency(t *testing.T, f *Failure, faults Faults) {
	t.Helper()
	s := Shrink(f, faults)
	t.Logf("%d of %d choices\n%s", len(s.Choices), len(f.Choices), Trace(s, faults))
	died := slices.ContainsFunc(s.Choices, func(c Choice) bool { return (c.Kind == Die || c.Dies) && c.P != 0 })
	if !inconsistent(s.Err) || !died {
		t.Errorf("got %v, want an inconsistency caused by the death of one member other than the root", s.Err)
	}
}

// Definition 3.2: "an equal result among all the active nodes".
func TestLiteralIsFoundExhaustively(t *testing.T) {
	t.Parallel()
	all := LiteralScenarios(4, 1)
	if n, f := Exhaustive(t.Context(), all[0].System, all[0].Faults); f != nil {
		t.Fatalf("without a death, after %+v: %v", n, f)
	}
	n, f := Exhaustive(t.Context(), all[1].System, all[1].Faults)
	if f == nil {
		t.Fatalf("found nothing in %+v", n)
	}
	t.Logf("FOUND after %+v", n)
	wantInconsistency(t, f, all[1].Faults)
}

// A chain of four and a binary tree of seven, with random schedules.
func TestLiteralIsFoundAtRandom(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ n, k int }{{4, 1}, {7, 2}} {
		sys := &Literal{Size: c.n, Radix: c.k, Config: ftco.LiteralConfig{Latency: 10}}
		found := false
		for seed := uint64(1); seed <= 500 && !found; seed++ {
			faults, f := Random(fixed(sys, Faults{Deaths: 1, Timeouts: 2000}), seed)
			if f == nil || !inconsistent(f.Err) || slices.ContainsFunc(f.Choices, func(c Choice) bool { return (c.Kind == Die || c.Dies) && c.P == 0 }) {
				continue
			}
			found = true
			t.Logf("%v: FOUND by seed %d: %v", sys, seed, f.Err)
			wantInconsistency(t, f, faults)
		}
		if !found {
			t.Errorf("%v: not found", sys)
		}
	}
}

func fixed(sys System, faults Faults) Draw {
	return func(*rand.Rand) (System, Faults) { return sys, faults }
}
