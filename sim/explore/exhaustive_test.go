package explore

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
)

// TestExhaustive searches all runs of up to five members of which up to two die.
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
		t.Errorf("%d states: too few for a result", total.States)
	}
}

// TestSumFollowsChanges: the sum by which states are told apart depends only on their present
// contents.
func TestSumFollowsChanges(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	var c config
	for range 1000 {
		c.setMember(rng.IntN(MostExhaustive), uint32(rng.IntN(5)))
		c.setQueue(rng.IntN(len(c.queue)), uint32(rng.IntN(5)))
		var fresh config
		for p, m := range c.member {
			fresh.setMember(p, m)
		}
		for at, q := range c.queue {
			fresh.setQueue(at, q)
		}
		if c != fresh {
			t.Fatalf("sum %x, want %x of %v", c.sum, fresh.sum, c)
		}
	}
	s := search{n: MostExhaustive}
	seen := map[[2]uint64]string{}
	tell := func(what string, set func(*config)) {
		c := config{deaths: 1, losses: 1, ticks: 1, timeout: 1, sent: 1}
		set(&c)
		h := s.hash(&c)
		if other := seen[h]; other != "" {
			t.Errorf("%s has the same hash as %s", what, other)
		}
		seen[h] = what
	}
	tell("the beginning", func(*config) {})
	for p := range MostExhaustive {
		tell(fmt.Sprint("member ", p), func(c *config) { c.setMember(p, 1) })
		tell(fmt.Sprint("news at ", p), func(c *config) { c.news[p] = 1 })
	}
	for at := range len(c.queue) {
		tell(fmt.Sprint("queue ", at), func(c *config) { c.setQueue(at, 1) })
	}
	for what, set := range map[string]func(*config){
		"a dead one": func(c *config) { c.dead = 1 }, "a death": func(c *config) { c.deaths = 0 },
		"a loss": func(c *config) { c.losses = 0 }, "a tick": func(c *config) { c.ticks = 0 },
		"a timeout": func(c *config) { c.timeout = 0 }, "a message": func(c *config) { c.sent = 0 },
	} {
		tell(what, set)
	}
}
