package explore

import (
	"flag"
	"fmt"
	"runtime"
	"testing"
)

// mutant says that the machines are built with a mistake, and how to find it.
var mutant = flag.String("mutant", "", `hunt for a mistake that was built in, by "search", and by schedules then, or by them alone: "random"`)

// TestShipped is the test that each mutant has to fail: small searches and some schedules.
func TestShipped(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("TestExhaustive and TestRandom cover this")
	}
	var all []Scenario
	if *mutant != "" { // otherwise they are among those of TestExhaustive
		all = FTCOScenarios(mutantNodes, mutantDeaths)
	}
	hunt(t, all, DrawFTCO, Limits{Nodes: 16, Deaths: 4, Calls: 4}, Limits{Nodes: 6, Deaths: 4, Calls: 5})
}

// These are the sizes of the searches for mutants.
const mutantNodes, mutantDeaths = 4, 2

// TestMutantScenarios: every scenario that is searched for mutants is also searched without one.
func TestMutantScenarios(t *testing.T) {
	t.Parallel()
	name := func(s *Scenario) string { return fmt.Sprintf("%v %+v", s.System, s.Faults) }
	full := map[string]bool{}
	for _, s := range FTCOScenarios(5, 2) {
		full[name(&s)] = true
	}
	for _, s := range FTCOScenarios(mutantNodes, mutantDeaths) {
		if !full[name(&s)] {
			t.Errorf("TestExhaustive has no %s", name(&s))
		}
	}
}

// TestAgreeShipped is the same for agreement.
func TestAgreeShipped(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("TestAgreeExhaustive and TestAgreeRandom cover this")
	}
	all := append(AgreeScenarios(3, 2), agreeScenarios(4, 1, 2)...)
	hunt(t, all, DrawAgree, Limits{Nodes: 6, Deaths: 5, Calls: 5}, Limits{Nodes: 16, Deaths: 4, Calls: 3})
}

// hunt searches all scenarios and some schedules, and reports what it finds.
func hunt(t *testing.T, all []Scenario, draw func(Limits) Draw, limits ...Limits) {
	t.Helper()
	states := 0
	if *mutant == "random" {
		all = nil
	}
	f := Search(t.Context(), all, runtime.GOMAXPROCS(0), func(r *Result) {
		states += r.States
		if r.Failure != nil {
			t.Errorf("FOUND in %v after %d states of all scenarios: %v\n%s", r.System, states, r.Failure.Err, Trace(Shrink(r.Failure, r.Faults), r.Faults))
		}
	})
	if f != nil {
		return
	}
	for _, l := range limits {
		schedules, seed, f := RandomAll(t.Context(), draw(l), 1, 10000, runtime.GOMAXPROCS(0))
		if f != nil {
			t.Errorf("FOUND by seed %d after %d schedules: %v\n%s", seed, schedules, f.Err, explain(draw(l), seed))
			return
		}
	}
}
