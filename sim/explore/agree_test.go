package explore

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/goshmem/goshmem/coll/agree"
)

// TestAgreeExhaustive searches all runs of small groups.
func TestAgreeExhaustive(t *testing.T) {
	t.Parallel()
	type size struct{ n, rounds, deaths int }
	sizes := []size{{1, 3, 0}, {2, 3, 1}, {3, 3, 2}, {4, 1, 3}}
	if !testing.Short() {
		sizes = append(sizes, size{4, 2, 2})
	}
	for _, size := range sizes {
		t.Run(fmt.Sprintf("n=%d,rounds=%d,deaths=%d", size.n, size.rounds, size.deaths), func(t *testing.T) {
			t.Parallel()
			var total Count
			for _, c := range agreements() {
				if c.Algorithm == agree.Linear && size.n > 4 {
					continue // its leaves are all alike, and in every order
				}
				c.N, c.Radix = size.n, 2
				faults := Faults{Deaths: size.deaths}
				count, f := Exhaustive(t.Context(), &Agree{Config: c, Rounds: size.rounds}, faults)
				if f != nil {
					t.Error(Trace(Shrink(f, faults), faults))
				}
				total.States += count.States
				total.Transitions += count.Transitions
				total.Ends += count.Ends
			}
			t.Logf("%+v", total)
		})
	}
}

// TestAgreeRandom draws schedules of groups that are too large for a search.
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
