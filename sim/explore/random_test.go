package explore

import (
	"runtime"
	"testing"
	"time"
)

// TestRandom runs 100,000 schedules with the seeds from 1 on. Each depends only on its seed.
func TestRandom(t *testing.T) {
	t.Parallel()
	l, count := Limits{Nodes: 64, Deaths: 8, Calls: 6}, 100000
	if testing.Short() {
		count = 3000
	}
	start := time.Now()
	ran, seed, f := RandomAll(t.Context(), DrawFTCO(l), 1, count, runtime.GOMAXPROCS(0))
	t.Logf("%d schedules from seed 1, %.1f s", ran, time.Since(start).Seconds())
	if f != nil {
		t.Fatalf("seed %d of %d:\n%s", seed, ran, explain(DrawFTCO(l), seed))
	}
}

// explain returns the shrunk trace of a seed.
func explain(draw Draw, seed uint64) string {
	faults, f := Random(draw, seed)
	if f == nil {
		return "the failure did not happen again"
	}
	return Trace(Shrink(f, faults), faults)
}
