package ftco

import (
	"math"
	"math/rand/v2"

	"github.com/goshmem/goshmem/sim/logp"
)

// drawRun draws the random part of a run: when nodes start, and which nodes fail when. Times are in
// units of the overhead.
func (o *Options) drawRun(cfg *logp.Config, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0x6c6f6770))
	cfg.Deaths = cfg.Deaths[:0]
	if o.Spread > 0 {
		if cfg.Starts == nil {
			cfg.Starts = make([]int32, o.Nodes)
		}
		o.drawStarts(r, cfg.Starts)
	}
	// Nodes are drawn with replacement, as the original draws them.
	for range o.Inactive {
		cfg.Deaths = append(cfg.Deaths, logp.Death{Node: o.drawVictim(r), Step: logp.Inactive})
	}
	// Failures come so early that all are in the reduce phase, as in the original.
	until := o.Latency / o.Overhead * (1 + int(math.Log10(float64(o.Nodes))))
	for range o.Online {
		cfg.Deaths = append(cfg.Deaths, logp.Death{Node: o.drawVictim(r), Step: int32(r.IntN(until))})
	}
}

// drawVictim draws any node but the first: "one designated (root) node is immune".
func (o *Options) drawVictim(r *rand.Rand) int32 { return 1 + r.Int32N(int32(o.Nodes-1)) }

// drawStarts draws the starts from U[0, spread), or from a normal distribution. Its standard deviation
// is a tenth of the spread, and its mean is as far from 0 as the original's generator could go below
// the mean.
func (o *Options) drawStarts(r *rand.Rand, starts []int32) {
	spread := float64(o.Spread) / float64(o.Overhead)
	for i := range starts {
		if o.Dist == "uniform" {
			starts[i] = int32(r.Float64() * spread)
			continue
		}
		starts[i] = int32(max(0, (6.2+r.NormFloat64())*math.Floor(spread/10)))
	}
}
