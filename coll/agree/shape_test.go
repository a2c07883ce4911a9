package agree

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

// shape is how the survivors of many trials ended, in percent.
type shape struct {
	decided, undecided, blocked float64
	differ                      float64 // a dead member had returned a different result
	messages                    float64 // messages per trial
}

// victims says which members die.
type victims struct {
	name   string
	root   bool
	others int
	lossy  bool
}

// shapeOf runs trials of one agreement that all members call at the same time. The victims die at
// moments spread evenly over those of a run without failures. The news of a death comes after the
// messages of the dead.
func shapeOf(t *testing.T, cfg Config, v victims, trials int) shape {
	t.Helper()
	moments := trial(t, func(verbose bool) *world { return newWorld(cfg, 1, verbose) }).moment
	var s shape
	for seed := range uint64(trials) {
		w := trial(t, func(verbose bool) *world {
			rng := rand.New(rand.NewPCG(seed, 5))
			w := newWorld(cfg, seed, verbose)
			w.last, w.atOnce, w.lossy = true, true, v.lossy
			w.deaths = map[int]int{}
			order := rng.Perm(cfg.N)
			if v.root {
				i := slices.Index(order, 0)
				order[0], order[i] = order[i], order[0]
			}
			dying := v.others
			if v.root {
				dying++
			}
			for _, p := range order[:dying] {
				w.deaths[cfg.N+1+rng.IntN(moments-cfg.N)] = p
			}
			return w
		})
		s.count(w)
	}
	for _, x := range []*float64{&s.decided, &s.undecided, &s.blocked, &s.differ} {
		*x *= 100 / float64(trials)
	}
	s.messages /= float64(trials)
	return s
}

// count adds a trial, in which all survivors have the same end.
func (s *shape) count(w *world) {
	s.messages += float64(w.messages)
	var outcome *Decision
	for _, pr := range w.procs {
		if pr.alive && len(pr.out) > 0 {
			outcome = &pr.out[0]
		}
	}
	switch {
	case outcome == nil:
		s.blocked++
		return
	case outcome.Outcome == Decided:
		s.decided++
	default:
		s.undecided++
	}
	for _, pr := range w.procs {
		if len(pr.out) > 0 && (pr.out[0].Outcome != outcome.Outcome || pr.out[0].Vote != outcome.Vote || !slices.Equal(pr.out[0].Failed, outcome.Failed)) {
			s.differ++
			return
		}
	}
}

// TestShape logs how agreements end when members die during them. Two-phase commit has to show
// what its termination protocol is known to leave open. No trial may end in two ways; count checks
// that.
func TestShape(t *testing.T) {
	t.Parallel()
	trials := 1000
	if testing.Short() {
		trials = 300
	}
	who := []victims{
		{name: "none"},
		{name: "1 random", others: 1},
		{name: "the root", root: true},
		{name: "the root, lossy", root: true, lossy: true},
		{name: "root + 2, lossy", root: true, others: 2, lossy: true},
	}
	t.Logf("%3s  %-16s %-8s %9s %9s %9s %9s %9s", "n", "victims", "", "DECIDED", "UNDECIDED", "BLOCKED", "differ", "messages")
	sizes := []int{8, 16, 64}
	if testenv.Race {
		sizes = sizes[:1] // one goroutine does everything
	}
	for _, n := range sizes {
		for _, v := range who {
			for _, cfg := range []Config{{Algorithm: Linear, N: n}, {Algorithm: Log, N: n}, {Algorithm: EarlyReturning, N: n}, {Algorithm: EarlyReturning, N: n, Durable: true}} {
				if n > 16 && cfg.Algorithm == Linear {
					continue // the number of questions grows with the square of n
				}
				s := shapeOf(t, cfg, v, trials/max(1, n/16))
				t.Logf("%3d  %-16s %-13s %6.2f %9.2f %9.2f %9.2f %9.1f", n, v.name, nameOf(cfg), s.decided, s.undecided, s.blocked, s.differ, s.messages)
				compareShape(t, cfg, v, s)
			}
		}
	}
}

func compareShape(t *testing.T, cfg Config, v victims, s shape) {
	t.Helper()
	within := func(what string, x, low, high float64) {
		if x < low || x > high {
			t.Errorf("%s, n = %d, %s dies: %s %.1f %%, want %.0f to %.0f", nameOf(cfg), cfg.N, v.name, what, x, low, high)
		}
	}
	switch {
	case cfg.Algorithm == EarlyReturning, v.name == "none":
		within("DECIDED", s.decided, 100, 100)
		if cfg.Durable {
			within("contradicted by the dead", s.differ, 0, 0)
		}
	case cfg.Algorithm == Log && v.root && v.others == 0 && cfg.N < 64:
		within("UNDECIDED", s.undecided, 20, 55)
		within("BLOCKED", s.blocked, 5, 25)
	case !v.root:
		within("DECIDED", s.decided, 90, 100)
	}
}
