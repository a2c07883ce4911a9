package graph500

// tuple is one edge of the generated list: two vertex numbers of 48 bits in 12 bytes, the layout of the
// specification's packed edge.
type tuple struct {
	low0, low1 uint32
	high       uint32 // bits 32..47 of the first vertex, above them those of the second
}

// pack makes a tuple of two vertex numbers below 2^48.
func pack(v0, v1 uint64) tuple {
	return tuple{low0: uint32(v0), low1: uint32(v1), high: uint32(v0>>32)&0xFFFF | uint32(v1>>32)<<16}
}

// ends returns both vertex numbers.
func (t tuple) ends() (v0, v1 uint64) {
	return uint64(t.low0) | uint64(t.high&0xFFFF)<<32, uint64(t.low1) | uint64(t.high>>16)<<32
}

// shareOf returns the half-open range of the n tuples that a PE generates and keeps: contiguous, sizes
// differing by at most one.
func shareOf(n uint64, pe, pes int) (from, to uint64) {
	whole, rest := n/uint64(pes), n%uint64(pes)
	p := uint64(pe)
	from = p*whole + min(p, rest)
	to = from + whole
	if p < rest {
		to++
	}
	return from, to
}
