package explore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goshmem/goshmem/coll/ftco"
)

// Scenario is what one exhaustive search covers.
type Scenario struct {
	System System
	Faults Faults
}

// Result is the result of one exhaustive search.
type Result struct {
	Scenario
	Count
	Time    time.Duration
	Failure *Failure
}

// FTCOScenarios returns scenarios of one operation and of two in succession: each kind and each tree of
// up to nodes members, of which up to deaths die.
func FTCOScenarios(nodes, deaths int) []Scenario {
	var all []Scenario
	for n := 1; n <= nodes; n++ {
		f := Faults{Deaths: min(deaths, n-1)}
		for k := 2; k <= max(2, n-1); k++ {
			if k > 2 && k < n-1 && sameTree(n, k, k-1) {
				continue
			}
			for _, c := range calls(n) {
				all = append(all, Scenario{&FTCO{Size: n, Radix: k, Sequence: []ftco.Call{c}}, Faults{}})
				if f.Deaths > 0 {
					all = append(all, Scenario{&FTCO{Size: n, Radix: k, Sequence: []ftco.Call{c}}, f})
				}
			}
			if n > 1 && n <= 4 {
				all = append(all, inSuccession(n, k, f)...)
			}
		}
		if n > 1 && n <= 4 {
			all = append(all, lossy(n)...)
		}
	}
	return all
}

// sameTree reports whether k-nomial and l-nomial trees of n members are the same.
func sameTree(n, k, l int) bool { return k >= n && l >= n }

// calls returns a call of each kind, among them strict ones and one with another root.
func calls(n int) []ftco.Call {
	var all []ftco.Call
	for _, uniform := range []bool{false, true} {
		for kind := ftco.Allreduce; kind <= ftco.Barrier; kind++ {
			all = append(all, ftco.Call{Kind: kind, Uniform: uniform})
		}
		all = append(all, ftco.Call{Kind: ftco.Reduce, Root: ftco.Node(n - 1), Uniform: uniform})
		all = append(all, ftco.Call{Kind: ftco.Allreduce, Strict: true, Uniform: uniform})
	}
	return all
}

// inSuccession returns scenarios of two calls of mixed kinds and roots, and one with a broadcast that
// gathers because it is the eighth in succession.
func inSuccession(n, k int, f Faults) []Scenario {
	list := []ftco.Call{
		{Kind: ftco.Allreduce},
		{Kind: ftco.Allreduce, Uniform: true},
		{Kind: ftco.Reduce, Root: ftco.Node(n - 1)},
		{Kind: ftco.Bcast},
		{Kind: ftco.Bcast, Root: 1},
		{Kind: ftco.Bcast, Root: 1, Uniform: true},
	}
	var all []Scenario
	for _, a := range list {
		for _, b := range list {
			all = append(all, Scenario{&FTCO{Size: n, Radix: k, Sequence: []ftco.Call{a, b}}, f})
		}
	}
	if n <= 3 {
		eight := make([]ftco.Call, 9)
		for i := range eight {
			eight[i] = ftco.Call{Kind: ftco.Bcast, Root: ftco.Node(i % 2)}
		}
		all = append(all, Scenario{&FTCO{Size: n, Radix: k, Sequence: eight}, Faults{Deaths: 1}})
	}
	if n == 3 {
		all = append(all, Scenario{&FTCO{Size: n, Radix: k, Sequence: farAhead()}, Faults{}})
	}
	return all
}

// farAhead returns broadcasts in which member 2 gets as far ahead of member 0 as is possible. Member 1
// delivers the 16th, which gathers. Member 2 makes those after it on its own and contributes to the
// 24th, whose root is member 0, which may still wait for the 16th.
func farAhead() []ftco.Call {
	calls := make([]ftco.Call, 24)
	for i := range calls {
		calls[i] = ftco.Call{Kind: ftco.Bcast, Root: 1}
		if i >= 16 {
			calls[i].Root = 2
		}
	}
	calls[23].Root = 0
	return calls
}

// lossy returns scenarios in which one message between living members is lost, clocks tick early, and
// members may die.
func lossy(n int) []Scenario {
	var all []Scenario
	f := Faults{Deaths: 1, Losses: 1, Ticks: 1, Timeouts: 12}
	if n == 4 {
		f.Ticks = 0
	}
	for _, c := range calls(n) {
		all = append(all, Scenario{&FTCO{Size: n, Radix: 2, KeepAlive: 1, Sequence: []ftco.Call{c}}, f})
	}
	if f.Ticks, f.Deaths = 0, 2; n == 4 { // the root's successor has a node below
		for _, c := range []ftco.Call{{Kind: ftco.Allreduce}, {Kind: ftco.Allreduce, Uniform: true}} {
			all = append(all, Scenario{&FTCO{Size: n, Radix: 2, KeepAlive: 1, Sequence: []ftco.Call{c}}, f})
		}
	}
	return all
}

// Search searches all scenarios on a number of cores. It passes each result to show, in order, up to the
// first failure, which it returns.
func Search(ctx context.Context, all []Scenario, cores int, show func(*Result)) *Failure {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make([]chan *Result, len(all))
	for i := range results {
		results[i] = make(chan *Result, 1)
	}
	var (
		next atomic.Int64
		wg   sync.WaitGroup
	)
	for range cores {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(all) {
					return
				}
				start := time.Now()
				r := &Result{Scenario: all[i]}
				r.Count, r.Failure = Exhaustive(ctx, all[i].System, all[i].Faults)
				r.Time = time.Since(start)
				results[i] <- r
			}
		})
	}
	defer wg.Wait()
	for i := range all {
		r := <-results[i]
		show(r)
		if r.Failure != nil {
			cancel()
			return r.Failure
		}
	}
	return nil
}
