package graph500

// The pseudo-random numbers of the Graph500 generator: a multiple recursive generator of order 5 modulo
// 2^31-1 (L'Ecuyer, Blouin, Couture 1993), Graph500 3.0, section "Generating the edge list".

const (
	mrgPrime = 1<<31 - 1
	mrgX     = 107374182 // multiplier of the newest value
	mrgY     = 104480    // multiplier of the oldest value
)

// mrgState holds the last five outputs, the newest first; after steps they may be larger by 2^31-1.
type mrgState [5]uint64

// mrgMatrix advances a state by some fixed number of steps.
type mrgMatrix [5][5]uint64

// mrgOneStep advances a state by one step.
var mrgOneStep = mrgMatrix{
	{mrgX, 0, 0, 0, mrgY},
	{1, 0, 0, 0, 0},
	{0, 1, 0, 0, 0},
	{0, 0, 1, 0, 0},
	{0, 0, 0, 1, 0},
}

// mrgSeed makes the initial state from the two user seeds.
func mrgSeed(s1, s2 uint64) mrgState {
	const low30 = 1<<30 - 1
	return mrgState{
		s1&low30 + 1,
		s1>>30&low30 + 1,
		s2&low30 + 1,
		s2>>30&low30 + 1,
		s2>>60<<4 + s1>>60 + 1,
	}
}

// mrgFold brings x to a number below 2^33+2^31 that is congruent to it modulo 2^31-1.
func mrgFold(x uint64) uint64 { return x&mrgPrime + x>>31 }

// mrgReduce brings x to its residue modulo 2^31-1.
func mrgReduce(x uint64) uint64 {
	x = mrgFold(mrgFold(x))
	if x >= mrgPrime {
		x -= mrgPrime
	}
	return x
}

// next makes one step and returns the new value.
func (s *mrgState) next() uint64 {
	// The new value is kept after one fold only, below 2^31+2^28, which keeps products in range; the rest of
	// the reduction is not on the path to the next step.
	n := mrgFold(mrgX*s[0] + mrgY*s[4])
	s[4], s[3], s[2], s[1], s[0] = s[3], s[2], s[1], s[0], n
	if n >= mrgPrime {
		n -= mrgPrime
	}
	return n
}

// apply returns m times s.
func (m *mrgMatrix) apply(s *mrgState) (out mrgState) {
	for i := range m {
		r := &m[i]
		// Four products of 31-bit numbers fit into 64 bits, the fifth does not: fold in between.
		sum := mrgFold(r[0]*s[0]+r[1]*s[1]+r[2]*s[2]+r[3]*s[3]) + r[4]*s[4]
		out[i] = mrgReduce(sum)
	}
	return out
}

// times returns the product m*b.
func (m *mrgMatrix) times(b *mrgMatrix) (out mrgMatrix) {
	for j := range 5 {
		column := mrgState{b[0][j], b[1][j], b[2][j], b[3][j], b[4][j]}
		column = m.apply(&column)
		for i := range 5 {
			out[i][j] = column[i]
		}
	}
	return out
}

// squared returns m^(2^k).
func (m *mrgMatrix) squared(k int) mrgMatrix {
	square := *m
	for range k {
		square = square.times(&square)
	}
	return square
}

// skip applies m n times to s by repeated squaring.
func (m *mrgMatrix) skip(s mrgState, n uint64) mrgState {
	for power := *m; n != 0; n >>= 1 {
		if n&1 != 0 {
			s = power.apply(&s)
		}
		power = power.times(&power)
	}
	return s
}
