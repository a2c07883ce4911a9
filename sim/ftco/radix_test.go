package ftco

import (
	"testing"

	"github.com/goshmem/goshmem/coll/tree"
)

// The recurrence of coll/tree, from which a job's radix is chosen, says to the step how long a broadcast of the machines
// that nodes use takes in the simulator: for each k, each number of nodes, and a cheap, the paper's and a long latency.
// The k that is best for a broadcast is at most one step from the best for an allreduce. That takes up to as long as two
// broadcasts: where a tree is not full, a node's widest subtree may not be the slowest.
func TestRadixOfRecurrence(t *testing.T) {
	t.Parallel()
	most := 40
	if testing.Short() {
		most = 20
	}
	for _, latency := range []int{1, 10, 100} {
		p := tree.LogP{Latency: latency, Overhead: 1}
		for n := 2; n <= most; n++ {
			took, least := map[int]float64{}, 0.0
			for k := 2; k <= n; k++ {
				tr, err := tree.NewKnomial(n, k)
				if err != nil {
					t.Fatal(err)
				}
				run := func(collective string) float64 {
					return runReport(t, func(o *Options) {
						o.Config, o.Roots, o.Collective = "shipped", "single", collective
						o.Nodes, o.Radix, o.Latency, o.Parallel = n, k, latency, 1
					}).Latency.Mean
				}
				bcast := p.BcastKnomial(tr)
				if got := run("bcast"); got != float64(bcast) {
					t.Errorf("L = %d, %d nodes, k = %d: the simulated broadcast takes %v steps, want %d by the recurrence", latency, n, k, got, bcast)
				}
				took[k] = run("allreduce")
				if took[k] > float64(2*bcast) {
					t.Errorf("L = %d, %d nodes, k = %d: the simulated allreduce takes %v steps, want at most %d", latency, n, k, took[k], 2*bcast)
				}
				if k == 2 || took[k] < least {
					least = took[k]
				}
			}
			k, _, err := p.BestKnomial(n, n)
			if err != nil {
				t.Fatal(err)
			}
			if took[k] > least+1 {
				t.Errorf("L = %d, %d nodes: k = %d takes %v steps of an allreduce, want the least, %v, or one more", latency, n, k, took[k], least)
			}
		}
	}
}
