package explore

import (
	"math/rand/v2"

	"github.com/goshmem/goshmem/coll/ftco"
)

// Limits are the limits of what is drawn.
type Limits struct{ Nodes, Deaths, Calls int }

// DrawFTCO draws up to l.Calls calls of any kind among up to l.Nodes members, of which up to l.Deaths
// die. In one of eight scenarios messages are lost, and clocks tick.
func DrawFTCO(l Limits) Draw {
	return func(rng *rand.Rand) (System, Faults) {
		n := 1 + rng.IntN(min(l.Nodes, 8))
		if rng.IntN(4) == 0 {
			n = 1 + rng.IntN(l.Nodes)
		}
		sys := &FTCO{Size: n, Radix: 2 + rng.IntN(4)}
		if rng.IntN(8) == 0 {
			sys.Radix = 2 + rng.IntN(n)
		}
		calls := 1 + rng.IntN(l.Calls)
		if rng.IntN(16) == 0 {
			calls = 20 // longer than the ring of operations
		}
		bcasts := rng.IntN(3) == 0
		for range calls {
			c := ftco.Call{Kind: ftco.Kind(1 + rng.IntN(4)), Uniform: rng.IntN(3) == 0, Strict: rng.IntN(5) == 0, Tag: rng.Uint32()}
			if bcasts && rng.IntN(8) > 0 {
				c.Kind = ftco.Bcast
			}
			if c.Kind == ftco.Reduce || c.Kind == ftco.Bcast {
				c.Root = ftco.Node(rng.IntN(n))
			}
			sys.Sequence = append(sys.Sequence, c)
		}
		faults := Faults{Deaths: rng.IntN(1 + min(n-1, l.Deaths))}
		if rng.IntN(8) == 0 {
			sys.KeepAlive = 1 + rng.IntN(3)
			faults.Losses, faults.Ticks = rng.IntN(2), rng.IntN(4)
			faults.Timeouts = timeouts(sys.KeepAlive, faults)
		}
		sys.Thrifty = sys.KeepAlive == 0
		return sys, faults
	}
}

// timeouts returns how often all clocks may tick when nothing else can happen. It is often enough for
// all members to return if machines ask after a number of ticks.
func timeouts(ticks int, f Faults) int { return 4 * ticks * (2 + f.Losses) * (1 + f.Deaths) }
