package explore

import (
	"runtime"
	"testing"
	"time"
)

// TestExhaustive searches all runs of up to five members of whom two die.
func TestExhaustive(t *testing.T) {
	t.Parallel()
	start, total, of, nodes, least := time.Now(), Count{}, 0, 5, 5_000_000
	if testing.Short() {
		nodes, least = 3, 50_000
	}
	f := Search(t.Context(), FTCOScenarios(nodes, 2), runtime.GOMAXPROCS(0), func(r *Result) {
		t.Logf("%-60v %+v %+v %.2fs", r.System, r.Faults, r.Count, r.Time.Seconds())
		of++
		total.States += r.States
		total.Transitions += r.Transitions
		total.Ends += r.Ends
		if r.Failure != nil {
			t.Error(Trace(Shrink(r.Failure, r.Faults), r.Faults))
		}
	})
	t.Logf("%d scenarios, %d states, %d transitions, %d ends, %.1f s", of, total.States, total.Transitions, total.Ends, time.Since(start).Seconds())
	if f == nil && (total.States < least) {
		t.Errorf("%d states: too few to say anything", total.States)
	}
}
