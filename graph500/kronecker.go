package graph500

import "math/bits"

// The edge generator: Graph500 3.0, section "Generating the edge list", bit for bit as the reference code
// (initiator 0.57, 0.19, 0.19, 0.05, clip-and-flip, scrambled vertex numbers, no shuffle of the edges).

const (
	// Thresholds of the four quadrants in a draw modulo 10000: (0,1), (1,0), (0,0), (1,1).
	quadrant01   = 1900
	quadrant10   = 3800
	quadrant00   = 9500
	quadrantUnit = 10000
	// Draws below this are rejected, which leaves a multiple of 10000 equally likely values.
	quadrantReject = mrgPrime % quadrantUnit

	scrambleOr0 = 0x4519840211493211
	scrambleOr1 = 0x3050852102C843A5
)

// generator makes the edges of one graph. It is immutable, so any PE may make any edge.
type generator struct {
	scale      int
	seed       mrgState
	edgeStep   mrgMatrix // from the state of edge i to that of edge i+1: 2^64 steps
	add        uint64    // scramble: added first
	mul0, mul1 uint64    // scramble: the two odd multipliers
}

// newGenerator prepares the generator for 2^scale vertices and the two user seeds.
func newGenerator(scale int, seed [2]uint64) *generator {
	g := &generator{scale: scale, seed: mrgSeed(seed[0], seed[1])}
	g.edgeStep = mrgOneStep.squared(64)

	s := g.skip(50, 7, 0)
	draw := func() uint64 {
		// The reference multiplies by 2^32-1, not by 2^32.
		a := s.next() * 0xFFFFFFFF
		return a + s.next()
	}
	val0 := draw()
	val1 := draw()
	g.add, g.mul0, g.mul1 = val0+val1, val0|scrambleOr0, val1|scrambleOr1
	return g
}

// skip returns the seed state advanced by hi*2^128 + mid*2^64 + lo steps.
func (g *generator) skip(hi, mid, lo uint64) mrgState {
	s := g.seed
	if hi != 0 {
		big := g.edgeStep.squared(64)
		s = big.skip(s, hi)
	}
	s = g.edgeStep.skip(s, mid)
	return mrgOneStep.skip(s, lo)
}

// scramble maps a vertex number to the published one: a bijection on scale bits.
func (g *generator) scramble(v uint64) uint64 {
	down := uint(64-g.scale) & 63
	v = (v + g.add) * g.mul0
	v = bits.Reverse64(v) >> down
	v *= g.mul1
	return bits.Reverse64(v) >> down
}

// edge draws one edge from its state, and leaves the state after the last draw, from which the weight comes.
// It finds quadrants without branches, because draws are unpredictable. It keeps the state in variables,
// because steps through memory would take most of the time.
func (g *generator) edge(s *mrgState) (v0, v1 uint64) {
	z1, z2, z3, z4, z5 := s[0], s[1], s[2], s[3], s[4]
	var src, tgt uint64
	same := uint64(1) // 1 while the two numbers agree in all bits drawn so far
	for level := g.scale; level > 0; {
		z1, z2, z3, z4, z5 = mrgFold(mrgX*z1+mrgY*z5), z1, z2, z3, z4
		draw := z1
		if draw >= mrgPrime {
			draw -= mrgPrime
		}
		if draw < quadrantReject {
			continue
		}
		level--
		r := draw % quadrantUnit
		above01 := (quadrant01 - 1 - r) >> 63
		above10 := (quadrant10 - 1 - r) >> 63
		above00 := (quadrant00 - 1 - r) >> 63
		srcBit := above01&^above10 | above00
		tgtBit := 1 ^ above01 | above00
		flip := same & srcBit &^ tgtBit
		srcBit ^= flip
		tgtBit ^= flip
		same &^= srcBit ^ tgtBit
		src = src<<1 | srcBit
		tgt = tgt<<1 | tgtBit
	}
	*s = mrgState{z1, z2, z3, z4, z5}
	return g.scramble(src), g.scramble(tgt)
}

// weight draws the weight of the edge that was drawn last from s, in [0,1].
func (s *mrgState) weight() float32 {
	return float32(float64(float32(s.next())) * 0.000000000465661287524579692)
}

// fill generates the edges first, first+1, ... into dst. Each edge after the first takes one matrix product.
func (g *generator) fill(dst []tuple, first uint64) {
	state := g.skip(0, first, 0)
	for i := range dst {
		s := state
		dst[i] = pack(g.edge(&s))
		state = g.edgeStep.apply(&state)
	}
}
