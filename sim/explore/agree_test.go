package explore

import (
	"fmt"
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
