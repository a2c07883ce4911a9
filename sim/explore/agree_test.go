package explore

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/coll/agree"
	"github.com/goshmem/goshmem/internal/house/testenv"
)

// TestAgreeExhaustive searches all runs of small groups.
func TestAgreeExhaustive(t *testing.T) {
	t.Parallel()
	sizes := map[string][]Scenario{
		"n=1,rounds=3":                agreeScenarios(1, 3, 0),
		"n=2,rounds=3,deaths=1":       agreeScenarios(2, 3, 1),
		"n=3,rounds=3,deaths=2":       agreeScenarios(3, 3, 2),
		"n=4,rounds=1,deaths=3":       agreeScenarios(4, 1, 3),
		"n=2,rounds=3,deaths=1,lossy": agreeLossy(2),
		"n=3,rounds=2,deaths=1,lossy": agreeLossy(3),
		"n=4,rounds=1,deaths=1,lossy": agreeLossy(4),
	}
	if !testing.Short() {
		sizes["n=4,rounds=2,deaths=2"] = agreeScenarios(4, 2, 2)
		sizes["n=5,rounds=1,deaths=2,early"] = slices.DeleteFunc(agreeScenarios(5, 1, 2), func(s Scenario) bool {
			a, ok := s.System.(*Agree)
			return !ok || a.Config.Algorithm != agree.EarlyReturning // the others: docs/explore.md
		})
	}
	for name, all := range sizes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if strings.HasPrefix(name, "n=4") || name == "n=3,rounds=3,deaths=2" {
				testenv.SkipSerial(t)
			}
			var total Count
			for _, s := range all {
				count, f := Exhaustive(t.Context(), s.System, s.Faults)
				if f != nil {
					t.Error(Trace(Shrink(f, s.Faults), s.Faults))
				}
				total.States += count.States
				total.Transitions += count.Transitions
				total.Ends += count.Ends
			}
			t.Logf("%d scenarios: %+v", len(all), total)
		})
	}
}

// TestAgreeRandom draws schedules of groups that are too large for a full search.
func TestAgreeRandom(t *testing.T) {
	t.Parallel()
	schedules := 20000
	if testing.Short() {
		schedules = 1000
	}
	draw := DrawAgree(Limits{Nodes: MostNodes, Deaths: 8, Calls: 3})
	if count, seed, f := RandomAll(t.Context(), draw, 1, schedules, runtime.GOMAXPROCS(0)); f != nil {
		t.Errorf("seed %d, after %d schedules: %v\n%s", seed, count, f.Err, explain(draw, seed))
	}
}
