package explore

import (
	"math/rand/v2"

	"github.com/goshmem/goshmem/coll/agree"
)

// agreements returns all kinds of agreement.
func agreements() []agree.Config {
	var all []agree.Config
	for _, rebalance := range []bool{false, true} {
		for _, option := range []bool{false, true} {
			all = append(all,
				agree.Config{Algorithm: agree.Linear, Rebalance: rebalance, Promote: option},
				agree.Config{Algorithm: agree.Log, Rebalance: rebalance, Promote: option},
				agree.Config{Algorithm: agree.Log, Rebalance: rebalance, AskAll: true, Promote: option},
				agree.Config{Algorithm: agree.EarlyReturning, Rebalance: rebalance, Durable: option},
			)
		}
	}
	return all
}

// mostVoters is the number of members whose votes a payload can count.
const mostVoters = len(agree.Vote{}.Payload)

// DrawAgree draws up to l.Calls rounds of any kind of agreement among up to l.Nodes members, of which up
// to l.Deaths die. In one of three scenarios of early-returning agreement messages are lost, and
// clocks tick.
func DrawAgree(l Limits) Draw {
	return func(rng *rand.Rand) (System, Faults) {
		c := agreements()[rng.IntN(len(agreements()))]
		most := min(l.Nodes, mostVoters)
		c.N, c.Radix = 1+rng.IntN(min(most, 8)), 2+rng.IntN(3)
		if rng.IntN(4) == 0 {
			c.N = 1 + rng.IntN(most)
		}
		faults := Faults{Deaths: rng.IntN(1 + min(c.N-1, l.Deaths))}
		if c.Algorithm == agree.EarlyReturning && rng.IntN(3) == 0 {
			c.Ticks = 1 + rng.IntN(3)
			faults.Losses, faults.Ticks = rng.IntN(3), rng.IntN(4)
			faults.Timeouts = timeouts(c.Ticks, faults)
		}
		return &Agree{Config: c, Rounds: 1 + rng.IntN(l.Calls)}, faults
	}
}

// AgreeScenarios returns, for each kind of agreement, three rounds of up to three members, two rounds of
// four members, and one round of more. It adds early-returning agreements of two to four members in
// which one message between living members is lost and clocks tick.
func AgreeScenarios(nodes, deaths int) []Scenario {
	var all []Scenario
	for n := 1; n <= nodes; n++ {
		all = append(all, agreeScenarios(n, max(1, min(3, 6-n)), min(deaths, n-1))...)
		if n >= 2 && n <= 4 {
			all = append(all, agreeLossy(n)...)
		}
	}
	return all
}

// agreeLossy returns early-returning agreements of n members in which a message is lost, a clock ticks
// early, and one member may die.
func agreeLossy(n int) []Scenario {
	var all []Scenario
	for _, c := range agreements() {
		if c.Algorithm == agree.EarlyReturning {
			c.N, c.Radix, c.Ticks = n, 2, 1
			all = append(all, Scenario{&Agree{Config: c, Rounds: 5 - n}, Faults{Deaths: 1, Losses: 1, Ticks: 1, Timeouts: 12}})
		}
	}
	return all
}

// agreeScenarios returns a number of rounds of n members for each kind of agreement. More than four
// members agree once, by those kinds for which that number makes a difference.
func agreeScenarios(n, rounds, deaths int) []Scenario {
	var all []Scenario
	for _, c := range agreements() {
		if n > 4 && (c.Algorithm == agree.Linear || c.Rebalance && c.Algorithm == agree.Log) {
			continue // Linear would be leaves in every order; a new tree would not be used
		}
		c.N, c.Radix = n, 2
		all = append(all, Scenario{&Agree{Config: c, Rounds: rounds}, Faults{}})
		if deaths > 0 {
			all = append(all, Scenario{&Agree{Config: c, Rounds: rounds}, Faults{Deaths: deaths}})
		}
	}
	return all
}

// Root returns the first coordinator. When it dies, the next living member follows.
func (s *Agree) Root(int) int { return 0 }
