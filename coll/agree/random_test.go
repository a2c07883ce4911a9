package agree

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

// configs returns all configurations for n members.
func configs(n, k int) []Config {
	var all []Config
	for _, rebalance := range []bool{false, true} {
		for _, promote := range []bool{false, true} {
			all = append(all,
				Config{Algorithm: Linear, N: n, Rebalance: rebalance, Promote: promote},
				Config{Algorithm: Log, N: n, Radix: k, Rebalance: rebalance, Promote: promote},
				Config{Algorithm: Log, N: n, Radix: k, Rebalance: rebalance, Promote: promote, AskAll: true},
			)
		}
		for _, durable := range []bool{false, true} {
			all = append(all, Config{Algorithm: EarlyReturning, N: n, Radix: k, Rebalance: rebalance, Durable: durable})
		}
	}
	return all
}

func nameOf(c Config) string {
	name := [...]string{Linear: "linear", Log: "log", EarlyReturning: "early"}[c.Algorithm]
	for _, option := range []struct {
		on   bool
		name string
	}{{c.Rebalance, "rebalance"}, {c.Promote, "promote"}, {c.AskAll, "askall"}, {c.Durable, "durable"}} {
		if option.on {
			name += "-" + option.name
		}
	}
	return name
}

// TestRandomSchedules runs every configuration under schedules with many deaths.
func TestRandomSchedules(t *testing.T) {
	t.Parallel()
	trials := testenv.Rounds(4000)
	if testing.Short() {
		trials = testenv.Rounds(500)
	}
	for i, c := range configs(1, 0) {
		t.Run(nameOf(c), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(trials) {
				trial(t, func(verbose bool) *world { return randomWorld(c, seed, uint64(i), verbose) })
			}
		})
	}
}

// randomWorld makes a world of up to 9 members, sometimes up to 64, of which up to 8 die: random
// ones, or always the lowest. Linear configurations, in which all members ask all others, get half
// as many, because all leaves are alike.
func randomWorld(cfg Config, seed, stream uint64, verbose bool) *world {
	rng := rand.New(rand.NewPCG(seed, stream))
	cfg.N = 1 + rng.IntN(9)
	if seed%16 == 0 {
		cfg.N = 1 + rng.IntN(64)
		if cfg.Algorithm == Linear {
			cfg.N = (cfg.N + 1) / 2
		}
	}
	cfg.Radix = 2 + rng.IntN(3)
	if rng.IntN(4) == 0 {
		cfg.Ticks = 2
	}
	w := newWorld(cfg, seed, verbose)
	w.rounds = 1 + rng.IntN(5)
	w.lossy, w.last = rng.IntN(2) == 0, rng.IntN(3) == 0
	if cfg.Ticks > 0 {
		w.ticks = 30
	}
	w.kills, w.root = rng.IntN(min(cfg.N, 9)), rng.IntN(3) == 0
	return w
}

// TestFaultFreeMessages. Section 4: the paper's tree needs 2(N-1) messages, and "no additional
// messages were added".
func TestFaultFreeMessages(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 3, 8, 16, 17, 64} {
		for _, c := range configs(n, 2) {
			t.Run(fmt.Sprintf("%s-%d", nameOf(c), n), func(t *testing.T) {
				w := trial(t, func(verbose bool) *world {
					w := newWorld(c, 1, verbose)
					w.rounds = 3
					return w
				})
				want := w.rounds * 2 * (n - 1)
				if c.Durable {
					want *= 2 // plus an acknowledgement up and a commit down
				}
				if w.messages != want {
					t.Errorf("%d messages, want %d", w.messages, want)
				}
			})
		}
	}
}
