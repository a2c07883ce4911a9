package explore

import (
	"flag"
	"runtime"
	"testing"
	"time"
)

// schedules is how many schedules TestRandom runs.
var schedules = flag.Int("schedules", 30_000, "how many random schedules of collectives TestRandom runs")

// TestRandom runs schedules with the seeds from 1 on. Each depends only on its seed.
func TestRandom(t *testing.T) {
	t.Parallel()
	l, count := Limits{Nodes: 64, Deaths: 8, Calls: 6}, *schedules
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
